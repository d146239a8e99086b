"""The experiments by name."""

from .._checks import check_choice
from ..experiments import Experiment
from ._clusters import CLUSTERS
from ._comparison import COMPARISONS, PREFIX, SUITES
from ._images import DIGITS, MNIST
from ._map import MAPS
from ._omniglot import OMNIGLOT, OMNIGLOT_TUNED
from ._synthetic import TRANSFER, TWO_PAIRS

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(TRANSFER, TWO_PAIRS, DIGITS, MNIST, OMNIGLOT, OMNIGLOT_TUNED, CLUSTERS),
        *COMPARISONS,
        *MAPS,
    )
}


def experiment_named(name: str) -> Experiment:
    """Returns an experiment; an unknown name is answered with the known ones."""
    check_choice("experiment", name, list(EXPERIMENTS))
    return EXPERIMENTS[name]


def comparison_of(suite: str | None) -> Experiment:
    """Returns the comparison on a suite; an unknown name is answered with the known ones."""
    check_choice("suite", suite or "", list(SUITES))
    return EXPERIMENTS[f"{PREFIX}{suite}"]
