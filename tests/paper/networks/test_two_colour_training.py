"""Training on two-colour images, which are of type `bool`: as on ones and zeros."""

from copy import deepcopy
from typing import Any

import torch
from pytest import MonkeyPatch, mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import Augmentation, TrainingSettings, fit
from allotment._engine._augmentation import Augmenter
from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks import ConvNormReLU, SameAvgPool2d, SameMaxPool2d, TwoColourStem
from allotment.paper.networks._same_padding import TwoColourImage
from allotment.tasks import Split, Task


def tasks_of(images: Tensor) -> list[Task]:
    splits = [Split(images, torch.arange(len(images)) % (2 + t)) for t in range(2)]
    return [Task(f"task {t}", split, split, split) for t, split in enumerate(splits)]


def two_colours() -> Tensor:
    return torch.rand(24, 1, 7, 8, generator=torch.Generator().manual_seed(0)) < 0.3


def network(stem: nn.Module | None = None) -> MultiTaskNetwork:
    torch.manual_seed(0)
    components = [ConvNormReLU(8, 8, 3), ConvNormReLU(8, 8, 5), SameMaxPool2d(), SameAvgPool2d()]
    layers = [ModularLayer(components, GumbelMatrix(2, 4)), nn.Flatten()]
    heads = [nn.Linear(8 * 7 * 8, 2), nn.Linear(8 * 7 * 8, 3)]
    return MultiTaskNetwork(stem or TwoColourStem(8), layers, heads)


def trained(images: Tensor, stem: nn.Module | None = None, **settings: Any) -> list[Tensor]:
    """Returns the weights after short training, and the test losses."""
    chosen = TrainingSettings(rounds=5, batch_size=8, **settings)
    learnt = network(stem)
    result = fit(learnt, tasks_of(images), chosen, device="cpu")
    assert result.test is not None
    return [*learnt.state_dict().values(), torch.from_numpy(result.test.losses)]


@mark.slow
@mark.parametrize("schedule", ["alternating", "joint"])
def test_truth_values_train_as_ones_and_zeros(schedule: str, monkeypatch: MonkeyPatch) -> None:
    made: list[bool] = []  # whether in training
    original = TwoColourStem._two_colours

    def seen(stem: TwoColourStem, x: Tensor) -> TwoColourImage:
        made.append(stem.training)
        return original(stem, x)

    monkeypatch.setattr(TwoColourStem, "_two_colours", seen)
    found = trained(two_colours(), schedule=schedule)
    n_made = len(made)
    assert True in made and False in made
    expected = trained(two_colours().float(), schedule=schedule)
    assert len(made) == n_made
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_truth_values_cropped_by_whole_pixels_train_as_ones_and_zeros() -> None:
    cropped = Augmentation(crop=2)
    plain = trained(two_colours().float(), augmentation=cropped)
    found = trained(two_colours(), augmentation=cropped)
    assert_close(found, plain, rtol=1e-5, atol=1e-5)
    assert n_different(plain, trained(two_colours().float())) > 0


def n_different(a: list[Tensor], b: list[Tensor]) -> int:
    return sum(not torch.allclose(x, y, rtol=1e-3, atol=1e-3) for x, y in zip(a, b, strict=True))


def test_a_stem_that_takes_no_truth_values_is_given_numbers() -> None:
    torch.manual_seed(1)
    stem = nn.Conv2d(1, 8, 1)
    found, plain = (trained(x, deepcopy(stem)) for x in (two_colours(), two_colours().float()))
    assert_close(found, plain, rtol=0, atol=0)


@mark.parametrize(
    ("chosen", "draws"),
    [
        ({"crop": 2}, [0.1, 0.9]),
        ({"shift": 3.0}, [1.0, 0.5, 0.5, 0.5]),
        ({"rotation": 90.0}, [0.5, 0.5, 1.0, 0.5]),
        ({"shear": 1.0}, [0.5, 0.5, 0.5, 0.5, 1.0]),
        ({"elastic": 2.0}, [0.5, 0.5, 0.5, 0.5, *[1.0] * 25, *[0.0] * 25]),
        ({"crop": 1, "shift": 2.0, "shear": 1.0}, [0.1, 0.9, 0.5, 0.0, 0.5, 0.5, 0.0]),
    ],
)
def test_pixels_that_fall_on_pixels_are_moved_as_numbers_are(
    chosen: dict[str, Any], draws: list[float]
) -> None:
    images = torch.rand(1, 4, 1, 7, 7, generator=torch.Generator().manual_seed(0)) < 0.4
    noise = torch.tensor(draws).expand(1, 4, -1)
    augment = Augmenter(Augmentation(**chosen))
    moved = augment(images, noise)
    assert moved.dtype == torch.bool
    assert_close(moved.float(), augment(images.float(), noise), rtol=1e-3, atol=1e-3)
    assert not torch.equal(moved, images)


def test_pixels_that_fall_between_pixels_go_to_the_nearest() -> None:
    images = torch.zeros(1, 1, 1, 1, 6, dtype=torch.bool)
    images[..., 2] = True
    for shift, place in ((0.4, 2), (0.6, 3), (1.4, 3), (-0.6, 1)):
        draws = torch.tensor([0.5 + shift / 4, 0.5, 0.5, 0.5]).view(1, 1, 4)
        moved = Augmenter(Augmentation(shift=2.0))(images, draws)
        assert moved.flatten().nonzero().flatten().tolist() == [place]
