"""The paper's two experiments on synthetic tasks."""

from ..allocation import GumbelMatrix, NoSharing, SharedBottom
from ..experiments import DataOptions, Experiment, Method, ReportOptions, TaskChoice, using
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
NO_SHARING = Method(name="no_sharing", label="No sharing", allocation=using(NoSharing))
SHARED_BOTTOM = Method(
    name="shared_bottom",
    label="Shared bottom",
    allocation=using(SharedBottom, reduce="mean"),  # Section II: averaged
)


def _one_pair(choice: TaskChoice) -> list[Task]:
    rho = float(choice.condition.removeprefix("rho="))
    return synthetic_pairs(1, rho, seed=choice.seed)


TRANSFER = Experiment(
    name="transfer",
    summary="two synthetic tasks, unrelated and equal, with and without sharing",
    tasks=_one_pair,
    network=transfer_network,
    methods=(NO_SHARING, SHARED_BOTTOM),
    training=SYNTHETIC,
    n_runs=30,
    data=DataOptions(conditions=("rho=0", "rho=1"), by_seed=True),
    report=ReportOptions(
        title="Sharing helps related tasks and hurts unrelated ones",
        place="Figure 1",
        least=0.0,  # a squared error
    ),
)

TWO_PAIRS = Experiment(
    name="two_pairs",
    summary="two pairs of equal tasks; does the allocation find the pairs?",
    tasks=lambda choice: synthetic_pairs(2, 1.0, seed=choice.seed),
    network=pairs_network,
    methods=(
        NO_SHARING,
        SHARED_BOTTOM,
        Method(name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix)),
    ),
    training=SYNTHETIC,
    n_runs=20,
    data=DataOptions(by_seed=True),
    report=ReportOptions(
        title="Which of four tasks are related is found while they are learnt",
        place="Appendix, Gumbel-Matrix on synthetic data",
        structure="the two pairs",
        least=0.0,
    ),
)
