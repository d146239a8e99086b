"""A convolution, group normalisation and ReLU as one block, and one for drawings of two colours."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._ops import norm_relu
from ...modules import split_components
from ._same_padding import SameConv2d, TwoColourImage, same_convolution

EPSILON = 1e-6  # the authors' code


class NormReLU(nn.GroupNorm):
    """Group normalisation and ReLU, in few passes over memory where the device allows."""

    def __init__(self, n_groups: int, n_channels: int) -> None:
        super().__init__(n_groups, n_channels, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
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

    def forward(self, x: Tensor | TwoColourImage) -> Tensor:
        norm = self.norm
        y = same_convolution(x, self.conv.weight, None, self.conv.stride)
        return norm_relu(y, self.conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps)

    def forward_stacked(self, stacked: Mapping[str, Tensor], x: Tensor | TwoColourImage) -> Tensor:
        """Returns what several make of one input, as one convolution with more channels."""
        weight = stacked["conv.weight"]  # [C, O, I, H, W]
        y = same_convolution(x, weight.flatten(0, 1), None, self.conv.stride)
        bias, scale, shift = (
            stacked[name].flatten() for name in ("conv.bias", "norm.weight", "norm.bias")
        )
        n_groups = self.norm.num_groups * weight.shape[0]
        return split_components(norm_relu(y, bias, scale, shift, n_groups, self.norm.eps), weight)


class TwoColourStem(nn.Module):
    """`ConvNormReLU` of single pixels, of one channel, which makes two colours of ink on paper.

    Images of type ``bool``, ink being true, become a `TwoColourImage`, which the layer behind has
    to take; others are treated as by any block.
    """

    accepted_dtypes = (torch.bool,)

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.conv = SameConv2d(1, n_channels, 1)
        self.norm = NormReLU(4, n_channels)

    def forward(self, x: Tensor) -> Tensor | TwoColourImage:
        """Returns the features of images ``[B, 1, H, W]``."""
        conv, norm = self.conv, self.norm
        if x.dtype == torch.bool:
            return self._two_colours(x)
        y = same_convolution(x, conv.weight, None, conv.stride)
        return norm_relu(y, conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps)

    def _two_colours(self, ink: Tensor) -> TwoColourImage:
        conv, norm = self.conv, self.norm
        assert conv.bias is not None
        bias = conv.bias.to(norm.weight.dtype)
        alone = torch.stack([bias, bias + conv.weight.flatten()])  # paper and ink, [2, C]
        share = ink.flatten(1).to(bias.dtype).mean(1, keepdim=True)
        shares = torch.cat([1 - share, share], dim=1).unsqueeze(2)  # [B, 2, 1]
        # The statistics over all pixels are those of two colours in these shares.
        by_group = alone.unflatten(1, (norm.num_groups, -1))  # [2, G, C / G]
        mean = (shares * by_group.mean(2)).sum(1)  # [B, G]
        centred = by_group - mean[:, None, :, None]  # [B, 2, G, C / G]
        variance = (shares * centred.square().mean(3)).sum(1)  # [B, G]
        normalised = centred / (variance + norm.eps).sqrt()[:, None, :, None]
        colours = F.relu(normalised.flatten(2) * norm.weight + norm.bias)
        # Channels last, as convolutions take them.
        marks = torch.stack([~ink, ink], dim=-1).to(conv.weight.dtype).squeeze(1).movedim(-1, 1)
        return TwoColourImage(marks, colours)
