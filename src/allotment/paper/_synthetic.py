"""The paper's two experiments on synthetic tasks."""

from ..experiments import (
    Experiment,
    GumbelSettings,
    Method,
    NoSharingSettings,
    SharedBottomSettings,
    TaskChoice,
)
from ..settings import Optimization, TrainingSettings
from ..tasks import Task
from .networks import pairs_network, transfer_network
from .suites import synthetic_pairs

# The paper gives batch, rate, clipping and length for the second experiment (Appendix A-3); the
# same are ours for the first.
SYNTHETIC = TrainingSettings(
    rounds=3_000,
    batch_size=64,
    optimization=Optimization(learning_rate=0.01, clip_norm=1.0),
)


def _one_pair(choice: TaskChoice) -> list[Task]:
    rho = float(choice.condition.removeprefix("rho="))
    return synthetic_pairs(1, rho, seed=choice.seed)


def _two_pairs(choice: TaskChoice) -> list[Task]:
    return synthetic_pairs(2, 1.0, seed=choice.seed)


TRANSFER = Experiment(
    name="transfer",
    title="Sharing helps related tasks and hurts unrelated ones",
    summary="two synthetic tasks, unrelated and equal, with and without sharing",
    place="Figure 1",
    conditions=("rho=0", "rho=1"),
    tasks=_one_pair,
    tasks_differ=True,
    network=transfer_network,
    methods=(
        Method(name="no_sharing", label="No sharing", allocation=NoSharingSettings()),
        Method(
            name="shared_bottom",
            label="Shared bottom",
            allocation=SharedBottomSettings(reduce="mean"),  # Section II: averaged
        ),
    ),
    training=SYNTHETIC,
    n_runs=30,
    measure="loss",
    measure_label="Loss",
)

TWO_PAIRS = Experiment(
    name="two_pairs",
    title="Which of four tasks are related is found while they are learnt",
    summary="two pairs of equal tasks; does the allocation find the pairs?",
    place="Appendix, Gumbel-Matrix on synthetic data",
    tasks=_two_pairs,
    tasks_differ=True,
    network=pairs_network,
    methods=(
        Method(name="no_sharing", label="No sharing", allocation=NoSharingSettings()),
        Method(
            name="shared_bottom",
            label="Shared bottom",
            allocation=SharedBottomSettings(reduce="mean"),
        ),
        Method(name="gumbel", label="Gumbel-Matrix", allocation=GumbelSettings()),
    ),
    training=SYNTHETIC,
    n_runs=20,
    measure="loss",
    measure_label="Loss",
    structure="the two pairs",
)
