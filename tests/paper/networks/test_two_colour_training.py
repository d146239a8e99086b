"""Training on drawings, which are images of type `bool`: as on ones and zeros."""

from copy import deepcopy
from typing import Any

import torch
from pytest import MonkeyPatch, mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import fit
from allotment.paper.networks import ConvNormReLU, SameAvgPool2d, SameMaxPool2d
from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks._two_colour import Drawing
from allotment.tasks import Split, Task
from allotment.settings import TrainingSettings
from allotment._engine._augmentation import Augmentation


def tasks_of(images: Tensor) -> list[Task]:
    splits = [Split(images, torch.arange(len(images)) % (2 + t)) for t in range(2)]
    return [Task(f"task {t}", split, split, split) for t, split in enumerate(splits)]


def drawings() -> Tensor:
    return torch.rand(24, 1, 7, 8, generator=torch.Generator().manual_seed(0)) < 0.3


def network(stem: nn.Module | None = None) -> MultiTaskNetwork:
    torch.manual_seed(0)
    components = [ConvNormReLU(8, 8, 3), ConvNormReLU(8, 8, 5), SameMaxPool2d(), SameAvgPool2d()]
    layers = [ModularLayer(components, GumbelMatrix(2, 4)), nn.Flatten()]
    heads = [nn.Linear(8 * 7 * 8, 2), nn.Linear(8 * 7 * 8, 3)]
    return MultiTaskNetwork(stem or ConvNormReLU(1, 8, 1), layers, heads)


def trained(images: Tensor, stem: nn.Module | None = None, **settings: object) -> list[Tensor]:
    """Returns the weights after short training, and the test losses."""
    chosen = TrainingSettings(rounds=5, batch_size=8, **settings)  # type: ignore[arg-type]
    learnt = network(stem)
    result = fit(learnt, tasks_of(images), chosen, device="cpu")
    assert result.test is not None
    return [*learnt.state_dict().values(), torch.from_numpy(result.test.losses)]


@mark.parametrize("schedule", ["alternating", "joint"])
def test_ink_trains_as_ones_and_zeros(schedule: str, monkeypatch: MonkeyPatch) -> None:
    made: list[bool] = []  # whether in training
    draw = ConvNormReLU.drawing

    def seen(stem: ConvNormReLU, ink: Tensor) -> Drawing:
        if torch.is_grad_enabled() or not stem.training:  # no trial
            made.append(stem.training)
        return draw(stem, ink)

    monkeypatch.setattr(ConvNormReLU, "drawing", seen)
    drawn = trained(drawings(), schedule=schedule)
    n_made = len(made)
    assert True in made and False in made
    plain = trained(drawings().float(), schedule=schedule)
    assert len(made) == n_made
    assert_close(drawn, plain, rtol=1e-5, atol=1e-5)


def test_ink_moved_by_whole_pixels_trains_as_ones_and_zeros() -> None:
    plain = trained(drawings().float(), crop=2)
    assert_close(trained(drawings(), crop=2), plain, rtol=1e-5, atol=1e-5)
    assert n_different(plain, trained(drawings().float())) > 0


def n_different(a: list[Tensor], b: list[Tensor]) -> int:
    return sum(not torch.allclose(x, y, rtol=1e-3, atol=1e-3) for x, y in zip(a, b, strict=True))


def test_a_stem_that_takes_no_ink_is_given_numbers() -> None:
    torch.manual_seed(1)
    stem = nn.Conv2d(1, 8, 1)
    drawn, plain = (trained(x, deepcopy(stem)) for x in (drawings(), drawings().float()))
    assert_close(drawn, plain, rtol=0, atol=0)


@mark.parametrize(
    ("chosen", "draws"),
    [
        ({"crop": 2}, [0.1, 0.9]),
        ({"shift": 3.0}, [1.0, 0.5, 0.5, 0.5]),
        ({"rotation": 90.0}, [0.5, 0.5, 1.0, 0.5]),
        ({"slant": 1.0}, [0.5, 0.5, 0.5, 0.5, 1.0]),
        ({"bend": 2.0}, [0.5, 0.5, 0.5, 0.5, *[1.0] * 25, *[0.0] * 25]),
        ({"crop": 1, "shift": 2.0, "slant": 1.0}, [0.1, 0.9, 0.5, 0.0, 0.5, 0.5, 0.0]),
    ],
)
def test_ink_that_falls_on_pixels_is_moved_as_numbers_are(
    chosen: dict[str, Any], draws: list[float]
) -> None:
    ink = torch.rand(1, 4, 1, 7, 7, generator=torch.Generator().manual_seed(0)) < 0.4
    noise = torch.tensor(draws).expand(1, 4, -1)
    moved = Augmentation(**chosen)(ink, noise)
    assert moved.dtype == torch.bool
    assert_close(moved.float(), Augmentation(**chosen)(ink.float(), noise), rtol=1e-3, atol=1e-3)
    assert not torch.equal(moved, ink)


def test_ink_that_falls_between_pixels_goes_to_the_nearest() -> None:
    ink = torch.zeros(1, 1, 1, 1, 6, dtype=torch.bool)
    ink[..., 2] = True
    for shift, place in ((0.4, 2), (0.6, 3), (1.4, 3), (-0.6, 1)):
        draws = torch.tensor([0.5 + shift / 4, 0.5, 0.5, 0.5]).view(1, 1, 4)
        moved = Augmentation(shift=2.0)(ink, draws)
        assert moved.flatten().nonzero().flatten().tolist() == [place]
