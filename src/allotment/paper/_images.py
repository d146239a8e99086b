"""Experiments on copies and rotations of digit images."""

from dataclasses import replace

from ..allocation import GumbelMatrix, NoSharing, SharedBottom
from ..experiments import DataOptions, Experiment, Method, ReportOptions, using
from ..settings import Optimization, TrainingSettings
from .networks import digits_network, mnist_network
from .suites import digits, four_mnists

NO_SHARING = Method(name="no_sharing", label="No sharing", allocation=using(NoSharing))
SHARED_BOTTOM = Method(
    name="shared_bottom", label="Shared bottom (sum)", allocation=using(SharedBottom)
)
SHARED_BOTTOM_MEAN = Method(
    name="shared_bottom_mean",
    label="Shared bottom (mean)",
    allocation=using(SharedBottom, reduce="mean"),
)
GUMBEL = Method(name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix))
GUMBEL_BUDGET = Method(
    name="gumbel_budget",
    label="Gumbel-Matrix, budget 0.75",
    allocation=using(GumbelMatrix),
    training={"budget": 0.75},
)

DIGITS = Experiment(
    name="digits",
    summary="8x8 digits, upright and rotated, twice each; data that comes with the package",
    tasks=lambda choice: digits(),
    network=digits_network,
    methods=(NO_SHARING, SHARED_BOTTOM, SHARED_BOTTOM_MEAN, GUMBEL, GUMBEL_BUDGET),
    # Ours, picked once and not tuned; validation chooses the weights of each run alone.
    training=TrainingSettings(
        rounds=600,
        batch_size=32,
        evaluate_every=50,
        optimization=Optimization(learning_rate=0.005, allocation_learning_rate=0.02),
    ),
    n_runs=5,
    report=ReportOptions(title="Four tasks on small real images", structure="the two families"),
)


def _with_paper(method: Method, value: str) -> Method:
    return replace(method, paper={"": value})


MNIST = Experiment(
    name="mnist",
    summary="MNIST, upright and rotated, twice each",
    tasks=lambda choice: four_mnists(choice.data_folder),
    network=mnist_network,
    methods=(
        _with_paper(NO_SHARING, "93.5 ± 5.1 (25 % open)"),
        _with_paper(SHARED_BOTTOM, "95.7 ± 0.5 (100 % open)"),
        SHARED_BOTTOM_MEAN,
        _with_paper(GUMBEL, "96.8 ± 0.2 (96 % open)"),
        _with_paper(GUMBEL_BUDGET, "96.7 ± 0.3 (75 % open)"),
    ),
    training=TrainingSettings(
        rounds=37_500, batch_size=16, optimization=Optimization(learning_rate=0.005)
    ),
    n_runs=30,
    data=DataOptions(sets=("mnist",)),
    report=ReportOptions(title="4-MNISTs", place="Table I", structure="the two families"),
)
