"""Training some tasks of a network alone, while the others stay as they are."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .._checks import described, is_list_of
from ..allocation import Allocation
from ..modules import TaskNetwork, keep_tasks, own_modules
from ..tasks import Task
from ._inference import evaluate
from ._result import Drift, EvaluationResult

Part = TypeVar("Part")


class NewTasks:
    """A copy of a network that has some of its tasks alone, to be trained in its place.

    What the other tasks have is not in it, so that no optimizer can move it. Frozen are the
    parameters that are not the tasks' own, unless ``shared_learns``, and the statistics of batch
    normalisations among them.

    Attributes:
        network: The copy.
        tasks: Those that it is trained on.
    """

    def __init__(
        self, network: nn.Module, tasks: Sequence[Task], only: Sequence[str], shared_learns: bool
    ) -> None:
        if not isinstance(network, TaskNetwork):
            raise TypeError(
                "`network` should be a MultiTaskNetwork or a MultiTaskModel where `only` some of "
                f"its tasks learn. Found {described(network)}."
            )
        self._places = _places(network, only)
        self.tasks = _asked_for(tasks, [network.task_names[place] for place in self._places])
        self._whole = network
        self._others: list[Task] = []
        if shared_learns:
            _check_all_are_there(network, tasks)
            self._others = [task for task in tasks if task not in self.tasks]
        memo: dict[int, Any] = {}
        self.network = deepcopy(network, memo)
        own = nn.ModuleList(own_modules(network, self._places))
        allocations = list(dict.fromkeys(layer.allocation for layer in network.modular_layers))
        # Each beside its copy, which `fit` changes in place.
        self._allocations = _with_copies(allocations, memo)
        changed = _besides_tables(network if shared_learns else own, allocations)
        self._tensors = _with_copies(changed, memo)
        keep_tasks(self.network, self._places)
        if not shared_learns:
            self._freeze(nn.ModuleList(memo[id(part)] for part in own))
        self._before = self._evaluation()

    def _freeze(self, own: nn.Module) -> None:
        """Freezes all but the tasks' own modules and their rows in allocations."""
        learnt = {id(parameter) for parameter in own.parameters()}
        learnt |= {id(t) for _, allocation in self._allocations for t in allocation.task_tables()}
        for parameter in self.network.parameters():
            parameter.requires_grad_(parameter.requires_grad and id(parameter) in learnt)
        inside = set(own.modules())
        for module in self.network.modules():
            if isinstance(module, nn.modules.batchnorm._NormBase) and module not in inside:
                module.eval()
                module.train = _stay  # type: ignore[method-assign, assignment]

    @torch.no_grad()
    def write_back(self) -> None:
        """Gives the network what its copy has learnt."""
        for tensor, learnt in self._tensors:
            tensor.copy_(learnt)
        for allocation, copy in self._allocations:
            allocation.take_rows(copy, self._places)
            if allocation.n_batches is not None and copy.n_batches is not None:
                allocation.n_batches.copy_(copy.n_batches)
        self._whole.eval()

    def drift(self) -> Drift | None:
        """Returns how the other tasks did on validation before and after, where they may differ."""
        after = self._evaluation()
        return None if self._before is None or after is None else Drift(self._before, after)

    def _evaluation(self) -> EvaluationResult | None:
        return evaluate(self._whole, self._others, "validation") if self._others else None


def _stay(mode: bool = True) -> None:
    """Stands in for `train` of a module that stays in evaluation mode."""


def _with_copies(originals: Sequence[Part], memo: Mapping[int, Any]) -> list[tuple[Part, Part]]:
    """Returns each original beside the copy that `deepcopy` noted."""
    return [(original, memo[id(original)]) for original in originals]


def _besides_tables(module: nn.Module, allocations: Sequence[Allocation]) -> list[Tensor]:
    """Returns the tensors of a module, but for those that have a row for each task."""
    tables = {id(table) for allocation in allocations for table in allocation.task_tables()}
    tensors = [*module.parameters(), *module.buffers()]
    return [tensor for tensor in tensors if id(tensor) not in tables]


def _places(network: TaskNetwork, only: Sequence[str]) -> list[int]:
    if isinstance(only, str) or not is_list_of(only, str) or not len(only):
        raise TypeError(f"`only` should be a list of names of tasks. Found {described(only)}.")
    unknown = [name for name in only if name not in network.task_names]
    if unknown:
        rule = f"`only` should name tasks of the network, {network.task_names}."
        raise ValueError(f"{rule} Found {unknown[0]!r}.")
    return [place for place, name in enumerate(network.task_names) if name in only]


def _asked_for(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Returns the tasks of some names, in their order."""
    if not is_list_of(tasks, Task):
        raise TypeError(f"`tasks` should be a list of Task. Found {described(tasks)}.")
    by_name = {task.name: task for task in tasks}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ValueError(f"`tasks` should hold those of `only`. Found no task {missing[0]!r}.")
    return [by_name[name] for name in names]


def _check_all_are_there(network: TaskNetwork, tasks: Sequence[Task]) -> None:
    """Raises unless it can be told what becomes of the tasks that are not trained."""
    found = [task.name for task in tasks if task.held_out("validation") is not None]
    missing = [name for name in network.task_names if name not in [task.name for task in tasks]]
    if missing or not found:
        raise ValueError(
            "`tasks` should be all of the network's, with validation splits, where "
            "`shared_learns`: it is told how far the others drift. Found no "
            + (f"task {missing[0]!r}." if missing else "validation split.")
        )
