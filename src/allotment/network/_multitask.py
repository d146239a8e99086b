"""One network for several tasks."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._checks import check_number, described, is_list_of
from ._conv_norm import ConvNormReLU
from ._drawing import Drawing, has_hooks
from ._heads import HeadTable
from ._layer import ModularLayer, takes_drawings


class Noise(NamedTuple):
    """The random draws of one training pass, uniform on (0, 1)."""

    gates: Tensor | None = None  # [C], all modular layers one after another
    dropout: Tensor | None = None  # [B, D], for the features that enter the head


class MultiTaskNetwork(nn.Module):
    """A stem, modular layers with plain layers between them, and a head for each task.

    ``network(x, task)`` takes the task's index or its name.

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
        heads: Mapping[str, nn.Module] | Sequence[nn.Module] | nn.ModuleDict | None = None,
        *,
        dropout: float = 0.0,
        task_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        check_number("dropout", dropout)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"`dropout` should be in [0, 1). Found `dropout = {dropout}`.")
        if isinstance(heads, nn.ModuleDict):
            heads = dict(heads.items())
        _check_kinds(stem, layers, heads)
        if task_names is not None and not is_list_of(task_names, object):
            raise TypeError(
                f"`task_names` should be a list of names. Found {described(task_names)}."
            )
        self.stem = nn.Identity() if stem is None else stem
        self.layers = nn.ModuleList(layers)
        self.n_tasks = self._checked_n_tasks(heads)
        names = list(heads) if isinstance(heads, Mapping) else task_names
        if names is not None and task_names is not None and list(task_names) != list(names):
            raise ValueError(
                "`task_names` should be those of the heads, in their order, or left out. "
                f"Found {list(task_names)} for {names}."
            )
        self.has_names = names is not None
        self.task_names = [str(name) for name in names or range(self.n_tasks)]
        if len(set(self.task_names)) != self.n_tasks:
            raise ValueError(
                f"`task_names` should be {self.n_tasks} different names. Found {self.task_names}."
            )
        modules = list(heads.values()) if isinstance(heads, Mapping) else heads
        self.heads: nn.ModuleList | HeadTable | None = nn.ModuleList(modules) if modules else None
        self.dropout = dropout

    def _checked_n_tasks(self, heads: Mapping[str, nn.Module] | Sequence[nn.Module] | None) -> int:
        counts = [layer.allocation.n_tasks for layer in self.modular_layers]
        if not counts:
            raise ValueError("`layers` should hold at least one ModularLayer. Found none.")
        if heads is not None:
            counts.append(len(heads))
        if len(set(counts)) != 1:
            raise ValueError(
                "Every allocation and the heads should have the same number of tasks. "
                f"Found {counts[: len(self.modular_layers)]} in the layers"
                + (f" and {len(heads)} heads." if heads is not None else ".")
            )
        return counts[0]

    def forward(self, x: Tensor, task: int | str | Tensor, *, noise: Noise = Noise()) -> Tensor:
        """Returns the task's outputs for ``x``, shape ``[B, ...]``."""
        index = self.task_index(task)
        seen = self._past_stem(x)
        first = 0
        for layer in self.layers:
            if isinstance(seen, Drawing) and not takes_drawings(layer):
                seen = seen.pixels()
            if isinstance(layer, ModularLayer):
                last = first + layer.allocation.n_components
                gates = None if noise.gates is None else noise.gates[first:last]
                seen = layer(seen, index, noise=gates)
                first = last
            else:
                seen = layer(seen)
        x = self._drop(seen, noise.dropout)
        if self.heads is None:
            return x
        y: Tensor = (
            self.heads(x, index) if isinstance(self.heads, HeadTable) else self.heads[index](x)  # type: ignore[index]
        )
        return y

    def _past_stem(self, x: Tensor) -> Any:
        if type(self.stem) is ConvNormReLU and self.takes_ink and x.dtype == torch.bool:
            return self.stem.drawing(x)
        return self.stem(x)

    def _drop(self, x: Tensor, noise: Tensor | None) -> Tensor:
        if not self.training or self.dropout == 0.0:
            return x
        keep = (torch.rand_like(x) if noise is None else noise) >= self.dropout
        return x * keep / (1.0 - self.dropout)

    def task_index(self, task: int | str | Tensor) -> int | Tensor:
        """Returns the index of a task given by index or name."""
        if isinstance(task, str):
            if task not in self.task_names:
                raise ValueError(f"`task` should be one of {self.task_names}. Found {task!r}.")
            return self.task_names.index(task)
        if isinstance(task, Tensor):
            return task
        index = operator.index(task)  # NumPy's integers too
        if not 0 <= index < self.n_tasks:
            raise ValueError(f"`task` should be in 0 to {self.n_tasks - 1}. Found {index}.")
        return index

    @property
    def takes_ink(self) -> bool:
        """Whether images of type ``bool`` are taken as drawings, which is faster."""
        return type(self.stem) is ConvNormReLU and self.stem.takes_ink and not has_hooks(self.stem)

    @property
    def modular_layers(self) -> list[ModularLayer]:
        """The layers that have an allocation, in order."""
        return [layer for layer in self.layers if isinstance(layer, ModularLayer)]

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """The number of components in each modular layer."""
        return tuple(layer.allocation.n_components for layer in self.modular_layers)

    @property
    def component_names(self) -> tuple[str, ...]:
        """The name of each component, layer after layer."""
        return tuple(name for layer in self.modular_layers for name in layer.names)

    def matrix(self) -> Tensor:
        """Returns the evaluation allocation, the layers side by side, shape ``[T, C]``."""
        return torch.cat([layer.allocation.matrix() for layer in self.modular_layers], dim=1)

    def probabilities(self, task: int | str | Tensor | None = None) -> Tensor:
        """Returns each gate's probability to be open, ``[T, C]``, or ``[C]`` for one task."""
        index = None if task is None else self.task_index(task)
        rows = [layer.allocation.probabilities(index) for layer in self.modular_layers]
        return torch.cat(rows, dim=-1)


def _check_kinds(stem: object, layers: object, heads: object) -> None:
    """Raises unless the parts of a network are modules, one or several as each should be."""
    if stem is not None and not isinstance(stem, nn.Module):
        raise TypeError(f"`stem` should be a module or None. Found {described(stem)}.")
    if not is_list_of(layers, nn.Module):
        raise TypeError(f"`layers` should be a list of modules. Found {described(layers)}.")
    modules = list(heads.values()) if isinstance(heads, Mapping) else heads
    if heads is not None and not is_list_of(modules, nn.Module):
        raise TypeError(
            "`heads` should be a dict or a list with a module for each task. "
            f"Found {described(heads)}."
        )


def task_embeddings(network: MultiTaskNetwork) -> Tensor:
    """Returns who uses what, a binary row for each task (paper, Section III-E), ``[T, C]``."""
    return network.matrix()
