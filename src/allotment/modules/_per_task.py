"""A module for each task, at any place of a network."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from .._checks import described
from ._context import current_pass
from ._inputs import attention_of


class PerTask(nn.Module):
    """Has a module of its own for each task, such as an encoder where inputs differ.

    It may stand at any place of a network, as the stem of `MultiTaskNetwork` or inside a model.
    Tasks may have one module in common. Beside it, networks know the task as a Python number, so
    several runs train one by one.

    >>> import torch
    >>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, PerTask
    >>> stem = PerTask({"words": nn.EmbeddingBag(100, 4), "numbers": nn.Linear(3, 4)})
    >>> layer = ModularLayer([nn.Linear(4, 2), nn.Linear(4, 2)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(stem, [layer], task_names=["words", "numbers"])
    >>> network(torch.tensor([[5, 17]]), "words").shape, network(torch.ones(6, 3), "numbers").shape
    (torch.Size([1, 2]), torch.Size([6, 2]))

    Args:
        modules: A module for each task, by the task's name.
    """

    needs_task_number = True  # as a Python number, and not as a tensor
    self_attn = attention_of("by_task.0")

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        super().__init__()
        is_mapping = isinstance(modules, Mapping | nn.ModuleDict) and len(modules) > 0
        if not is_mapping or not all(isinstance(module, nn.Module) for module in modules.values()):
            raise TypeError(
                "`modules` should be a dict with a module for each task. "
                f"Found {described(modules)}."
            )
        self.names = list(map(str, modules))
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"`modules` should have different names. Found {self.names}.")
        self.by_task = nn.ModuleList(modules.values())  # names may have dots, which keys may not
        self._order = list(range(len(self.names)))  # from a task's index to its place

    def put_in_order(self, task_names: Sequence[str], *, are_given: bool) -> None:
        """Takes the order of a network's tasks; names that are not given are numbers."""
        if set(self.names) == set(task_names):
            self._order = [self.names.index(name) for name in task_names]
        elif are_given or len(self.names) != len(task_names):
            raise ValueError(
                "`PerTask` should have a module for each of the network's tasks. "
                f"Found {self.names} for {list(task_names)}."
            )

    def check_grows(self, name: str, like: int | None) -> None:
        """Raises unless a new task has a module here, or shares that of another."""
        if name not in self.names and like is None:
            raise ValueError(
                f"`like` should be a task whose module in `PerTask` task {name!r} shares, unless "
                f"`per_task.add({name!r}, module)` gave it one. Found `like = None`."
            )

    def add(self, name: str, module: nn.Module) -> None:
        """Adds a module for a task that is to come, see `add_task`."""
        if name in self.names or not isinstance(module, nn.Module):
            rule = f"A new task should have a module, and none of the names {self.names}."
            raise ValueError(f"{rule} Found {described(module)} for {name!r}.")
        self.names.append(name)
        self.by_task.append(module)

    def add_task(self, name: str, like: int | None) -> None:
        """Adds a task behind the others, with the module that it has, or with that of another."""
        if name not in self.names and like is not None:
            self.add(name, self.module_of(like))
        self._order.append(self.names.index(name))

    def keep_tasks(self, tasks: Sequence[int]) -> None:
        """Takes these tasks alone, in this order."""
        places = [self._order[task] for task in tasks]
        self.names = [self.names[place] for place in places]
        self.by_task = nn.ModuleList(self.by_task[place] for place in places)
        self._order = list(range(len(places)))

    def module_of(self, task: int) -> nn.Module:
        """Returns the module of a task, by its index."""
        return self.by_task[self._order[task]]

    def __getitem__(self, name: str) -> nn.Module:
        if name not in self.names:
            raise KeyError(f"The name should be one of {self.names}. Found {name!r}.")
        return self.by_task[self.names.index(name)]

    @property
    def passes_to(self) -> nn.Module:
        """The module of the current task."""
        running = current_pass()
        if running is None:
            raise ValueError(
                "`PerTask` should be called by a network, or within `for_task(task)`. "
                "Found no task."
            )
        return self.module_of(int(running.task))

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Returns what the module of the current task makes of the arguments."""
        return self.passes_to(*arguments, **options)

    def extra_repr(self) -> str:
        return f"tasks={self.names}"
