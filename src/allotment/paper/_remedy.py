"""The allocation that we recommend, beside fixed patterns, with seeds that no choice saw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..allocation import EntmaxMatrix, SoftmaxMatrix, recommended
from ..experiments import Experiment, Method, using
from ..records import RunRecord
from ._comparison import COMPARED, PAIRS, WELL_TRAINED
from ._omniglot import BEST

if TYPE_CHECKING:
    from ..report import OwnSection

REMEDY_PREFIX = "remedy_"
FIRST_SEED = 10_000  # all that was chosen was chosen with seeds below
RECOMMENDED = Method(name="recommended", label="Recommended", allocation=using(recommended))
# What may take its place; chosen on validation, with seeds of the causes (the log has numbers).
CANDIDATES = (
    Method(name="shares", label="Softmax", allocation=using(SoftmaxMatrix)),
    Method(name="sparse_shares", label="Entmax", allocation=using(EntmaxMatrix)),
)
SHARED = "shared_bottom_mean"
GUMBEL = "gumbel"


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A suite on which the recommended allocation is held against fixed patterns.

    Attributes:
        name: Of the suite.
        comparison: The experiment that compares all ways of sharing on it.
        alone: The way to share nothing, of those that the comparison has; empty: none fits.
        n_runs: Of each method.
    """

    name: str
    comparison: Experiment
    alone: str
    n_runs: int

    @property
    def by_hand(self) -> tuple[str, ...]:
        return (self.alone, SHARED) if self.alone else (SHARED,)

    @property
    def methods(self) -> list[Method]:
        others = (self.comparison.method(name) for name in (GUMBEL, *self.by_hand))
        return [RECOMMENDED, *CANDIDATES, *others]


def _section(contest: Contest, records: Sequence[RunRecord]) -> "OwnSection":
    from ._remedy_report import contest_section  # here, since figures take long to import

    return contest_section(contest, records)


def remedy_page(records: Sequence[RunRecord]) -> tuple[str, str, "OwnSection"]:
    """Returns the title of the remedy's part of a page, what it is, and what it shows.

    >>> remedy_page([])[0]
    'The recommended allocation'
    """
    from ._remedy_report import remedy_overview

    return "The recommended allocation", REMEDY_TEXT, remedy_overview(records)


def remedy_summary(records: Sequence[RunRecord]) -> str:
    """Returns what the README says: whether the goal is met, and what a choice on validation gives.

    >>> remedy_summary([]).partition(". [")[2]
    'The table](docs/when.md#the-recommended-allocation).'
    """
    from ._remedy_report import summary_text

    return f"{summary_text(records)} [The table](docs/when.md#the-recommended-allocation)."


def remedy(contest: Contest) -> Experiment:
    """Returns the experiment of a contest; learning rates are searched as in the comparison."""
    compared = contest.comparison
    title = compared.title.removeprefix("Comparison: ")
    fields: dict[str, Any] = {
        "name": REMEDY_PREFIX + contest.name,
        "summary": f"the recommended allocation beside fixed patterns, on {contest.name}",
        "methods": contest.methods,
        "n_runs": contest.n_runs,
        "first_seed": FIRST_SEED,
        "report": replace(
            compared.report,
            title=f"Recommended: {title}",
            baseline=SHARED,
            left_out={},
            own=partial(_section, contest),
        ),
    }
    return replace(compared, **fields)


# Well trained, as in the comparison, and all methods at the same rates.
_BY_NAME = {GUMBEL: "all_bent", SHARED: "all_bent_shared_bottom"}
_ALPHABETS = replace(
    WELL_TRAINED,
    methods=[
        replace(WELL_TRAINED.method(own), name=name, training={}) for name, own in _BY_NAME.items()
    ],
    training=WELL_TRAINED.training.changed(**BEST),
    report=replace(WELL_TRAINED.report, baseline=SHARED),
)
CONTESTS = (
    Contest(name="two_pairs", comparison=PAIRS, alone="no_sharing", n_runs=30),
    Contest(name="digits", comparison=COMPARED["digits"], alone="no_sharing", n_runs=30),
    Contest(name="mnist", comparison=COMPARED["mnist"], alone="no_sharing", n_runs=20),
    Contest(name="census", comparison=COMPARED["census"], alone="single_task", n_runs=12),
    Contest(name="clusters", comparison=COMPARED["clusters"], alone="", n_runs=3),
    Contest(name="omniglot", comparison=_ALPHABETS, alone="", n_runs=3),
)
REMEDIES = tuple(remedy(contest) for contest in CONTESTS)
REMEDY_TEXT = (
    "`al.recommended` beside the fixed patterns, no sharing and a shared bottom, on test examples; "
    "and beside two candidates to take its place: shares of a layer's components that each task "
    "learns without gates and draws, by a softmax (`SoftmaxMatrix`), or by an entmax "
    "(`EntmaxMatrix`), which makes some of them 0. "
    "Nothing of the recommended one was chosen by them, nor with seeds from "
    f"{FIRST_SEED:,} on, which these runs have. The candidates were looked for after its tests "
    "with these seeds were known: one that takes its place is to be tested with others. "
    "Learning rates are chosen on validation as in the comparison, for each method the same way. "
    "Gains are over the better of the two fixed patterns, seed by seed, with 90 % intervals: "
    "percentage points, or percent of the loss on two_pairs. Which of the two is better is decided "
    "by its mean test result over the same seeds, which flatters it a little and makes gains look "
    "smaller. Where there are fewer components than tasks, no sharing is a network for each task; "
    "on the two suites with the largest networks that is too large and is left out. Chosen on "
    "validation: for each seed the run that does best there, of the recommended allocation and the "
    "fixed patterns; that takes training all of them."
)
