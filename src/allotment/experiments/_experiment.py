"""What an experiment is: a declaration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from .._checks import check_choice
from .._schema import MEASURES, RunHeader
from .._streams import torch_stream
from ..modules import TaskNetwork, as_network
from ..records import RunRecord, plain
from ..settings import TrainingSettings
from ..tasks import Task
from ..training import Run, run_header
from ._methods import Allocate, Method
from ._search import RateSearch

if TYPE_CHECKING:
    from ..report import ExtraTable, MakeSection, ReportSpec

Network = Callable[[Allocate, Mapping[str, int]], nn.Module]


@dataclass(frozen=True)
class TaskChoice:
    """What tasks may depend on.

    >>> from allotment.experiments import TaskChoice
    >>> TaskChoice(condition="20", seed=3, data_folder=None).condition
    '20'

    Attributes:
        condition: The condition that tasks are made for; empty where there is one alone.
        seed: Of the run.
        data_folder: Where prepared data sets lie; None: where they lie by default.
    """

    condition: str
    seed: int
    data_folder: Path | None


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """What the tasks of an experiment are made from.

    >>> from allotment.experiments import DataOptions
    >>> DataOptions(conditions=("20", "40"), by_seed=True).conditions
    ('20', '40')

    Attributes:
        sets: Data sets of this library that are prepared first.
        conditions: Variants of the tasks, such as "rho=0"; each method is trained under each.
        splits: The split of the data under each condition, where they differ so.
        by_seed: Whether each seed has tasks of its own.
        joined: Whether runs of different conditions, and with different learning rates, train as
            one program where they can; else each condition has programs of its own.
    """

    sets: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ("",)
    splits: Mapping[str, str] = field(default_factory=dict)
    by_seed: bool = False
    joined: bool = False


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What the report is told of an experiment.

    >>> from allotment.experiments import ReportOptions
    >>> ReportOptions(title="Mine", measure="test_loss").shows
    'measure'

    Attributes:
        title: Of its section; empty: the experiment's name.
        place: In the paper, such as "Table I"; empty: not in the paper.
        measure: "accuracy" or "test_loss", both on the test splits, "loss", that of training at
            the end, or "score", the mean over tasks of each one's own metric on the test splits;
            empty: the first of the first three that all tasks have.
        label: What the number is called; empty: by `measure` and `shows`.
        shows: "measure", or "error": 1 less the accuracy.
        least: What a loss cannot fall below.
        n_last_rounds: A loss is reported as its mean over so many rounds at the end.
        shows_allocation: Whether what is shared is shown, or accuracy alone.
        shown_task: Whose gates are drawn over time; empty: the first task.
        groups: Tasks whose results are told apart, by the name of the group.
        structure: What there is to be found in a learnt allocation.
        baseline: The method that others are compared with; empty: each with each.
        pairs: Methods that are compared besides, each with its second.
        elsewhere: What others published, by name.
        left_out: Methods that the experiment does not have, by label, each with the reason.
        over: The setting of which methods have different values, where they are one method at
            several; then what each reaches is drawn against what it costs.
        extra_tables: Functions from a method's name and its finished runs to a table of one's own,
            or None; asked of each method that learns its allocation.
        own: A function from all runs to what the section shows, in place of everything else.
    """

    title: str = ""
    place: str = ""
    measure: str = ""
    label: str = ""
    shows: str = "measure"
    least: float = -inf
    n_last_rounds: int = 300
    shows_allocation: bool = True
    shown_task: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    structure: str = "the families of tasks"
    baseline: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    over: str = ""
    extra_tables: tuple["ExtraTable", ...] = ()
    own: "MakeSection | None" = None

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, ["", *MEASURES])


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Tasks, a network, and methods to compare on them.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> from allotment.experiments import Experiment, Method, using
    >>> x = torch.randn(50, 8)
    >>> def build(allocate, outputs):  # `outputs`: how many outputs each task has, by name
    ...     layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], allocate(3))
    ...     return al.MultiTaskNetwork(None, [layer], task_names=list(outputs))
    >>> methods = [Method(name="gumbel", allocation=using(al.GumbelMatrix))]
    >>> tasks = [al.Task("sum", (x, x.sum(1))), al.Task("first", (x, x[:, 0]))]
    >>> mine = Experiment(name="mine", tasks=tasks, network=build, methods=methods)
    >>> mine.n_runs
    1

    Attributes:
        name: Of its records.
        tasks: A list of them, or a function that makes them from a `TaskChoice`. Those of
            `tasks_from_table` have their preprocessing recorded, for `allotment predict`.
        network: A function from ``allocate`` and from how many outputs each task has, by name, to
            a network, or to any module with modular layers. It calls
            ``allocate(n_components, n_features=...)`` for the allocation of each layer; those that
            look at examples need the features, or channels, of the layer's input.
        methods: What is compared.
        training: How all methods train, unless one says otherwise.
        n_runs: Of each method, with different seeds.
        first_seed: Of the first run; the next has one more.
        summary: One line for `allotment list`.
        search: How learning rates are chosen on validation before the runs that count, for each
            method the same way; None: they are those declared.
        data: What the tasks are made from.
        report: What the report is told.
        variant_of: The experiment that it was made from, by `varied`.
        networks: Further networks by condition, where one has a network of its own.
    """

    name: str
    tasks: Callable[[TaskChoice], Sequence[Task]] | Sequence[Task]
    network: Network
    methods: Sequence[Method]
    training: TrainingSettings = TrainingSettings()
    n_runs: int = 1
    first_seed: int = 0
    summary: str = ""
    search: RateSearch | None = None
    data: DataOptions = DataOptions()
    report: ReportOptions = ReportOptions()
    variant_of: str = ""
    networks: Mapping[str, Network] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"`methods` should be methods with different names. Found {names}.")
        check_choice("baseline", self.report.baseline, ["", *names])
        object.__setattr__(self, "methods", tuple(self.methods))

    @property
    def title(self) -> str:
        """What a report calls it."""
        return self.report.title or self.name

    def method(self, name: str) -> Method:
        check_choice("method", name, [method.name for method in self.methods])
        return next(method for method in self.methods if method.name == name)

    def on_splits(self, names: Sequence[str]) -> "Experiment":
        """Returns the experiment under the conditions of these splits of the data.

        Without a name that is the first split, where there are several.
        """
        splits = self.data.splits
        if not splits:
            if names:
                raise ValueError(
                    "`split` should be named for an experiment that has several. "
                    f"Found `split = {names[0]!r}` for {self.name!r}, which has one."
                )
            return self
        known = list(splits.values())
        for name in names:
            check_choice("split", name, known)
        chosen = set(names) or {known[0]}
        conditions = tuple(c for c, split in splits.items() if split in chosen)
        return replace(self, data=replace(self.data, conditions=conditions))

    def make_tasks(self, choice: TaskChoice) -> Sequence[Task]:
        return self.tasks(choice) if callable(self.tasks) else self.tasks

    def build_network(
        self, method: Method, outputs: Mapping[str, int], seed: int, condition: str = ""
    ) -> TaskNetwork:
        """Returns the untrained network of a method; its weights are a function of the seed.

        ``outputs`` holds how many outputs each task has, by name.
        """
        build = self.networks.get(condition, self.network)

        def allocate(n_components: int, **offered: Any) -> Any:
            return method.allocation(len(outputs), n_components, **offered)

        with torch_stream(seed, "weights"):
            if method.structure is None:
                model = build(allocate, outputs)
            else:
                model = method.structure(build, allocate, outputs)
            return as_network(model, list(outputs))

    def header(
        self, method: Method, condition: str, run: Run, command: str, n_operations: int = 0
    ) -> RunHeader:
        """Returns what is known of a run before its first step."""
        allocation = {"kind": method.allocation.name, **dict(method.allocation.options)}
        # Told where it is so: older records, which do not have it, are of networks without.
        allocation.pop("keeps_one", None)
        if any(layer.allocation.keeps_one for layer in run.network.modular_layers):
            allocation["keeps_one"] = True
        if method.structure is not None:
            allocation["structure"] = method.structure.__name__
        settings = {"training": run.settings, "allocation": allocation}
        if method.variant_of:  # what the network is built by, when it is loaded
            settings["variant_of"] = {"experiment": self.variant_of, "method": method.variant_of}
        return run_header(
            run,
            measure=self.report.measure,
            experiment=self.name,
            condition=condition,
            method=method.name,
            n_last_rounds=self.report.n_last_rounds,
            settings=plain(settings),
            command=command,
            n_operations=n_operations,
        )

    def report_spec(self, records: Sequence[RunRecord] = (), measure: str = "") -> "ReportSpec":
        """Returns what the report is told: the rows, and the paper's value in each.

        Where the measure is not declared, ``measure`` or else the records say what was measured.
        """
        from ..report import ReportRow, ReportSpec  # here, since figures take long to import

        own = (each.header.measure for each in records if each.header.experiment == self.name)
        measure = self.report.measure or measure or next(own, "loss")
        label, unit = MEASURES[measure]
        told = (
            *("place", "shows", "least", "shows_allocation", "shown_task", "groups", "structure"),
            *("baseline", "pairs", "elsewhere", "left_out", "over", "extra_tables", "own"),
        )
        return ReportSpec(
            experiment=self.name,
            title=self.title,
            rows=tuple(
                ReportRow(
                    method=method.name,
                    label=method.label,
                    condition=condition,
                    paper=method.paper.get(condition),
                    paper_distinct=method.paper_distinct,
                    learnt=method.is_learnt,
                )
                for condition in self.data.conditions
                for method in self.methods
            ),
            measure=self.report.label or ("Test error" if self.report.shows == "error" else label),
            rounds=self.training.rounds,
            unit=unit,
            **{name: getattr(self.report, name) for name in told},
        )
