from dataclasses import replace

import torch
from pytest import mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.network import GumbelMatrix, MultiTaskNetwork
from allotment.training import Run, TrainingSettings, train
from allotment.training._program import Program
from tests.training.toy import (
    SETTINGS,
    a_network,
    a_run,
    classes,
    n_different,
    outcomes_of,
    progress_of,
)

AVERAGED = replace(SETTINGS, rounds=40, average=0.95)


def test_the_mean_is_that_of_the_weights_after_each_step() -> None:
    program = Program([a_run(settings=AVERAGED)], torch.device("cpu"))
    mean = program.replicas.snapshot()["weights"]
    for step in range(1, 21):
        before = int(program.replicas.step)
        _one_step(program, before)
        share = max(9.0 / (10.0 + step), 0.05)
        mean += share * (program.replicas.snapshot()["weights"] - mean)
    with program.averaged():
        assert_close(program.replicas.snapshot()["weights"], mean)
    assert not torch.allclose(program.replicas.snapshot()["weights"], mean, atol=1e-4)


def _one_step(program: Program, step: int) -> None:
    """Takes one step of the block that a step lies in."""
    block = program._blocks.make(step // 20)
    with torch.no_grad():
        program._step(block, step % 20)


def test_averaging_leaves_the_training_itself_as_it_is() -> None:
    plain = progress_of([a_run(settings=replace(AVERAGED, average=0.0))])
    averaged = progress_of([a_run(settings=AVERAGED)])
    assert [p.losses.tolist() for p in plain] == [p.losses.tolist() for p in averaged]


def test_the_averaged_weights_are_what_a_run_ends_with() -> None:
    plain = outcomes_of([a_run(settings=replace(AVERAGED, average=0.0))])[0].weights
    averaged = outcomes_of([a_run(settings=AVERAGED)])[0].weights
    assert n_different(plain, averaged) > 3


@mark.parametrize("evaluate_every", [None, 10])
def test_going_on_from_a_state_ends_the_same(evaluate_every: int | None) -> None:
    settings = replace(AVERAGED, evaluate_every=evaluate_every)

    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])

    def runs() -> list[Run]:
        return [a_run(settings=settings, tasks=classes(3, 4), build=build)]

    whole = list(train(runs()))
    halfway = train(runs())
    for progress in halfway:
        if progress.round == 20:
            assert progress.state is not None
            state = progress.state()
            break
    resumed = list(train(runs(), resume_from=state))
    assert whole[-1].outcomes is not None and resumed[-1].outcomes is not None
    assert n_different(whole[-1].outcomes[0].weights, resumed[-1].outcomes[0].weights) == 0


@mark.parametrize("average", [-0.1, 1.0])
def test_the_range_of_the_average(average: float) -> None:
    with raises(ValueError, match=r"`average` should be in \[0, 1\)"):
        TrainingSettings(average=average)
