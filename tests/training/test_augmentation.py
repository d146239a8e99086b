"""Images moved at random: what becomes of their pixels, and when."""

from typing import Any, ClassVar

import torch
from pytest import fixture, mark, raises
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from allotment.network import Allocation, GumbelMatrix, ModularLayer, MultiTaskNetwork, SharedBottom
from allotment.tasks import FreshSamples, Split, Task
from allotment.training import Run, TrainingSettings
from allotment.training._augmentation import Augmentation

from .toy import a_run, outcomes_of, weights_of

MIDDLE = 0.5
SETTINGS = TrainingSettings(rounds=20, batch_size=4, learning_rate=0.01, evaluate_every=10)


def image(height: int = 5, width: int = 7, n_channels: int = 2) -> Tensor:
    """Returns an image ``[1, 1, C, H, W]`` of which no two pixels are equal."""
    pixels = torch.arange(1.0, n_channels * height * width + 1)
    return pixels.view(1, 1, n_channels, height, width)


def crops(picture: Tensor, crop: int) -> list[Tensor]:
    """Returns all crops of a picture ``[C, H, W]`` with a border, the uppermost first."""
    height, width = picture.shape[-2:]
    padded = nn.functional.pad(picture, [crop] * 4)
    offsets = range(2 * crop + 1)
    return [padded[:, i : i + height, j : j + width] for i in offsets for j in offsets]


@mark.parametrize("crop", [1, 2, 4])
def test_a_crop_is_a_slice_of_the_image_with_a_border(crop: int) -> None:
    augmentation = Augmentation(crop=crop)
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
    moved = Augmentation(crop=crop)(x.expand(2, n // 2, -1, -1, -1), noise).flatten(0, 1)
    for expected in crops(x[0, 0], crop):
        share = (moved == expected).flatten(1).all(dim=1).double().mean().item()
        assert abs(share - 1 / 9) < 4 * (1 / 9 * 8 / 9 / n) ** 0.5


@mark.parametrize("crop", [1, 4, 1_000])
def test_the_largest_draw_gives_the_last_place(crop: int) -> None:
    last = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).expand(1, 1, 2)
    expected = torch.zeros(2, 2)
    if crop == 1:
        expected[0, 0] = 4.0  # the lower right pixel of [[1, 2], [3, 4]]
    assert_close(Augmentation(crop=crop)(image(2, 2, 1), last)[0, 0, 0], expected, rtol=0, atol=0)


@mark.parametrize(
    "chosen",
    [{"crop": 3}, {"shift": 2.0}, {"rotation": 40.0}, {"zoom": 0.3}, {"slant": 0.4}],
)
def test_draws_in_the_middle_leave_an_image_as_it_is(chosen: dict[str, Any]) -> None:
    augmentation = Augmentation(**chosen)
    noise = torch.full((1, 1, augmentation.n_draws), MIDDLE)
    assert_close(augmentation(image(), noise), image())


def warp_draws(**changes: float) -> Tensor:
    values = {"right": MIDDLE, "down": MIDDLE, "angle": MIDDLE, "size": MIDDLE} | changes
    return torch.tensor(list(values.values())).view(1, 1, 4)


@mark.parametrize(("draw", "k"), [(0.0, -1), (1.0, 1)])
def test_a_quarter_turn_moves_every_pixel_to_its_place(draw: float, k: int) -> None:
    x = image(6, 6)
    turned = Augmentation(rotation=90.0)(x, warp_draws(angle=draw))
    assert_close(turned, torch.rot90(x, k=k, dims=(3, 4)), rtol=0, atol=1e-3)


def test_half_a_turn_of_an_image_that_is_not_square() -> None:
    turned = Augmentation(rotation=180.0)(image(), warp_draws(angle=1.0))
    assert_close(turned, image().flip(3, 4), rtol=0, atol=1e-3)


def test_a_small_turn_keeps_lengths_where_an_image_is_not_square() -> None:
    x = torch.zeros(1, 1, 1, 41, 81)
    x[..., 20, 60:63] = 1.0  # 21 pixels to the right of the middle
    turned = Augmentation(rotation=45.0)(x, warp_draws(angle=1.0))[0, 0, 0]
    rows, columns = torch.meshgrid(torch.arange(41.0), torch.arange(81.0), indexing="ij")
    centre = [(turned * places).sum() / turned.sum() for places in (rows - 20, columns - 40)]
    expected = 21 / 2**0.5
    assert_close(torch.stack(centre), torch.tensor([-expected, expected]), rtol=0, atol=0.1)


@mark.parametrize(("right", "down"), [(1.0, 0.5), (0.0, 0.5), (0.5, 1.0), (0.25, 0.0)])
def test_a_shift_by_whole_pixels_moves_them_and_zeros_come_in(right: float, down: float) -> None:
    shift = 2
    moved = Augmentation(shift=shift)(image(), warp_draws(right=right, down=down))
    i, j = shift + round(shift * (1 - 2 * down)), shift + round(shift * (1 - 2 * right))
    padded = nn.functional.pad(image(), [shift] * 4)
    assert_close(moved, padded[..., i : i + 5, j : j + 7], rtol=0, atol=1e-3)


@mark.parametrize(("draw", "factor"), [(1.0, 1.5), (0.0, 0.5)])
def test_a_zoom_changes_the_length_of_a_side(draw: float, factor: float) -> None:
    x = torch.zeros(1, 1, 1, 64, 64)
    x[..., 22:42, 22:42] = 1.0  # a square in the middle, 20 pixels wide
    zoomed = Augmentation(zoom=0.5)(x, warp_draws(size=draw))
    assert_close(zoomed.sum().sqrt().item(), 20 * factor, rtol=0.02, atol=0)


@mark.parametrize(("draw", "sign"), [(1.0, -1), (0.0, 1)])
def test_a_slant_moves_a_row_by_its_distance_from_the_middle(draw: float, sign: int) -> None:
    x = image(5, 9, 1)
    draws = torch.cat([warp_draws(), torch.full((1, 1, 1), draw)], dim=2)
    slanted = Augmentation(slant=1.0)(x, draws)[0, 0, 0]
    padded = nn.functional.pad(x[0, 0, 0], [2, 2])
    rows = [padded[row, 2 - sign * (row - 2) :][:9] for row in range(5)]
    assert_close(slanted, torch.stack(rows), rtol=0, atol=1e-3)


def test_a_slant_comes_before_the_turn() -> None:
    x = torch.zeros(1, 1, 1, 9, 9)
    x[..., 4] = 1.0  # an upright stroke
    draws = torch.cat([warp_draws(angle=1.0), torch.full((1, 1, 1), 1.0)], dim=2)
    both = Augmentation(slant=1.0, rotation=90.0)(x, draws)
    upright = torch.cat([warp_draws(), torch.full((1, 1, 1), 1.0)], dim=2)
    leaning = Augmentation(slant=1.0)(x, upright)
    assert_close(both, torch.rot90(leaning, k=1, dims=(3, 4)), rtol=0, atol=1e-3)


def test_other_draws_stay_where_they_are_beside_a_slant() -> None:
    noise = torch.rand(1, 1, 7)
    x = image(9, 9)
    without = Augmentation(crop=2, shift=2.0, rotation=20.0)(x, noise[..., :6])
    noise[..., 6] = MIDDLE
    assert_close(Augmentation(crop=2, shift=2.0, rotation=20.0, slant=0.3)(x, noise), without)


def test_a_shift_is_not_turned_with_the_image() -> None:
    x = image(9, 9, 1)
    both = Augmentation(rotation=90.0, shift=2.0)(x, warp_draws(right=1.0, angle=1.0))
    turned = torch.rot90(x, k=1, dims=(3, 4))
    expected = nn.functional.pad(turned, [2, 0, 0, 0])[..., :9]
    assert_close(both, expected, rtol=0, atol=1e-3)


def test_no_operation_depends_on_the_values_of_the_draws() -> None:
    augmentation = Augmentation(crop=2, shift=1.0, rotation=10.0, zoom=0.1, slant=0.1)
    with FakeTensorMode():  # shapes without values: whatever looks at one raises
        x, noise = torch.empty(2, 3, 1, 8, 8), torch.empty(2, 3, augmentation.n_draws)
        assert augmentation(x, noise).shape == x.shape


class Watch(nn.Module):
    """Remembers the images that come to the network, in training and in evaluation."""

    seen: ClassVar[dict[bool, list[Tensor]]]

    def forward(self, x: Tensor) -> Tensor:
        self.seen[self.training].append(x.detach().clone())
        return x.flatten(1)


@fixture(autouse=True)
def seen() -> dict[bool, list[Tensor]]:
    Watch.seen = {True: [], False: []}
    return Watch.seen


def image_tasks() -> list[Task]:
    """Returns two tasks on one set of images, each in all three splits."""
    x = torch.arange(1.0, 10 * 25 + 1).view(10, 1, 5, 5) / 250
    splits = [Split(x, torch.arange(10) % width) for width in (2, 3)]
    return [Task(str(t), split, split, split) for t, split in enumerate(splits)]


def image_run(
    seed: int = 0, *, allocation: Allocation | None = None, watch: bool = False, **chosen: Any
) -> Run:
    settings = TrainingSettings(**vars(SETTINGS) | {"capture": not watch} | chosen)

    def build() -> MultiTaskNetwork:
        gates = allocation or GumbelMatrix(2, 3)
        components = [nn.Linear(25, 4) for _ in range(gates.n_components)]
        stem = Watch() if watch else nn.Flatten()
        heads = [nn.Linear(4, 2), nn.Linear(4, 3)]
        return MultiTaskNetwork(stem, [ModularLayer(components, gates)], heads, dropout=0.5)

    return a_run(seed, settings, tasks=image_tasks(), build=build)


def rows(pictures: list[Tensor]) -> set[tuple[float, ...]]:
    return {tuple(picture.flatten().tolist()) for picture in pictures}


def test_training_sees_crops_and_evaluation_the_images_themselves(
    seen: dict[bool, list[Tensor]],
) -> None:
    outcomes_of([image_run(watch=True, crop=2)])
    raw = list(image_tasks()[0].train.inputs)
    possible = rows([cut for picture in raw for cut in crops(picture, 2)])
    trained = rows(list(torch.cat(seen[True])))
    assert trained <= possible
    assert not trained <= rows(raw)
    assert len(seen[False]) == 2 * (2 + 2)  # two looks, and validation and test at the end
    for evaluated in seen[False]:
        assert_close(evaluated, torch.stack(raw), rtol=0, atol=0)


def test_methods_with_one_seed_see_the_same_crops(seen: dict[bool, list[Tensor]]) -> None:
    pictures = []
    for seed, allocation in ((0, GumbelMatrix(2, 3)), (0, SharedBottom(2, 2)), (1, None)):
        seen[True].clear()
        weights_of(image_run(seed, allocation=allocation, watch=True, crop=2, rotation=20.0))
        pictures.append(torch.cat(seen[True]))
    assert_close(pictures[0], pictures[1], rtol=0, atol=0)
    assert not torch.equal(pictures[0], pictures[2])


def test_moving_images_leaves_the_other_draws_as_they_were(
    seen: dict[bool, list[Tensor]],
) -> None:
    pictures = []
    for rotation in (0.0, 1e-6):  # too little to be seen
        seen[True].clear()
        weights_of(image_run(watch=True, rotation=rotation))
        pictures.append(torch.cat(seen[True]))
    assert_close(pictures[0], pictures[1], rtol=0, atol=1e-4)


@mark.usefixtures("double")
@mark.parametrize(
    "chosen",
    [
        {"crop": 2},
        {"shift": 1.0, "rotation": 30.0, "zoom": 0.2, "slant": 0.2},
        {"crop": 2, "rotation": 30.0, "schedule": "joint"},
    ],
)
def test_runs_that_train_together_end_as_they_would_alone(
    chosen: dict[str, Any], device: torch.device
) -> None:
    together = outcomes_of([image_run(seed, **chosen) for seed in range(3)], device=device)
    for seed, outcome in enumerate(together):
        alone = weights_of(image_run(seed, **chosen), device=device)
        assert_close(outcome.weights, alone, rtol=1e-6, atol=1e-8)


def test_augmentation_changes_what_is_learnt() -> None:
    plain, moved = weights_of(image_run()), weights_of(image_run(crop=2))
    assert not torch.equal(plain["heads.0.weight"], moved["heads.0.weight"])


class Pictures(FreshSamples):
    """Images of ones, drawn anew."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return torch.ones(n, 1, 5, 5), torch.zeros(n)


def test_images_that_are_drawn_anew_are_moved_too(seen: dict[bool, list[Tensor]]) -> None:
    layer = ModularLayer([nn.Linear(25, 1)], SharedBottom(1, 1))
    network = MultiTaskNetwork(Watch(), [layer])
    settings = TrainingSettings(rounds=10, batch_size=4, capture=False, crop=1)
    weights_of(Run(network, [Task("ones", Pictures())], 0, settings))
    assert (torch.cat(seen[True]) == 0).any()


@mark.parametrize("chosen", [{"crop": 1}, {"shift": 1.0}, {"zoom": 0.1}, {"slant": 0.1}])
def test_examples_that_are_no_images_cannot_be_moved(chosen: dict[str, Any]) -> None:
    rule = r"`rotation`, `zoom` and `slant` should be set for images alone, examples of "
    with raises(ValueError, match=rule + r"shape \[C, H, W\]\. Found examples of shape \[6\]\.$"):
        weights_of(a_run(settings=TrainingSettings(rounds=10, **chosen)))
