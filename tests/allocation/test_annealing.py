"""The temperature over training."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import approx, mark, raises
from torch.testing import assert_close

from allotment.allocation import Annealing

STEPS = [0, 1, 3, 99, 2_499, 9_998, 9_999, 10_000, 160_000]


@mark.parametrize("step", STEPS)
def test_the_temperature_falls_with_the_root_down_to_the_floor(step: int) -> None:
    assert Annealing()(step) == approx(max(0.5, 50 / (step + 1) ** 0.5), rel=1e-12)


def test_the_floor_is_reached_at_step_9_999() -> None:
    annealing = Annealing()
    assert annealing(0) == 50.0
    assert annealing(9_998) > 0.5
    assert annealing(9_999) == 0.5
    assert annealing(10_000) == 0.5


def test_a_tensor_of_steps_gives_the_same_temperatures() -> None:
    expected = torch.tensor([Annealing()(step) for step in STEPS])
    assert_close(Annealing()(torch.tensor(STEPS)), expected)


@mark.parametrize(
    ("start", "floor", "expectation"),
    [
        (0.1, 0.1, does_not_raise()),
        (0.0, 0.1, raises(ValueError, match=r"`start` should be above 0\. Found `start = 0.0`")),
        (0.1, 0.0, raises(ValueError, match=r"`floor` should be above 0\. Found `floor = 0.0`")),
        (0.1, -1.0, raises(ValueError, match=r"`floor` should be above 0\. Found `floor = -1.0`")),
        (float("nan"), 0.1, raises(ValueError, match=r"`start` should be above 0\. Found .*nan")),
    ],
)
def test_temperatures_are_above_zero(
    start: float, floor: float, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        Annealing(start=start, floor=floor)


def test_temperatures_are_numbers() -> None:
    with raises(TypeError, match=r"`start` should be a number\. Found `start = '5'`\."):
        Annealing(start="5")  # type: ignore[arg-type]
