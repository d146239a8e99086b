from math import cos, pi

import torch
from pytest import approx, mark, raises

from allotment.settings import TrainingSettings
from allotment._engine._trainer import Program
from allotment._engine._schedule import FallingRates
from tests.training.toy import a_run


@mark.parametrize("step", [0, 1, 30, 99, 100])
def test_rates_follow_half_a_cosine(step: int) -> None:
    parameters = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": [parameters[0]], "lr": 0.1}, {"params": [parameters[1]], "lr": 0.02}]
    optimizer = torch.optim.Adam(groups, fused=True)
    FallingRates(optimizer, 100, torch.device("cpu")).set(torch.tensor(step))
    share = 0.5 * (1 + cos(pi * step / 100))
    assert [float(group["lr"]) for group in optimizer.param_groups] == approx(
        [0.1 * share, 0.02 * share], abs=1e-8
    )


@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_program_stands_nearly_still_at_the_end_of_its_rounds(schedule: str) -> None:
    settings = TrainingSettings(
        rounds=40, batch_size=8, learning_rate=0.01, decay="cosine", schedule=schedule
    )
    program = Program([a_run(settings=settings)], torch.device("cpu"))
    moved = []
    for block in range(4):
        before = program.replicas.snapshot()["weights"]
        program.steps(block, 20)
        moved.append(float((program.replicas.snapshot()["weights"] - before).abs().mean()))
    # Adam moves each weight by about the rate; over the last quarter that is 5 % of the full one.
    assert moved[3] < 0.15 * moved[0]


def test_an_unknown_decay_is_refused() -> None:
    with raises(ValueError, match="`decay` should be one of"):
        TrainingSettings(decay="steps")
