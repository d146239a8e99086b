"""What an experiment is: a declaration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checks import check_choice
from .._schema import RunHeader
from .._streams import torch_stream
from ..modules import TaskNetwork
from ..settings import TrainingSettings
from ..tasks import Task
from ._methods import Allocate, Method, build_allocation

if TYPE_CHECKING:
    from ..report import Expectation


@dataclass(frozen=True)
class TaskChoice:
    """What tasks may depend on."""

    condition: str
    seed: int
    data_folder: Path | None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Tasks, a network, methods to compare, settings, and the paper's values."""

    name: str
    title: str
    summary: str  # one line for `allotment list`
    place: str  # in the paper
    data: tuple[str, ...] = ()  # data sets it needs
    conditions: tuple[str, ...] = ("",)  # variants of the tasks
    splits: Mapping[str, str] = field(default_factory=dict)  # by condition, where they differ so
    tasks: Callable[[TaskChoice], list[Task]]
    tasks_differ: bool = False  # whether each seed has tasks of its own
    network: Callable[[Allocate, Mapping[str, int]], TaskNetwork]
    methods: tuple[Method, ...]
    baseline: str = ""  # the method that others are compared with; empty: with each other
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # what others published, by name
    training: TrainingSettings
    n_runs: int
    measure: str  # "loss" or "accuracy"
    measure_label: str
    shows: str = "measure"  # "error": the report shows 1 less the accuracy
    shows_allocation: bool = True  # whether the report shows what is shared, or accuracy alone
    shown_task: str = ""  # whose gates the report draws over time; empty: the first task
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # told apart in the report
    structure: str = "the families of tasks"
    n_last_rounds: int = 300

    def method(self, name: str) -> Method:
        """Returns the method of this name."""
        check_choice("method", name, [method.name for method in self.methods])
        return next(method for method in self.methods if method.name == name)

    def on_splits(self, names: Sequence[str]) -> "Experiment":
        """Returns the experiment under the conditions of these splits of the data.

        Without a name that is the first split, where there are several.
        """
        if not self.splits:
            if names:
                raise ValueError(
                    "`split` should be named for an experiment that has several. "
                    f"Found `split = {names[0]!r}` for {self.name!r}, which has one."
                )
            return self
        known = list(self.splits.values())
        for name in names:
            check_choice("split", name, known)
        chosen = set(names) or {known[0]}
        conditions = tuple(c for c, split in self.splits.items() if split in chosen)
        return replace(self, conditions=conditions)

    def build_network(self, method: Method, outputs: Mapping[str, int], seed: int) -> TaskNetwork:
        """Returns the untrained network of a method; its weights are a function of the seed.

        ``outputs`` holds how many outputs each task has, by name.
        """
        with torch_stream(seed, "weights"):
            return self.network(
                lambda n_components: build_allocation(
                    method.allocation, len(outputs), n_components
                ),
                outputs,
            )

    def expectation(self) -> "Expectation":
        """Returns what the report is told: the rows, and the paper's value in each."""
        from ..report import Expectation, ExpectedRow  # here, since figures take long to import

        return Expectation(
            experiment=self.name,
            title=self.title,
            place=self.place,
            rows=tuple(
                ExpectedRow(
                    method=method.name,
                    label=method.label,
                    condition=condition,
                    paper=method.paper.get(condition),
                    paper_distinct=method.paper_distinct,
                    learnt=method.is_learnt,
                )
                for condition in self.conditions
                for method in self.methods
            ),
            measure=self.measure_label,
            rounds=self.training.rounds,
            unit="%" if self.measure == "accuracy" else "",
            least=0.0,  # squared errors and cross-entropies
            structure=self.structure,
            shows=self.shows,
            shows_allocation=self.shows_allocation,
            shown_task=self.shown_task,
            groups=self.groups,
            baseline=self.baseline,
            elsewhere=self.elsewhere,
        )

    def header(
        self,
        method: Method,
        condition: str,
        seed: int,
        network: TaskNetwork,
        tasks: Sequence[Task],
        settings: TrainingSettings,
        command: str,
    ) -> RunHeader:
        """Returns what is known of a run before its first step."""
        families = tuple(task.family for task in tasks)
        return RunHeader(
            experiment=self.name,
            condition=condition,
            method=method.name,
            seed=seed,
            task_names=tuple(task.name for task in tasks),
            families=families if all(families) else (),
            layer_sizes=network.layer_sizes,
            component_names=network.component_names,
            component_kinds=network.component_kinds,
            is_binary=all(layer.allocation.is_binary for layer in network.modular_layers),
            measure=self.measure,
            n_last_rounds=self.n_last_rounds,
            n_classes=tuple(t.n_outputs for t in tasks) if self.measure == "accuracy" else (),
            settings=_plain(method, settings),
            command=command,
        )


def _plain(method: Method, settings: TrainingSettings) -> dict[str, Any]:
    kind = type(method.allocation).__name__.removesuffix("Settings")
    return {
        "training": asdict(settings),
        "allocation": {"kind": kind, **asdict(method.allocation)},
    }
