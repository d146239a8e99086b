"""What one run trains, and what is known of it before its first step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_whole, described, is_list_of
from .._schema import RunHeader
from ..allocation import Allocation
from ..modules import TaskNetwork, as_network
from ..settings import TrainingSettings
from ..tasks import (
    GeneratedDataset,
    Split,
    Task,
    TaskLabels,
    check_names,
    n_examples,
    two_examples,
)


@dataclass(frozen=True, eq=False)
class Run:
    """A network, its tasks, and the seed of every draw made while it trains.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.GumbelMatrix(1, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["sum"]), torch.randn(9, 8)
    >>> run = al.Run(network, [al.Task("sum", (x, x.sum(1)))], seed=3)
    >>> run.settings.rounds
    1000

    Attributes:
        model: Where training starts, a network or any module with modular layers in it; `train`
            leaves it as it is.
        tasks: One for each of the network's; where it has names, found by their names.
        seed: Of the order of tasks and examples, the gates and all else that is drawn.
        settings: How to train.
    """

    model: nn.Module
    tasks: Sequence[Task]
    seed: int = 0
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if not is_list_of(self.tasks, Task):
            raise TypeError(f"`tasks` should be a list of Task. Found {described(self.tasks)}.")
        check_names(self.tasks)
        check_whole("seed", self.seed)
        if not isinstance(self.settings, TrainingSettings):
            raise TypeError(
                f"`settings` should be TrainingSettings. Found {described(self.settings)}."
            )
        self._put_in_order()
        self.settings.penalties.budgets([task.name for task in self.tasks])  # which checks names
        self._check_validation()
        self._check_sampling()
        self._check_shared_examples()

    @property
    def network(self) -> TaskNetwork:
        """The model as a network."""
        return as_network(self.model, [task.name for task in self.tasks])

    @property
    def depends_on_rounds(self) -> bool:
        """Whether the first steps would be others if there were more rounds, or fewer."""
        kinds = {type(layer.allocation) for layer in self.network.modular_layers}
        asks = any(kind.expect is not Allocation.expect for kind in kinds)
        return asks or self.settings.depends_on_rounds

    def shares(self) -> list[float] | None:
        """Returns how often each task is drawn; None where a round has one batch of each."""
        power = self.settings.sampling_power
        sizes = [n_examples(task.train) or 1 for task in self.tasks] if power else None
        shares = [
            task.sampling * (sizes[index] ** power if sizes else 1)
            for index, task in enumerate(self.tasks)
        ]
        return None if len(set(shares)) == 1 else [share / sum(shares) for share in shares]

    def _put_in_order(self) -> None:
        """Puts the tasks in the order of the network's."""
        network = self.network
        n = len(self.tasks)
        if not network.has_names and n != network.n_tasks:
            raise ValueError(
                "`tasks` should be as many as the network has. "
                f"Found {n} task{'s' * (n != 1)} for {network.n_tasks}."
            )
        by_name = {task.name: task for task in self.tasks}
        if not network.has_names or list(by_name) == network.task_names:
            return
        if set(by_name) != set(network.task_names):
            raise ValueError(
                "`tasks` should have the names of the network's tasks. "
                f"Found tasks {list(by_name)} for a network of {network.task_names}."
            )
        object.__setattr__(self, "tasks", [by_name[name] for name in network.task_names])

    def _check_validation(self) -> None:
        every = self.settings.evaluate_every
        if every is not None and all(t.held_out("validation") is None for t in self.tasks):
            raise ValueError(
                "`evaluate_every` should be given where some task has a validation split. "
                f"Found `evaluate_every = {every}` and none."
            )

    def _check_sampling(self) -> None:
        unsized = [task.name for task in self.tasks if n_examples(task.train) is None]
        if self.settings.sampling_power and unsized:
            raise ValueError(
                "`sampling_power` should be 0 where the number of a task's examples is not known. "
                f"Found `sampling_power = {self.settings.sampling_power}` and task {unsized[0]!r}."
            )
        if self.settings.is_joint and self.shares() is not None:
            raise ValueError(
                "Tasks should be drawn alike in joint steps, which take a batch of each. "
                f"Found shares of {[round(share, 3) for share in self.shares() or []]}."
            )

    def _check_shared_examples(self) -> None:
        if self.settings.schedule != "multi_label":
            return
        first = self.tasks[0].train
        for task in self.tasks:
            if not _share_examples(task.train, first):
                raise ValueError(
                    'Tasks should share one array of inputs for `schedule = "multi_label"`, as '
                    "those of `tasks_from_table` do, or the batches of one `MultiLabel`. "
                    f"Found that task {task.name!r} has its own."
                )


def _share_examples(a: Any, b: Any) -> bool:
    """Tells whether tasks have the same inputs, example by example."""
    if isinstance(a, TaskLabels) and isinstance(b, TaskLabels):
        return a.batches is b.batches
    if not isinstance(a, Split) or not isinstance(b, Split):
        return False
    return a.inputs is b.inputs and a.permutation is b.permutation


def example_batch(run: Run) -> tuple[Any, Any]:
    """Returns as many examples of the first task as a batch has, where they are at hand."""
    source, n = run.tasks[0].train, run.settings.batch_size
    if isinstance(source, GeneratedDataset):
        return source.draw(n, torch.Generator())
    x, y = two_examples(source)
    if isinstance(source, Split) and isinstance(x, Tensor):
        rows = torch.arange(n) % 2  # what they hold does not matter
        return x[rows], y[rows]
    return x, y


def run_header(run: Run, *, measure: str = "", **told: Any) -> RunHeader:
    """Returns a run's header: what its tasks and its network say, and what is ``told`` beside.

    Without a ``measure`` it is the first of accuracy, test loss and training loss that all tasks
    have.

    >>> from torch import nn, randn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], al.GumbelMatrix(1, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["a"])
    >>> run = al.Run(network, [al.Task("a", (randn(9, 8), randn(9)))], seed=3)
    >>> run_header(run, experiment="mine", condition="", method="gumbel", n_last_rounds=10).seed
    3

    Args:
        run: What is trained.
        measure: What is reported of it; empty: what its tasks allow.
        told: What else the header says: experiment, method and so on.
    """
    tasks, network = run.tasks, run.network
    families = tuple(task.family for task in tasks)
    measure = measure or _measure_of(tasks)
    return RunHeader(
        seed=run.seed,
        task_names=tuple(task.name for task in tasks),
        families=families if all(families) else (),
        layer_sizes=network.layer_sizes,
        component_names=network.component_names,
        component_kinds=network.component_kinds,
        is_binary=all(layer.allocation.is_binary for layer in network.modular_layers),
        measure=measure,
        n_classes=tuple(task.n_outputs for task in tasks) if measure == "accuracy" else (),
        n_parameters=sum(parameter.numel() for parameter in network.parameters()),
        **told,
    )


def _measure_of(tasks: Sequence[Task]) -> str:
    """Returns what is reported of these tasks."""
    if any(task.held_out("test") is None for task in tasks):
        return "loss"
    return "accuracy" if all(task.is_classification for task in tasks) else "test_loss"


def check_alike(runs: Sequence[Run]) -> None:
    """Raises unless runs can go through one program: equal settings but for a few numbers."""
    if not runs:
        raise ValueError("`runs` should hold at least one run. Found none.")
    first = runs[0].settings.in_common()
    for run in runs[1:]:
        name, a, b = first_difference(first, run.settings.in_common())
        if name:
            raise ValueError(
                "Runs that train together should have equal settings, but for learning rates, "
                f"`budget` and `budget_weight`. Found `{name}` {a!r} in one and {b!r} in another."
            )


def first_difference(a: Any, b: Any) -> tuple[str, Any, Any]:
    """Returns the first field, at any depth, in which two settings differ, and both values."""
    for own in fields(a):
        here, there = getattr(a, own.name), getattr(b, own.name)
        if here != there and is_dataclass(here) and type(here) is type(there):
            return first_difference(here, there)
        if here != there:
            return own.name, here, there
    return "", None, None
