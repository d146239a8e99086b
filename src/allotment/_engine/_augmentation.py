"""Training images moved a little at random, on the device, by draws that are handed in."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..settings import Augmentation

N_CROP_DRAWS = 2  # down, right
N_AFFINE_DRAWS = 4  # right, down, angle, size
N_ELASTIC_POINTS = 5  # along each side: strokes bend, and an image is not crumpled


class Augmenter:
    """Changes each image as the settings say, by draws of its own.

    A draw of 0.5 leaves an image where it is, and what moves in from outside is zero. Images of
    type ``bool`` stay such: each pixel is the one that lies nearest. Draws are arguments and no
    size depends on their values, so a step that augments can be captured.

    Elastic moves are in an image's pixels before it is turned and resized; up to a quarter of the
    distance between two of their points, an image does not fold.
    """

    def __init__(self, settings: Augmentation) -> None:
        self._chosen = chosen = settings
        is_affine = any((chosen.shift, chosen.rotation, chosen.zoom, chosen.shear, chosen.elastic))
        # Shear and elastic moves have their draws at the end: without them others keep theirs.
        self._sizes = (
            N_CROP_DRAWS * bool(chosen.crop),
            N_AFFINE_DRAWS * is_affine,
            int(bool(chosen.shear)),
            2 * N_ELASTIC_POINTS**2 * bool(chosen.elastic),
        )
        self.n_draws = sum(self._sizes)  # for each image

    def __call__(self, x: Tensor, noise: Tensor) -> Tensor:
        """Returns images ``[R, B, C, H, W]`` moved as uniform ``noise [R, B, n_draws]`` says."""
        if x.ndim != 5:
            raise ValueError(
                "`augmentation` should be set for images alone, examples of shape [C, H, W]. "
                f"Found examples of shape {list(x.shape[2:])}."
            )
        is_binary = x.dtype == torch.bool
        images, draws = x.flatten(0, 1), noise.flatten(0, 1)
        draws = draws if is_binary else draws.to(x.dtype)
        crop, affine, shear, elastic = draws.split(self._sizes, dim=1)
        if affine.shape[1]:
            places = self._places(images, affine, shear)
            if self._chosen.elastic:
                places = places - self._elastic_moves(images, elastic)
            images = _taken_from(images, places)
        if self._chosen.crop:
            images = self._cropped(images, crop)
        return images.view(x.shape)

    def _cropped(self, images: Tensor, draws: Tensor) -> Tensor:
        """Returns images ``[N, C, H, W]`` cut out at draws ``[N, 2]``, pixel by pixel."""
        n_channels, height, width = images.shape[1:]
        most = 2 * self._chosen.crop
        # A draw just below 1 may be rounded up to the place after the last.
        offsets = (draws * (most + 1)).long().clamp_max(most)  # [N, 2]
        rows = offsets[:, :1] + torch.arange(height, device=images.device)  # [N, H]
        columns = offsets[:, 1:] + torch.arange(width, device=images.device)  # [N, W]
        padded = F.pad(images, [self._chosen.crop] * 4)
        places = rows.unsqueeze(2) * padded.shape[3] + columns.unsqueeze(1)  # [N, H, W]
        spread = places.flatten(1).unsqueeze(1).expand(-1, n_channels, -1)
        return padded.flatten(2).gather(2, spread).view(images.shape)

    def _places(self, images: Tensor, draws: Tensor, shear: Tensor) -> Tensor:
        """Returns where the pixels of sheared, then turned, resized and shifted images come from.

        Half the image's side is 1 there. ``draws [N, 4]`` are for all but the shear, ``shear
        [N, 1]`` or ``[N, 0]`` for that.
        """
        height, width = images.shape[2:]
        right, down, angle, size = (2 * draws - 1).unbind(1)  # [N] each, -1 to 1
        angle = math.radians(self._chosen.rotation) * angle
        size = 1 + self._chosen.zoom * size
        cos, sin = angle.cos() / size, angle.sin() / size
        right, down = self._chosen.shift * right, self._chosen.shift * down
        ratio = height / width
        places = torch.stack(
            [
                torch.stack([cos, -sin * ratio, -2 * (cos * right - sin * down) / width], dim=1),
                torch.stack([sin / ratio, cos, -2 * (sin * right + cos * down) / height], dim=1),
            ],
            dim=1,
        )  # [N, 2, 3]
        if self._chosen.shear:
            lean = self._chosen.shear * (2 * shear - 1) * ratio  # [N, 1]
            places = torch.stack([places[:, 0] + lean * places[:, 1], places[:, 1]], dim=1)
        return F.affine_grid(places, list(images.shape), align_corners=False)  # [N, H, W, 2]

    def _elastic_moves(self, images: Tensor, draws: Tensor) -> Tensor:
        """Returns how far bent images move their pixels by ``draws``; half a side is 1."""
        height, width = images.shape[2:]
        points = self._chosen.elastic * (2 * draws - 1).view(
            -1, 2, N_ELASTIC_POINTS, N_ELASTIC_POINTS
        )
        # Smooth curves through the points would leave the bounds between them.
        pixels = F.interpolate(points, (height, width), mode="bicubic", align_corners=True)
        right, down = pixels.clamp(-self._chosen.elastic, self._chosen.elastic).unbind(1)
        return torch.stack([right * (2 / width), down * (2 / height)], dim=3)  # [N, H, W, 2]


def _taken_from(images: Tensor, places: Tensor) -> Tensor:
    """Returns images ``[N, C, H, W]`` whose pixels come from ``places [N, H, W, 2]``."""
    if images.dtype == torch.bool:
        return F.grid_sample(images.to(places.dtype), places, "nearest", align_corners=False) > 0
    return F.grid_sample(images, places, padding_mode="zeros", align_corners=False)
