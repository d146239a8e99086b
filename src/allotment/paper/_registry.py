"""The experiments by name, and which of their results the README shows."""

from .._checks import check_choice
from ..experiments import Experiment
from ._causes import CAUSES, CAUSES_PREFIX
from ._clusters import CLUSTERS
from ._codebooks import CODEBOOKS
from ._comparison import COMPARISONS, PREFIX, WELL_TRAINED
from ._images import DIGITS, MNIST
from ._map import MAPS
from ._omniglot import OMNIGLOT, OMNIGLOT_TUNED
from ._omniglot_alone import ALONE
from ._remedy import REMEDIES, REMEDY_PREFIX
from ._synthetic import TRANSFER, TWO_PAIRS

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(TRANSFER, TWO_PAIRS, CODEBOOKS, DIGITS, MNIST, OMNIGLOT, OMNIGLOT_TUNED, CLUSTERS),
        ALONE,
        *COMPARISONS,
        *MAPS,
        *CAUSES,
        *REMEDIES,
    )
}
# Experiments of one kind on several suites, by what `allotment run` calls the kind: what it is,
# and its experiments by suite.
KINDS = {
    kind: (text, {each.name.removeprefix(prefix): each.name for each in experiments})
    for kind, text, prefix, experiments in (
        ("comparison", "all ways of sharing on one suite, on equal terms", PREFIX, COMPARISONS),
        ("causes", "why gates lose: one change for each cause", CAUSES_PREFIX, CAUSES),
        ("remedy", "the recommended allocation beside fixed patterns", REMEDY_PREFIX, REMEDIES),
    )
}
KINDS["comparison"][1]["omniglot"] = WELL_TRAINED.name  # of which it is a part
# What the README shows: an experiment, its label, and the methods that share nothing, share
# everything, and learn what to share.
HEADLINES = (
    ("two_pairs", "Two pairs of equal functions", "no_sharing", "shared_bottom", "gumbel"),
    ("codebooks", "Digits coded by two books", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("mnist", "MNIST, upright and rotated", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("omniglot_tuned", "Omniglot, well trained", "", "all_bent_shared_bottom", "all_bent"),
)


def experiment_named(name: str) -> Experiment:
    """Returns an experiment; an unknown name is answered with the known ones.

    >>> experiment_named("mnist").name
    'mnist'
    """
    check_choice("experiment", name, list(EXPERIMENTS))
    return EXPERIMENTS[name]


def experiment_on(kind: str, suite: str | None) -> Experiment:
    """Returns the experiment of a kind on a suite; an unknown name is answered with those known.

    Args:
        kind: A key of `KINDS`.
        suite: The name of one of its suites.

    >>> experiment_on("comparison", "digits").name
    'comparison_digits'
    """
    _, names = KINDS[kind]
    check_choice("suite", suite or "", list(names))
    name = names[suite or ""]
    return WELL_TRAINED if name == WELL_TRAINED.name else EXPERIMENTS[name]
