"""The claims that need real training."""

from pytest import mark

from allotment._schema import Floats
from allotment._streams import torch_stream
from allotment.allocation import GumbelMatrix
from allotment.paper import synthetic_pairs
from allotment.paper.networks import pairs_network
from allotment.settings import TrainingSettings
from allotment.training import Run
from tests.training.toy import outcomes_of


def finds_the_pairs(matrix: Floats) -> bool:
    """Tells whether the tasks of a pair have one row, and the two pairs different rows."""
    a, b, c, d = (tuple(row) for row in matrix)
    return a == b and c == d and a != c


def n_found(n_runs: int, rounds: int) -> int:
    """Trains runs on two pairs of tasks and returns how many of them found the pairs."""
    settings = TrainingSettings(rounds=rounds).changed(learning_rate=0.01, clip_norm=1.0)
    runs = []
    for seed in range(n_runs):
        tasks = synthetic_pairs(2, 1.0, seed=seed)
        with torch_stream(seed, "weights"):
            outputs = {task.name: task.n_outputs for task in tasks}
            network = pairs_network(lambda c, **_: GumbelMatrix(4, c), outputs)
        runs.append(Run(network, tasks, seed, settings))
    outcomes = outcomes_of(runs)
    assert all(outcome.status == "finished" for outcome in outcomes)
    return sum(finds_the_pairs(outcome.matrix) for outcome in outcomes)


def test_two_pairs_are_found_in_two_of_three_runs() -> None:
    assert n_found(n_runs=3, rounds=1_500) >= 2


@mark.slow
def test_two_pairs_are_found_in_four_of_five_runs() -> None:
    assert n_found(n_runs=5, rounds=3_000) >= 4
