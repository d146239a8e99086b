"""Why do learnt gates lose where they lose? One change of their training for each cause."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..experiments import Experiment, Method, using
from ..records import RunRecord
from ._changes import CHANGES, JOINT, NARROW, PLAIN, Change, StagedMatrix, some_components
from ._comparison import COMPARED, PAIRS, PREFIX
from ._methods import NO_SHARING, SHARED_BOTTOM_MEAN, SINGLE_TASK
from ._synthetic import WIDTH, Point, pairs_at
from .networks import map_network

if TYPE_CHECKING:
    from ..report import OwnSection

CAUSES_PREFIX = "causes_"
FIRST_SEED = 3_000  # of runs that nothing else was chosen by, and that no table of tests has


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks on which causes are tried.

    Attributes:
        comparison: The experiment that compares all ways of sharing on them.
        alone: The way to share nothing.
        rates: What declared learning rates are multiplied by, for gates, for a shared bottom and
            where nothing is shared: as the comparison chose on validation (`results/rates/`), so
            that causes differ in nothing else.
        joint_rates: The same for joint steps: of 1/3, 1, 3 and 9 the best on validation, in four
            or six runs from seed 1,000 on; on unrelated pairs those of two_pairs, not searched.
            Where each task has a whole network, joint steps are left out for their time: the last
            number is None.
        share_open: Of the components, about what plain gates leave open for a task; where it is
            all, there is no narrow shared bottom.
        n_runs: Of each method.
    """

    comparison: Experiment
    alone: Method
    rates: tuple[float, float, float]
    joint_rates: tuple[float, float, float | None]
    share_open: float
    n_runs: int

    @property
    def name(self) -> str:
        return self.comparison.name.removeprefix(PREFIX)

    @property
    def by_hand(self) -> tuple[str, str]:
        return self.alone.name, SHARED_BOTTOM_MEAN.name

    @property
    def methods(self) -> list[Method]:
        """All that is trained: fixed patterns first, then plain gates and their changes."""
        _, shared, alone = self.rates
        _, joint_shared, joint_alone = self.joint_rates
        joint = [] if joint_alone is None else [self._at(_joint(self.alone), joint_alone)]
        return [
            self._at(self.alone, alone),
            self._at(SHARED_BOTTOM_MEAN, shared),
            *([self._at(self._narrow, shared)] if self.share_open < 1 else []),
            *joint,
            self._at(_joint(SHARED_BOTTOM_MEAN), joint_shared),
            *(self._method(change) for change in (PLAIN, *CHANGES)),
        ]

    @property
    def _narrow(self) -> Method:
        return replace(
            SHARED_BOTTOM_MEAN,
            name=NARROW,
            label=f"A shared bottom with {100 * self.share_open:.0f} % of the components",
            allocation=using(some_components, share=self.share_open),
        )

    def _method(self, change: Change) -> Method:
        factor = (self.joint_rates if change.name.endswith(JOINT) else self.rates)[0]
        method = Method(
            name=change.name,
            label=change.label,
            allocation=using(StagedMatrix, **change.gates),
            training=change.training or {},
        )
        return self._at(method, factor, change.slowness)

    def _at(self, method: Method, factor: float, slowness: float = 1.0) -> Method:
        """Returns a method with this multiple of the declared learning rates."""
        how = self.comparison.training.optimization
        gates = how.allocation_learning_rate or how.learning_rate
        rates = {
            "learning_rate": factor * how.learning_rate,
            "allocation_learning_rate": factor * gates / slowness,
        }
        return replace(method, training={**method.training, **rates})


def _joint(method: Method) -> Method:
    return replace(
        method,
        name=method.name + JOINT,
        label=f"{method.label}, joint steps",
        training={"schedule": "joint"},
    )


def _section(suite: Suite, records: Sequence[RunRecord]) -> "OwnSection":
    from ._causes_report import causes_section  # here, since figures take long to import

    return causes_section(suite, records)


def causes_page(records: Sequence[RunRecord]) -> tuple[str, str, "OwnSection"]:
    """Returns the title of the causes' part of a page, what they are, and what they show.

    >>> causes_page([])[0]
    'Why gates lose where they lose'
    """
    from ._causes_report import causes_overview

    return "Why gates lose where they lose", CAUSES_TEXT, causes_overview(records)


def causes(suite: Suite, **changes: Any) -> Experiment:
    """Returns the experiment that tries all causes on a suite."""
    compared = suite.comparison
    title = compared.title.removeprefix("Comparison: ")
    report = replace(
        compared.report,
        title=f"Causes: {title}",
        baseline="",
        left_out={},
        own=partial(_section, suite),
    )
    fields: dict[str, Any] = {
        "name": CAUSES_PREFIX + suite.name,
        "summary": f"why gates lose: one change for each cause, on {suite.name}",
        "methods": suite.methods,
        "search": None,
        "n_runs": suite.n_runs,
        "first_seed": FIRST_SEED,
        "data": replace(compared.data, joined=True),
        "report": report,
    }
    return replace(compared, **fields | changes)


# Of the points where the map has gates lose most; rates are those that it chose on validation.
UNRELATED = replace(
    PAIRS,
    name=f"{PREFIX}unrelated",
    tasks=lambda choice: pairs_at(Point(rho=0.0, n_examples=None), seed=choice.seed),
    network=partial(map_network, width=WIDTH),
    report=replace(PAIRS.report, title="Comparison: unrelated tasks with a head each"),
)
CAUSES_SUITES = (
    Suite(
        comparison=PAIRS,
        alone=NO_SHARING,
        rates=(1, 1 / 3, 1 / 3),
        joint_rates=(1, 1, 1),
        share_open=0.75,
        n_runs=20,
    ),
    Suite(
        comparison=COMPARED["digits"],
        alone=NO_SHARING,
        rates=(3, 1, 1),
        joint_rates=(9, 9, 3),
        share_open=0.75,
        n_runs=20,
    ),
    Suite(
        comparison=COMPARED["census"],
        alone=SINGLE_TASK,
        rates=(3, 3, 1),
        joint_rates=(9, 9, None),
        share_open=0.625,
        n_runs=10,
    ),
    Suite(
        comparison=UNRELATED,
        alone=NO_SHARING,
        rates=(1, 1, 0.3),
        joint_rates=(1, 1, 1),
        share_open=1.0,
        n_runs=10,
    ),
)
CAUSES = tuple(causes(suite) for suite in CAUSES_SUITES)

CAUSES_TEXT = (
    "Each cause that gates could lose by is taken away, or added, by one change of how plain gates "
    "(Gumbel-Matrix, with a task's most likely gate open where all are shut) are trained; all else "
    "is as it was, learning rates too. Numbers are on validation, since the default is chosen by "
    "them, and tests are not looked at. What a change brings is its difference to plain gates, "
    "seed by seed, with the 90 % interval: percentage points, or percent of the loss on pairs. "
    "One interval in ten leaves out 0 by chance alone. On held-out examples gates are not fitted "
    "to what weights are fitted to, but weights have a fifth fewer examples. Joint steps are fewer "
    "by the number of tasks, with learning rates of their own, and are held against fixed patterns "
    "with joint steps, on census against a shared bottom alone. The commands are "
    f"{', '.join(f'`allotment run causes --suite {suite.name}`' for suite in CAUSES_SUITES)}."
)
