"""Training images moved a little at random, on the device, by draws that are handed in."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

N_CROP_DRAWS = 2  # down, right
N_WARP_DRAWS = 4  # right, down, angle, size
N_BEND_POINTS = 5  # of a bend along each side: strokes bend, and a whole drawing is not crumpled


class Augmentation:
    """Crops, and shifts, turns, resizes, slants and bends, each image by draws of its own.

    A draw of 0.5 leaves an image where it is, and what moves in from outside is zero. Drawings,
    of type ``bool``, stay such: each pixel is the one that lies nearest. Draws are arguments and
    no size depends on their values, so a step that augments can be captured.

    Args:
        crop: Zeros are added on each side in this width, and a part of the image's own size is
            cut out again, every place being equally likely.
        shift: The largest shift in pixels, in either direction of both axes.
        rotation: The largest angle in degrees, in either direction.
        zoom: The largest relative change of size, to either side.
        slant: The largest shift of a row to either side, for each row that it is from the middle.
        bend: The largest shift along both axes of each of 5 x 5 points spread over the image, in
            its pixels before it is turned and resized; what lies between them follows smoothly.
            Up to a quarter of the distance between two points, an image does not fold.
    """

    def __init__(
        self,
        *,
        crop: int = 0,
        shift: float = 0.0,
        rotation: float = 0.0,
        zoom: float = 0.0,
        slant: float = 0.0,
        bend: float = 0.0,
    ) -> None:
        self.crop = crop
        self.shift = shift
        self.rotation = rotation
        self.zoom = zoom
        self.slant = slant
        self.bend = bend
        # Slants and bends have their draws at the end, where there are any: others keep theirs.
        self._sizes = (
            N_CROP_DRAWS * bool(crop),
            N_WARP_DRAWS * any((shift, rotation, zoom, slant, bend)),
            int(bool(slant)),
            2 * N_BEND_POINTS**2 * bool(bend),
        )
        self.n_draws = sum(self._sizes)  # for each image

    def __call__(self, x: Tensor, noise: Tensor) -> Tensor:
        """Returns images ``[R, B, C, H, W]`` moved as uniform ``noise [R, B, n_draws]`` says."""
        if x.ndim != 5:
            raise ValueError(
                "`crop`, `shift`, `rotation`, `zoom`, `slant` and `bend` should be set for images "
                "alone, examples of shape [C, H, W]. "
                f"Found examples of shape {list(x.shape[2:])}."
            )
        is_ink = x.dtype == torch.bool
        images, draws = x.flatten(0, 1), noise.flatten(0, 1)
        draws = draws if is_ink else draws.to(x.dtype)
        crop, warp, slant, bend = draws.split(self._sizes, dim=1)
        if warp.shape[1]:
            places = self._places(images, warp, slant)
            if self.bend:
                places = places - self._bends(images, bend)
            images = _taken_from(images, places)
        if self.crop:
            images = self._cropped(images, crop)
        return images.view(x.shape)

    def _cropped(self, images: Tensor, draws: Tensor) -> Tensor:
        """Returns images ``[N, C, H, W]`` cut out at draws ``[N, 2]``, pixel by pixel."""
        n_channels, height, width = images.shape[1:]
        most = 2 * self.crop
        # A draw just below 1 may be rounded up to the place after the last.
        offsets = (draws * (most + 1)).long().clamp_max(most)  # [N, 2]
        rows = offsets[:, :1] + torch.arange(height, device=images.device)  # [N, H]
        columns = offsets[:, 1:] + torch.arange(width, device=images.device)  # [N, W]
        padded = F.pad(images, [self.crop] * 4)
        places = rows.unsqueeze(2) * padded.shape[3] + columns.unsqueeze(1)  # [N, H, W]
        spread = places.flatten(1).unsqueeze(1).expand(-1, n_channels, -1)
        return padded.flatten(2).gather(2, spread).view(images.shape)

    def _places(self, images: Tensor, draws: Tensor, slant: Tensor) -> Tensor:
        """Returns where the pixels of slanted, then turned, resized and shifted images come from.

        Half the image's side is 1 there. ``draws [N, 4]`` are for all but the slant, ``slant
        [N, 1]`` or ``[N, 0]`` for that.
        """
        height, width = images.shape[2:]
        right, down, angle, size = (2 * draws - 1).unbind(1)  # [N] each, -1 to 1
        angle = math.radians(self.rotation) * angle
        size = 1 + self.zoom * size
        cos, sin = angle.cos() / size, angle.sin() / size
        right, down = self.shift * right, self.shift * down
        ratio = height / width
        places = torch.stack(
            [
                torch.stack([cos, -sin * ratio, -2 * (cos * right - sin * down) / width], dim=1),
                torch.stack([sin / ratio, cos, -2 * (sin * right + cos * down) / height], dim=1),
            ],
            dim=1,
        )  # [N, 2, 3]
        if self.slant:
            lean = self.slant * (2 * slant - 1) * ratio  # [N, 1]
            places = torch.stack([places[:, 0] + lean * places[:, 1], places[:, 1]], dim=1)
        return F.affine_grid(places, list(images.shape), align_corners=False)  # [N, H, W, 2]

    def _bends(self, images: Tensor, draws: Tensor) -> Tensor:
        """Returns how far bent images move their pixels by ``draws``; half a side is 1."""
        height, width = images.shape[2:]
        points = self.bend * (2 * draws - 1).view(-1, 2, N_BEND_POINTS, N_BEND_POINTS)
        # Smooth curves through the points would leave the bounds between them.
        pixels = F.interpolate(points, (height, width), mode="bicubic", align_corners=True)
        right, down = pixels.clamp(-self.bend, self.bend).unbind(1)
        return torch.stack([right * (2 / width), down * (2 / height)], dim=3)  # [N, H, W, 2]


def _taken_from(images: Tensor, places: Tensor) -> Tensor:
    """Returns images ``[N, C, H, W]`` whose pixels come from ``places [N, H, W, 2]``."""
    if images.dtype == torch.bool:
        return F.grid_sample(images.to(places.dtype), places, "nearest", align_corners=False) > 0
    return F.grid_sample(images, places, padding_mode="zeros", align_corners=False)
