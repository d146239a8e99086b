"""A head for each task, linear heads as one table, and checks of what a network is given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from .._checks import described, is_list_of
from ..allocation import row

Heads = Mapping[str, nn.Module] | Sequence[nn.Module] | nn.ModuleDict | None
Features = Callable[[Any], Any]  # from what a model returns to what enters the heads

_ABSENT = -1e9  # the logit of a class that a task does not have: no probability, no gradient


class HeadList(nn.ModuleList):
    """A head for each task, by the task's index or its name: ``network.heads["a"]``.

    In a state dict heads have their numbers, as names may hold what a key may not.
    """

    def __init__(self, heads: Sequence[nn.Module], task_names: Sequence[str]) -> None:
        super().__init__(heads)
        self.task_names = list(task_names)

    def __getitem__(self, task: Any) -> Any:
        if isinstance(task, slice):
            return nn.ModuleList(list(self)[task])
        if not isinstance(task, str):
            return super().__getitem__(task)
        if task not in self.task_names:
            raise KeyError(f"The task should be one of {self.task_names}. Found {task!r}.")
        return super().__getitem__(self.task_names.index(task))

    def outputs(self, x: Any, task: int | Tensor) -> Tensor:
        """Returns what a task's head makes of features."""
        head = self[task]
        if isinstance(head, nn.Linear):
            check_is_tensor(x)
        self.check_takes(x, task)
        y: Tensor = head(x)
        return y

    def check_takes(self, x: Any, task: int | Tensor) -> None:
        """Raises where a task's head begins with a linear layer for other features than these."""
        wanted = self.width_taken(task)
        if wanted and isinstance(x, Tensor) and x.ndim and x.shape[-1] != wanted:
            raise ValueError(
                f"The head of task {self.task_names[int(task)]!r} should take {x.shape[-1]} "
                f"features, as many as reach it. Found one that takes {wanted}."
            )

    def width_taken(self, task: int | Tensor) -> int:
        """Returns the features that a task's head takes, or 0 where they are not known."""
        head = self[task]
        first = head[0] if isinstance(head, nn.Sequential) and len(head) else head
        return first.in_features if isinstance(first, nn.Linear) else 0


def check_is_tensor(features: object) -> None:
    """Raises unless a linear head can take the features."""
    if not isinstance(features, Tensor):
        raise TypeError(
            "A network should give its linear heads one tensor; `features` says which, such "
            "as `features=lambda output: output.last_hidden_state[:, 0]`. "
            f"Found {described(features)}."
        )


def are_linear(heads: Sequence[nn.Module]) -> TypeGuard[Sequence[nn.Linear]]:
    """Tells whether heads can be put into one table: linear, from one number of features.

    >>> are_linear([nn.Linear(4, 2), nn.Linear(4, 3)]), are_linear([nn.Linear(4, 2), nn.ReLU()])
    (True, False)
    """
    return (
        all(type(head) is nn.Linear for head in heads)
        and len({(head.in_features, head.bias is None) for head in heads}) == 1
        and len({p.requires_grad for head in heads for p in head.parameters()}) == 1
        and len({id(head.weight) for head in heads}) == len(heads)
    )


class HeadTable(nn.Module):
    """Linear heads as one table, so that a task is an index and a step does not loop over tasks.

    Narrower heads are padded; a padded output is a large negative constant.
    """

    padding: Tensor

    def __init__(self, heads: Sequence[nn.Linear]) -> None:
        super().__init__()
        first, n_tasks = heads[0], len(heads)
        width = max(head.out_features for head in heads)
        weight = first.weight.new_zeros(n_tasks, width, first.in_features)
        bias = None if first.bias is None else first.weight.new_zeros(n_tasks, width)
        padding = first.weight.new_full((n_tasks, width), _ABSENT)
        for task, head in enumerate(heads):
            weight[task, : head.out_features] = head.weight.detach()
            padding[task, : head.out_features] = 0.0
            if bias is not None:
                bias[task, : head.out_features] = head.bias.detach()
        learns = first.weight.requires_grad
        self.weight = nn.Parameter(weight, requires_grad=learns)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=learns)
        self.widths = [head.out_features for head in heads]
        self.is_padded = len(set(self.widths)) > 1
        self.register_buffer("padding", padding)

    def outputs(self, x: Any, task: int | Tensor) -> Tensor:
        """Returns what a task's head makes of features."""
        check_is_tensor(x)
        y: Tensor = self(x, task)
        return y

    def forward(self, x: Tensor, task: int | Tensor) -> Tensor:
        """Returns the outputs of a task's head: ``[B, width]``, padded where a task is a tensor."""
        bias = None if self.bias is None else row(self.bias, task)
        # In the precision of the heads, whatever that of the features: a loss needs it.
        with torch.autocast(x.device.type, enabled=False):
            y = torch.nn.functional.linear(x.to(self.weight.dtype), row(self.weight, task), bias)
        if isinstance(task, int):
            return y[..., : self.widths[task]]
        return y + row(self.padding, task) if self.is_padded else y


def checked_heads(
    heads: Heads, task_names: Sequence[str] | None, n_each: Sequence[int]
) -> tuple[list[nn.Module] | None, list[str] | None]:
    """Returns a network's heads and the names of its tasks, None for what it does not have.

    ``n_each`` is how many tasks each of its layers has.
    """
    own_names: list[str] | None = None
    modules: Any = heads
    if isinstance(heads, Mapping | nn.ModuleDict):
        own_names, modules = list(heads.keys()), list(heads.values())
    if modules is not None and not is_list_of(modules, nn.Module):
        raise TypeError(
            "`heads` should be a dict or a list with a module for each task. "
            f"Found {described(heads)}."
        )
    modules = None if modules is None else list(modules)
    _check_counts(n_each, modules)
    return modules, _checked_names(own_names, task_names, n_each[0])


def _check_counts(n_each: Sequence[int], heads: Sequence[nn.Module] | None) -> None:
    if not n_each:
        raise ValueError("A network should hold at least one ModularLayer. Found none.")
    if len({*n_each, *([] if heads is None else [len(heads)])}) != 1:
        raise ValueError(
            "Every allocation and the heads should have the same number of tasks. "
            f"Found {list(n_each)} in the layers"
            + (f" and {len(heads)} heads." if heads is not None else ".")
        )


def _checked_names(
    own: list[str] | None, given: Sequence[str] | None, n_tasks: int
) -> list[str] | None:
    """Returns the names of tasks, from their heads or as they are given."""
    if isinstance(given, str):
        rule = f"`task_names` should be a list of names, such as {[given]}."
        raise TypeError(f"{rule} Found {given!r}.")
    if given is not None and not is_list_of(given, object):
        raise TypeError(f"`task_names` should be a list of names. Found {described(given)}.")
    if own is not None and given is not None and list(given) != own:
        raise ValueError(
            "`task_names` should be those of the heads, in their order, or left out. "
            f"Found {list(given)} for {own}."
        )
    names = own if given is None else given
    if names is None:
        return None
    found = list(map(str, names))
    if not len(set(found)) == len(found) == n_tasks:
        raise ValueError(f"`task_names` should be {n_tasks} different names. Found {found}.")
    return found
