"""When do learnt gates pay? Tasks by relatedness, examples, capacity and number, declared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .._streams import stream
from ..allocation import GumbelMatrix
from ..experiments import DataOptions, Experiment, Method, ReportOptions, TaskChoice, using
from ..records import RunRecord
from ..settings import Optimization, TrainingSettings
from ..tasks import Split, Task
from ._census import CENSUS, census
from ._image_data import HELD_OUT
from ._images import MNIST, four_mnists
from ._methods import NO_SHARING, SHARED_BOTTOM_MEAN, SINGLE_TASK
from ._synthetic import VALIDATION, WIDTH, Point, pairs_at, pairs_share
from .networks import map_network

if TYPE_CHECKING:
    from ..report import OwnSection


RHOS = tuple(step / 10 for step in range(11))
EXAMPLES = (50, 200, 1_000, 5_000, None)  # labelled ones of a task; None: as many as are asked for
# Width and number of tasks are varied one at a time, over fewer points of the first two axes: a
# full grid would have nine times as many. With 50 and 200 examples of 128 numbers there is little
# to be learnt in any network, and unlimited ones take the most memory.
FEWER_RHOS, FEWER_EXAMPLES = RHOS[::2], (1_000, 5_000)
OTHER_WIDTHS, OTHER_TASKS = (4, 64), (8, 16)


def points() -> list[Point]:
    """Returns all points of the map, those of the usual network and number of tasks first."""
    usual = [Point(rho=rho, n_examples=n) for n in EXAMPLES for rho in RHOS]
    fewer = [Point(rho=rho, n_examples=n) for n in FEWER_EXAMPLES for rho in FEWER_RHOS]
    wider = [replace(point, width=width) for width in OTHER_WIDTHS for point in fewer]
    more = [replace(point, n_tasks=n_tasks) for n_tasks in OTHER_TASKS for point in fewer]
    return [*usual, *wider, *more]


POINTS = {str(point): point for point in points()}


def fewer_examples(tasks: Sequence[Task], n: int, *, seed: int) -> list[Task]:
    """Returns tasks with at most ``n`` labelled examples each, a fifth of them for validation.

    Which ones, the seed says; fewer are a part of more. Tests stay as they are.
    """

    def some(task: Task, part: str, n_kept: int) -> Split:
        split = task.split(part)
        assert split is not None
        rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
        order = torch.randperm(len(rows), generator=stream(seed, f"fewer/{part}/{task.name}"))
        return replace(split, rows=rows[order[:n_kept]])

    held = round(VALIDATION * n)
    return [
        replace(
            task, train=some(task, "train", n - held), validation=some(task, "validation", held)
        )
        for task in tasks
    ]


ORACLE = Method(name="oracle", label="Oracle pattern", allocation=using(pairs_share))
GUMBEL = Method(name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix))


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways of sharing of a map: two fixed patterns, gates, and the oracle pattern."""

    alone: Method = NO_SHARING
    shared: Method = SHARED_BOTTOM_MEAN
    learnt: Method = GUMBEL
    oracle: Method | None = ORACLE
    rates: tuple[float, ...]  # of learning; at each point a way has the best on validation
    times: float = 1.0  # how much faster gates learn

    @property
    def every(self) -> list[Method]:
        found = (self.alone, self.shared, self.oracle, self.learnt)
        return [method for method in found if method is not None]

    def trials(self, method: Method) -> list[Method]:
        """Returns a way of sharing with each of the rates."""
        return [
            replace(
                method,
                name=f"{method.name}-{rate:g}",
                label=f"{method.label}, learning rate {rate:g}",
                training={"learning_rate": rate, "allocation_learning_rate": self.times * rate},
            )
            for rate in self.rates
        ]

    @property
    def methods(self) -> list[Method]:
        return [trial for method in self.every for trial in self.trials(method)]


def _pairs_section(records: Sequence[RunRecord]) -> "OwnSection":
    from ._map_report import pairs_section  # here, since figures take long to import

    return pairs_section(PAIRS_WAYS, records)


def _sizes_section(ways: Ways, records: Sequence[RunRecord]) -> "OwnSection":
    from ._map_report import sizes_section

    return sizes_section(ways, records)


PAIRS_WAYS = Ways(rates=(0.01, 0.003))
MAP = Experiment(
    name="map",
    summary="when learnt gates pay: relatedness x examples, capacity, number of tasks",
    tasks=lambda choice: pairs_at(POINTS[choice.condition], seed=choice.seed),
    network=partial(map_network, width=WIDTH),
    networks={
        name: partial(map_network, width=point.width)
        for name, point in POINTS.items()
        if point.width != WIDTH
    },
    methods=PAIRS_WAYS.methods,
    # As in the paper's experiments on such pairs. The weights that do best on validation are kept:
    # with few examples that is soon.
    training=TrainingSettings(
        rounds=3_000,
        batch_size=64,
        evaluate_every=50,
        optimization=Optimization(learning_rate=PAIRS_WAYS.rates[0], clip_norm=1.0),
    ),
    n_runs=10,
    data=DataOptions(conditions=tuple(POINTS), by_seed=True, joined=True),
    report=ReportOptions(
        title="Pairs of tasks",
        measure="test_loss",
        least=0.0,
        own=_pairs_section,
    ),
)

SIZES: Mapping[str, int | None] = {"n=100": 100, "n=500": 500, "n=2000": 2_000, "n=all": None}


# Under names of their own, by which other processes find them.
@lru_cache(maxsize=1)
def _census_tasks(folder: Path | None) -> Iterable[Task]:
    return census(folder)


@lru_cache(maxsize=1)
def _mnist_tasks(folder: Path | None) -> list[Task]:
    return four_mnists(folder, held_out=HELD_OUT)


def _some(whole: Callable[[Path | None], Iterable[Task]], choice: TaskChoice) -> list[Task]:
    """Returns the tasks of a data set with as many examples as the condition says."""
    n, tasks = SIZES[choice.condition], list(whole(choice.data_folder))
    return tasks if n is None else fewer_examples(tasks, n, seed=choice.seed)


def _on_real_data(
    suite: Experiment, whole: Callable[..., Iterable[Task]], ways: Ways, **training: object
) -> Experiment:
    """Returns the map of a suite with fewer examples for each task."""
    return replace(
        suite,
        name=f"map_{suite.name}",
        summary=f"when learnt gates pay: {suite.name} with fewer examples per task",
        tasks=partial(_some, whole),
        methods=ways.methods,
        training=suite.training.changed(**training),
        n_runs=10,
        data=replace(suite.data, conditions=tuple(SIZES), by_seed=True, joined=True),
        report=replace(
            suite.report,
            title=f"{suite.title}, with fewer examples",
            place="",
            measure=suite.report.measure or "accuracy",
            own=partial(_sizes_section, ways),
        ),
    )


# Both suites as in their comparisons; the census has fewer components than tasks in a layer, so
# that nothing is shared only where each task has a network of its own.
CENSUS_WAYS = Ways(alone=SINGLE_TASK, oracle=None, rates=(3e-3, 1e-3), times=10.0)
MNIST_WAYS = Ways(rates=(0.005, 0.0015))
MAPS = (
    MAP,
    _on_real_data(CENSUS, _census_tasks, CENSUS_WAYS, evaluate_every=20),
    _on_real_data(MNIST, _mnist_tasks, MNIST_WAYS, rounds=10_000, evaluate_every=200),
)

MAP_PAGE = (
    "When learnt gates pay",
    "Gates of Gumbel-Matrix beside two fixed patterns: no sharing, and a shared bottom whose "
    "components are averaged. All have the same components, data and number of steps. A task has "
    "so many labelled examples, of which a fifth is for validation, which chooses the weights of "
    "each run and, for each method at each point, one of two learning rates by the mean over "
    "seeds. Test examples are others, the same for all methods of a seed. The gain is that over "
    "the better of the two patterns, seed by seed. Which one is better is decided by its mean test "
    "result over the same seeds, which flatters it a little and makes gains look smaller. One "
    "interval in ten leaves out 0 by chance alone. Relatedness is the cosine between the "
    "directions of the two tasks of a pair; different pairs have nothing in common. In the oracle "
    "pattern the tasks of a pair share their components, and pairs share none. The commands "
    f"are {', '.join(f'`allotment run {each.name}`' for each in MAPS)}.",
)


def map_summary(records: Sequence[RunRecord]) -> str:
    """Returns what the README says of the map: a sentence and a picture, or that it is not run."""
    own = _pairs_section([r for r in records if r.header.experiment == MAP.name])
    if not own.figures:
        return f"The map of when learnt gates pay (`allotment run {MAP.name}`) is not run yet."
    figure = own.figures[0]
    return (
        f"{own.sentences[0]} All tasks here are synthetic and come in pairs; "
        f"[the map](docs/when.md) has more.\n\n![{figure.caption}](docs/figures/{figure.name}.png)"
    )
