"""Two-colour images, which take far fewer products than other images.

Behind a stem that looks at one pixel at a time, an image of ink on paper has two colours, each a
number for every channel. A convolution of many channels is then one of two, with kernels that meet
the colours first: the same sums, in another order.
"""

from typing import NamedTuple

from torch import Tensor

from ..._ops import own_kernels
from ._padding import same_window


class TwoColourImage(NamedTuple):
    """Images ``[B, C, H, W]`` of few colours. Outside of them there is nothing, not even paper."""

    marks: Tensor  # [B, K, H, W]: how much of each colour a pixel has
    colours: Tensor  # [B, K, C]

    def convolved(self, weight: Tensor, stride: int = 1) -> Tensor:
        """Returns what kernels ``[O, C, h, w]`` make of it under "same" padding."""
        n_outputs, n_channels, *size = weight.shape
        # Channels last, as large kernels lie in training.
        rows = weight.permute(0, 2, 3, 1).reshape(-1, n_channels)
        met = self.colours.to(weight.dtype) @ rows.T  # [B, K, O * h * w]
        kernels = met.view(*met.shape[:2], n_outputs, *size).transpose(1, 2)
        return own_kernels(self.marks, kernels, same_window(self.marks.shape[-2:], size, stride))

    def pixels(self) -> Tensor:
        """Returns the images as they are."""
        kernels = self.colours.to(self.marks.dtype).transpose(1, 2)[..., None, None]
        return own_kernels(self.marks, kernels, same_window(self.marks.shape[-2:], (1, 1), 1))
