"""A convolution, group normalisation and ReLU: the block of the paper's larger networks."""

from torch import Tensor, nn

from ._fused import norm_relu
from ._same_padding import SameConv2d, same_convolution

EPSILON = 1e-6  # the authors' code


class NormReLU(nn.GroupNorm):
    """Group normalisation and ReLU, in few passes over memory where the device allows."""

    def __init__(self, n_groups: int, n_channels: int) -> None:
        super().__init__(n_groups, n_channels, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the normalised images without their negative part."""
        return norm_relu(x, None, self.weight, self.bias, self.num_groups, self.eps)


class ConvNormReLU(nn.Module):
    """A "same" convolution with a bias, group normalisation and ReLU.

    The bias is added by the normalisation, which spares a pass over the images.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        *,
        n_groups: int = 4,
    ) -> None:
        super().__init__()
        self.conv = SameConv2d(in_channels, out_channels, kernel, stride)
        self.norm = NormReLU(n_groups, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the images' features, without negative ones."""
        norm = self.norm
        y = same_convolution(x, self.conv.weight, None, self.conv.stride)
        return norm_relu(y, self.conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps)
