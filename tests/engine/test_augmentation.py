"""Augmented images: what becomes of their pixels."""

from typing import Any

import torch
from pytest import mark
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from allotment._engine._augmentation import Augmenter
from allotment.settings import Augmentation
from tests.training.toy import crops

MIDDLE = 0.5


def augmenter(**chosen: Any) -> Augmenter:
    return Augmenter(Augmentation(**chosen))


def image(height: int = 5, width: int = 7, n_channels: int = 2) -> Tensor:
    """Returns an image ``[1, 1, C, H, W]`` of which no two pixels are equal."""
    pixels = torch.arange(1.0, n_channels * height * width + 1)
    return pixels.view(1, 1, n_channels, height, width)


@mark.parametrize("crop", [1, 2, 4])
def test_a_crop_is_a_slice_of_the_image_with_a_border(crop: int) -> None:
    augmentation = augmenter(crop=crop)
    n_places = 2 * crop + 1
    places = (torch.arange(n_places) + 0.5) / n_places
    draws = torch.cartesian_prod(places, places)  # one for every pair of offsets
    x = image().expand(1, len(draws), -1, -1, -1)
    expected = torch.stack(crops(x[0, 0], crop))
    assert_close(augmentation(x, draws.unsqueeze(0))[0], expected, rtol=0, atol=0)


def test_every_place_of_a_crop_is_equally_likely() -> None:
    n, crop = 18_000, 1
    noise = torch.rand(2, n // 2, 2)
    x = image(3, 3, 1)
    moved = augmenter(crop=crop)(x.expand(2, n // 2, -1, -1, -1), noise).flatten(0, 1)
    for expected in crops(x[0, 0], crop):
        share = (moved == expected).flatten(1).all(dim=1).double().mean().item()
        assert abs(share - 1 / 9) < 4 * (1 / 9 * 8 / 9 / n) ** 0.5


@mark.parametrize("crop", [1, 2])
def test_the_largest_draw_gives_the_last_place(crop: int) -> None:
    last = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).expand(1, 1, 2)
    expected = torch.zeros(2, 2)
    if crop == 1:
        expected[0, 0] = 4.0  # the lower right pixel of [[1, 2], [3, 4]]
    assert_close(augmenter(crop=crop)(image(2, 2, 1), last)[0, 0, 0], expected, rtol=0, atol=0)


@mark.parametrize(
    "chosen",
    [
        {"crop": 3},
        {"shift": 2.0},
        {"rotation": 40.0},
        {"zoom": 0.3},
        {"shear": 0.4},
        {"elastic": 2.0},
    ],
)
def test_draws_in_the_middle_leave_an_image_as_it_is(chosen: dict[str, Any]) -> None:
    augmentation = augmenter(**chosen)
    noise = torch.full((1, 1, augmentation.n_draws), MIDDLE)
    assert_close(augmentation(image(), noise), image())


def warp_draws(**changes: float) -> Tensor:
    values = {"right": MIDDLE, "down": MIDDLE, "angle": MIDDLE, "size": MIDDLE} | changes
    return torch.tensor(list(values.values())).view(1, 1, 4)


@mark.parametrize(("draw", "k"), [(0.0, -1), (1.0, 1)])
def test_a_quarter_turn_moves_every_pixel_to_its_place(draw: float, k: int) -> None:
    x = image(6, 6)
    turned = augmenter(rotation=90.0)(x, warp_draws(angle=draw))
    assert_close(turned, torch.rot90(x, k=k, dims=(3, 4)), rtol=0, atol=1e-3)


def test_half_a_turn_of_an_image_that_is_not_square() -> None:
    turned = augmenter(rotation=180.0)(image(), warp_draws(angle=1.0))
    assert_close(turned, image().flip(3, 4), rtol=0, atol=1e-3)


def test_a_small_turn_keeps_lengths_where_an_image_is_not_square() -> None:
    x = torch.zeros(1, 1, 1, 41, 81)
    x[..., 20, 60:63] = 1.0  # 21 pixels to the right of the middle
    turned = augmenter(rotation=45.0)(x, warp_draws(angle=1.0))[0, 0, 0]
    rows, columns = torch.meshgrid(torch.arange(41.0), torch.arange(81.0), indexing="ij")
    centre = [(turned * places).sum() / turned.sum() for places in (rows - 20, columns - 40)]
    expected = 21 / 2**0.5
    assert_close(torch.stack(centre), torch.tensor([-expected, expected]), rtol=0, atol=0.1)


@mark.parametrize(("right", "down"), [(1.0, 0.5), (0.0, 0.5), (0.5, 1.0), (0.25, 0.0)])
def test_a_shift_by_whole_pixels_moves_them_and_zeros_come_in(right: float, down: float) -> None:
    shift = 2
    moved = augmenter(shift=shift)(image(), warp_draws(right=right, down=down))
    i, j = shift + round(shift * (1 - 2 * down)), shift + round(shift * (1 - 2 * right))
    padded = nn.functional.pad(image(), [shift] * 4)
    assert_close(moved, padded[..., i : i + 5, j : j + 7], rtol=0, atol=1e-3)


@mark.parametrize(("draw", "factor"), [(1.0, 1.5), (0.0, 0.5)])
def test_a_zoom_changes_the_length_of_a_side(draw: float, factor: float) -> None:
    x = torch.zeros(1, 1, 1, 64, 64)
    x[..., 22:42, 22:42] = 1.0  # a square in the middle, 20 pixels wide
    zoomed = augmenter(zoom=0.5)(x, warp_draws(size=draw))
    assert_close(zoomed.sum().sqrt().item(), 20 * factor, rtol=0.02, atol=0)


@mark.parametrize(("draw", "sign"), [(1.0, -1), (0.0, 1)])
def test_a_shear_moves_a_row_by_its_distance_from_the_middle(draw: float, sign: int) -> None:
    x = image(5, 9, 1)
    draws = torch.cat([warp_draws(), torch.full((1, 1, 1), draw)], dim=2)
    sheared = augmenter(shear=1.0)(x, draws)[0, 0, 0]
    padded = nn.functional.pad(x[0, 0, 0], [2, 2])
    rows = [padded[row, 2 - sign * (row - 2) :][:9] for row in range(5)]
    assert_close(sheared, torch.stack(rows), rtol=0, atol=1e-3)


def test_a_shear_comes_before_the_turn() -> None:
    x = torch.zeros(1, 1, 1, 9, 9)
    x[..., 4] = 1.0  # an upright stroke
    draws = torch.cat([warp_draws(angle=1.0), torch.full((1, 1, 1), 1.0)], dim=2)
    both = augmenter(shear=1.0, rotation=90.0)(x, draws)
    upright = torch.cat([warp_draws(), torch.full((1, 1, 1), 1.0)], dim=2)
    leaning = augmenter(shear=1.0)(x, upright)
    assert_close(both, torch.rot90(leaning, k=1, dims=(3, 4)), rtol=0, atol=1e-3)


@mark.parametrize(("added", "n_draws"), [({"shear": 0.3}, 1), ({"elastic": 0.3}, 50)])
def test_other_draws_stay_where_they_are_beside_shear_or_elastic_moves(
    added: dict[str, float], n_draws: int
) -> None:
    noise = torch.rand(1, 1, 6 + n_draws)
    x = image(9, 9)
    without = augmenter(crop=2, shift=2.0, rotation=20.0)(x, noise[..., :6])
    noise[..., 6:] = MIDDLE
    assert_close(augmenter(crop=2, shift=2.0, rotation=20.0, **added)(x, noise), without)


def elastic_draws(right: Tensor, down: Tensor) -> Tensor:
    """Returns the draws of elastic moves alone, of the 5 x 5 points by these shares of them."""
    return torch.cat([warp_draws(), (torch.stack([right, down]).view(1, 1, 50) + 1) / 2], dim=2)


@mark.parametrize(("right", "down"), [(1.0, 0.0), (0.0, -1.0), (0.5, 1.0)])
def test_an_elastic_move_of_all_points_alike_is_a_shift(right: float, down: float) -> None:
    draws = elastic_draws(torch.full((5, 5), right), torch.full((5, 5), down))
    shifted = augmenter(shift=2.0)(image(), warp_draws(right=(1 + right) / 2, down=(1 + down) / 2))
    assert_close(augmenter(elastic=2.0)(image(), draws), shifted, rtol=0, atol=1e-3)


def moved_by(places: Tensor, right: Tensor, down: Tensor, elastic: float) -> Tensor:
    """Returns how far what comes to each pixel is moved, of rows or columns ``[H, W]``."""
    height, width = places.shape
    moved = augmenter(elastic=elastic)(
        places.view(1, 1, 1, height, width), elastic_draws(right, down)
    )
    return places - moved[0, 0, 0]


def test_an_elastic_move_moves_what_lies_at_a_point_and_nothing_far_from_it() -> None:
    numbers = torch.arange(41.0)  # the pixels 0, 10, 20, 30 and 40 are the points
    right, down = torch.zeros(5, 5), torch.zeros(5, 5)
    right[1, 3], down[1, 3] = 1.0, -0.5
    for places, shift in (
        (numbers.expand(41, 41), 2.0),
        (numbers.view(41, 1).expand(41, 41), -1.0),
    ):
        moved = moved_by(places, right, down, elastic=2.0)
        assert_close(moved[10, 30].item(), shift, rtol=0, atol=1e-3)
        assert_close(moved[31:, 1:40], torch.zeros(10, 39), rtol=0, atol=1e-3)
        assert_close(moved[1:40, :10], torch.zeros(39, 10), rtol=0, atol=1e-3)


def test_no_pixel_of_an_elastic_move_moves_farther_than_said() -> None:
    columns = torch.arange(41.0).expand(41, 41)
    right = torch.tensor([-1.0, 1.0, 1.0, -1.0, -1.0]).expand(5, 5)  # between two ones it swings
    moved = moved_by(columns, right, torch.zeros(5, 5), elastic=2.0)[5:36, 5:36]
    assert_close(moved.max().item(), 2.0, rtol=0, atol=1e-3)
    assert_close(moved.min().item(), -2.0, rtol=0, atol=1e-3)


def test_an_elastic_move_of_a_quarter_of_the_distance_does_not_fold_an_image() -> None:
    columns = torch.arange(81.0).expand(81, 81)  # points at 0, 20, 40, 60 and 80
    right = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0]).expand(5, 5)  # neighbours meet
    moved = moved_by(columns, right, torch.zeros(5, 5), elastic=5.0)[5:76, 5:76]
    assert 0.5 < moved.diff(dim=1).max().item() < 1.0  # below 1, columns keep their order


def test_an_elastic_move_has_no_corners() -> None:
    columns = torch.arange(81.0).expand(81, 81)
    right = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).expand(5, 5)
    moved = moved_by(columns, right, torch.zeros(5, 5), elastic=4.0)[40, 5:76]
    gradient = moved.diff()
    # Straight lines from point to point would turn by 0.4 within one pixel at the middle one.
    assert gradient.abs().max().item() > 0.2
    assert gradient.diff().abs().max().item() < 0.1


def test_an_elastic_move_has_its_points_on_the_turned_image() -> None:
    columns = torch.arange(41.0).expand(41, 41)
    right = torch.zeros(5, 5)
    right[1, 3] = 1.0
    draws = elastic_draws(right, torch.zeros(5, 5))
    draws[..., 2] = 1.0  # a quarter turn
    turned = augmenter(rotation=90.0)(columns.view(1, 1, 1, 41, 41), warp_draws(angle=1.0))
    both = augmenter(rotation=90.0, elastic=2.0)(columns.view(1, 1, 1, 41, 41), draws)
    moved = (turned - both)[0, 0, 0]
    assert_close(moved[10, 30].item(), 2.0, rtol=0, atol=1e-3)
    assert_close(moved[31:, 1:40], torch.zeros(10, 39), rtol=0, atol=1e-3)


def test_a_shear_has_its_draw_before_elastic_moves() -> None:
    x = image(9, 9)
    sheared = augmenter(shear=0.5)(x, torch.cat([warp_draws(), torch.ones(1, 1, 1)], dim=2))
    level = torch.full((1, 1, 50), MIDDLE)
    draws = torch.cat([warp_draws(), torch.ones(1, 1, 1), level], dim=2)
    assert_close(augmenter(shear=0.5, elastic=2.0)(x, draws), sheared)


def test_a_shift_is_not_turned_with_the_image() -> None:
    x = image(9, 9, 1)
    both = augmenter(rotation=90.0, shift=2.0)(x, warp_draws(right=1.0, angle=1.0))
    turned = torch.rot90(x, k=1, dims=(3, 4))
    expected = nn.functional.pad(turned, [2, 0, 0, 0])[..., :9]
    assert_close(both, expected, rtol=0, atol=1e-3)


def test_no_operation_depends_on_the_values_of_the_draws() -> None:
    augmentation = augmenter(crop=2, shift=1.0, rotation=10.0, zoom=0.1, shear=0.1, elastic=1.0)
    with FakeTensorMode():  # shapes without values: whatever looks at one raises
        x, noise = torch.empty(2, 3, 1, 8, 8), torch.empty(2, 3, augmentation.n_draws)
        assert augmentation(x, noise).shape == x.shape
