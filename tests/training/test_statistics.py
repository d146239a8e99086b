"""Batch normalisations that tasks with different inputs share."""

import warnings
from collections.abc import Callable

import torch
from pytest import mark, param, warns
from torch import nn

from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix
from allotment.tasks import Stream, Task
from allotment.training import Run
from allotment.training._statistics import warn_of_shared_statistics
from tests.training.toy import N_INPUTS, SETTINGS, a_network

GROUP = Callable[[], nn.Module]


def normed(norm: GROUP) -> nn.Module:
    return nn.Sequential(nn.Linear(N_INPUTS, 4), norm())


def tasks(shift: float, scale: float, *, streams: bool = False) -> list[Task]:
    x = torch.randn(100, N_INPUTS)
    made = []
    for name, inputs in (("a", x), ("b", scale * torch.randn(100, N_INPUTS) + shift)):
        pair = inputs, inputs.sum(dim=1)
        made.append(Task(name, Stream([pair]) if streams else pair))
    return made


def warn(
    found: list[Task], allocation: Allocation, norm: GROUP = lambda: nn.BatchNorm1d(4)
) -> None:
    network = a_network(allocation, make=lambda: normed(norm))
    warn_of_shared_statistics(Run(network, found, 0, SETTINGS))


def learnt() -> Allocation:
    return GumbelMatrix(2, 2)


@mark.parametrize(("shift", "scale"), [(3.0, 1.0), (0.0, 5.0), (0.0, 0.1)])
@mark.parametrize("streams", [False, True])
def test_inputs_that_differ_are_told(shift: float, scale: float, streams: bool) -> None:
    with warns(UserWarning, match=r"Found BatchNorm1d in component 0 .* 'a' and 'b'.*GroupNorm"):
        warn(tasks(shift, scale, streams=streams), learnt())


@mark.parametrize(
    "quiet",
    [
        param(lambda: warn(tasks(0.5, 1.5), learnt()), id="inputs that are near"),
        param(
            lambda: warn(tasks(3, 1), FixedMatrix([[1, 0], [0, 1]])), id="components of one task"
        ),
        param(lambda: warn(tasks(3, 1), learnt(), lambda: nn.GroupNorm(2, 4)), id="group norm"),
        param(
            lambda: warn(
                tasks(3, 1), learnt(), lambda: nn.BatchNorm1d(4, track_running_stats=False)
            ),
            id="no running statistics",
        ),
    ],
)
def test_else_nothing_is_said(quiet: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet()
