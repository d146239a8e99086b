"""One network for several tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_number, described, is_list_of
from ._context import Noise, Pass, current_pass, opened
from ._heads import HeadList, HeadTable
from ._inputs import as_index, call_with
from ._layer import ModularLayer
from ._per_task import PerTask

Heads = Mapping[str, nn.Module] | Sequence[nn.Module] | nn.ModuleDict | None
Features = Callable[[Any], Any]  # from what a model returns to what enters the heads


class TaskNetwork(nn.Module, ABC):
    """A network with modular layers at any depth, and a head for each task.

    ``network(x, task)`` takes the task's index or its name. A dict ``x`` is given on as arguments
    by name, and a tuple as several, where the model takes them:
    ``network({"input_ids": ids, "attention_mask": mask}, "a")``.
    `fit`, `extract` and all else in the library take any network of this class.

    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.GumbelMatrix(2, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    >>> isinstance(network, al.TaskNetwork), network.task_names, network.task_index("b")
    (True, ['a', 'b'], 1)

    Attributes:
        n_tasks: Number of tasks.
        task_names: One for each task.
        has_names: Whether the names were given; else they are numbers.
        heads: A module for each task, by name or index; None where the features are the outputs.
        dropout: Probability with which a feature is left out before the head, in training.
    """

    n_tasks: int
    task_names: list[str]
    has_names: bool
    heads: HeadList | HeadTable | None
    dropout: float

    def _add_heads(self, heads: Heads, task_names: Sequence[str] | None, dropout: float) -> None:
        """Adds the heads, once all modular layers are there."""
        check_number("dropout", dropout)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"`dropout` should be in [0, 1). Found `dropout = {dropout}`.")
        if isinstance(heads, nn.ModuleDict):
            heads = dict(heads.items())
        modules = list(heads.values()) if isinstance(heads, Mapping) else heads
        if heads is not None and not is_list_of(modules, nn.Module):
            raise TypeError(
                "`heads` should be a dict or a list with a module for each task. "
                f"Found {described(heads)}."
            )
        self.n_tasks = self._checked_n_tasks(modules)
        self._set_names(list(heads) if isinstance(heads, Mapping) else None, task_names)
        self.heads = HeadList(modules, self.task_names) if modules else None
        self.dropout = dropout
        for module in self.modules():
            if isinstance(module, PerTask):
                module.put_in_order(self.task_names, are_given=self.has_names)
        self.number_layers()

    def _checked_n_tasks(self, heads: Sequence[nn.Module] | None) -> int:
        counts = [layer.allocation.n_tasks for layer in self.modular_layers]
        if not counts:
            raise ValueError("A network should hold at least one ModularLayer. Found none.")
        n_layers = len(counts)
        if heads is not None:
            counts.append(len(heads))
        if len(set(counts)) != 1:
            raise ValueError(
                "Every allocation and the heads should have the same number of tasks. "
                f"Found {counts[:n_layers]} in the layers"
                + (f" and {len(heads)} heads." if heads is not None else ".")
            )
        return counts[0]

    def _set_names(self, own: list[str] | None, given: Sequence[str] | None) -> None:
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
        self.has_names = names is not None
        self.task_names = list(map(str, range(self.n_tasks) if names is None else names))
        if not len(set(self.task_names)) == len(self.task_names) == self.n_tasks:
            raise ValueError(
                f"`task_names` should be {self.n_tasks} different names. Found {self.task_names}."
            )

    @abstractmethod
    def compute(self, x: Any, running: Pass, *arguments: Any, **options: Any) -> Tensor:
        """Returns the outputs of a pass; what its layers used is in it afterwards."""

    def forward(
        self,
        x: Any,
        task: int | str | Tensor,
        *arguments: Any,
        noise: Noise = Noise(),
        **options: Any,
    ) -> Tensor:
        """Returns the task's outputs for ``x``, shape ``[B, ...]``."""
        running, around = Pass(self.task_index(task), noise), current_pass()
        y = self.compute(x, running, *arguments, **options)
        if around is None:
            running.count_batch()
        else:  # the pass around it counts, and can tell what was used
            around.used.extend(running.used)
        return y

    def _outputs(self, features: Tensor, running: Pass) -> Tensor:
        """Returns what a task's head makes of features."""
        seen = self._drop(features, running.noise.dropout)
        return seen if self.heads is None else self.heads.outputs(seen, running.task)

    def _drop(self, x: Tensor, noise: Tensor | None) -> Tensor:
        if not self.training or self.dropout == 0.0 or not isinstance(x, Tensor):
            return x
        keep = (torch.rand_like(x) if noise is None else noise) >= self.dropout
        return x * keep / (1.0 - self.dropout)

    def task_index(self, task: int | str | Tensor) -> int | Tensor:
        """Returns the index of a task given by index or name."""
        if isinstance(task, str):
            if task not in self.task_names:
                raise ValueError(f"`task` should be one of {self.task_names}. Found {task!r}.")
            return self.task_names.index(task)
        index = as_index(task)
        if isinstance(index, Tensor):
            return index
        if not 0 <= index < self.n_tasks:
            raise ValueError(f"`task` should be in 0 to {self.n_tasks - 1}. Found {index}.")
        return index

    @property
    def accepted_dtypes(self) -> tuple[torch.dtype, ...]:
        """Types of inputs that it takes as they are; all others are made floating-point first."""
        return ()

    @property
    def modular_layers(self) -> list[ModularLayer]:
        """The layers that have an allocation, at any depth, in the order of their registration."""
        return [module for module in self.modules() if isinstance(module, ModularLayer)]

    def number_layers(self) -> None:
        """Gives each modular layer its part of the draws of a pass."""
        ends = {True: 0, False: 0}
        for layer in self.modular_layers:
            sees, n = layer.allocation.sees_examples, layer.allocation.n_noise
            layer.span = (ends[sees], ends[sees] + n)
            ends[sees] += n

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """The number of components in each modular layer."""
        return tuple(layer.allocation.n_components for layer in self.modular_layers)

    @property
    def component_names(self) -> tuple[str, ...]:
        """The name of each component, layer after layer."""
        return tuple(name for layer in self.modular_layers for name in layer.names)

    @property
    def component_kinds(self) -> tuple[str, ...]:
        """What each component is, layer after layer."""
        return tuple(kind for layer in self.modular_layers for kind in layer.kinds)

    def matrix(self) -> Tensor:
        """Returns the evaluation allocation, the layers side by side, shape ``[T, C]``."""
        return torch.cat([layer.allocation.matrix() for layer in self.modular_layers], dim=1)

    def probabilities(self, task: int | str | Tensor | None = None) -> Tensor:
        """Returns each gate's probability to be open, ``[T, C]``, or ``[C]`` for one task."""
        index = None if task is None else self.task_index(task)
        rows = [layer.allocation.probabilities(index) for layer in self.modular_layers]
        return torch.cat(rows, dim=-1)


class MultiTaskNetwork(TaskNetwork):
    """A stem, modular layers with plain layers between them, and a head for each task.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(16, 16) for _ in range(4)], al.GumbelMatrix(2, 4))
    >>> heads = {"a": nn.Linear(16, 1), "b": nn.Linear(16, 3)}
    >>> network = al.MultiTaskNetwork(nn.Linear(8, 16), [layer, nn.ReLU()], heads)
    >>> network(torch.randn(5, 8), "b").shape
    torch.Size([5, 3])

    Args:
        stem: What every input passes first, if anything.
        layers: Modular layers and plain modules, in order.
        heads: A module for each task, as a list, or a dict whose keys are the tasks' names.
            Without heads the last layer's output is the network's.
        dropout: Probability with which a feature is left out before the head, in training.
        task_names: The tasks' names, where the heads do not give them.
    """

    def __init__(
        self,
        stem: nn.Module | None,
        layers: Sequence[nn.Module],
        heads: Heads = None,
        *,
        dropout: float = 0.0,
        task_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if stem is not None and not isinstance(stem, nn.Module):
            raise TypeError(f"`stem` should be a module or None. Found {described(stem)}.")
        if not is_list_of(layers, nn.Module):
            raise TypeError(f"`layers` should be a list of modules. Found {described(layers)}.")
        self.stem = nn.Identity() if stem is None else stem
        self.layers = nn.ModuleList(layers)
        self._add_heads(heads, task_names, dropout)

    def compute(self, x: Any, running: Pass, *arguments: Any, **options: Any) -> Tensor:
        with opened(running):
            x = x if isinstance(self.stem, nn.Identity) else call_with(self.stem, x)
            for layer in self.layers:
                is_modular = isinstance(layer, ModularLayer)
                x = layer(x, *arguments, **options) if is_modular else layer(x)
        return self._outputs(x, running)

    @property
    def accepted_dtypes(self) -> tuple[torch.dtype, ...]:
        return getattr(self.stem, "accepted_dtypes", ())
