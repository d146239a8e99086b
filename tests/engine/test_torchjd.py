"""Aggregators of TorchJD as a loss balancing, by the recipe in `examples/`."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from pytest import mark
from torch.testing import assert_close

pytest.importorskip("torchjd", reason="TorchJD is not installed here")
from torchjd.aggregation import MGDA, Aggregator, AlignedMTL, PCGrad

from examples.torchjd_gradients import Aggregated
from tests.engine.test_balancing import of_classes, plainly_combined
from tests.training.toy import n_different, outcomes_of


@mark.usefixtures("double")
@mark.parametrize("aggregator", [MGDA(), AlignedMTL()], ids=["mgda", "aligned"])
@mark.parametrize("n_runs", [1, 2])
def test_training_follows_what_the_aggregator_makes_of_the_gradients(
    n_runs: int, aggregator: Aggregator
) -> None:
    changes: dict[str, Any] = {"schedule": "joint", "budget": None, "clip_norm": None, "rounds": 10}
    changes |= {"learning_rate": 0.3, "optimizer": torch.optim.SGD}  # plain steps hide nothing
    settings = of_classes(**changes, loss_balancing=Aggregated(aggregator)).settings
    runs = [replace(of_classes(seed), settings=settings) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        for name, value in plainly_combined(run, aggregator).named_parameters():
            assert_close(outcome.weights[name], value.detach(), rtol=0, atol=1e-8)


def test_gradients_are_combined_as_by_hand() -> None:
    gradients = torch.randn(3, 5)
    torch.manual_seed(1)  # of the order of PCGrad
    expected = PCGrad()(gradients)
    torch.manual_seed(1)
    assert_close(Aggregated(PCGrad()).combine(gradients), expected, rtol=0, atol=0)


def test_the_aggregator_changes_what_is_learnt() -> None:
    ends = [
        outcomes_of([of_classes(schedule="joint", rounds=10, loss_balancing=each)])[0].weights
        for each in (None, Aggregated(PCGrad()))
    ]
    assert n_different(*ends)
