"""One network for several tasks: layer by layer, or a model of one's own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_share, described, is_list_of
from ._context import Noise, Pass, current_pass, opened
from ._heads import Features, HeadList, Heads, HeadTable, checked_heads
from ._inputs import as_index, call_with
from ._layer import ModularLayer
from ._per_task import PerTask


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
        check_share("dropout", dropout)
        n_each = [layer.allocation.n_tasks for layer in self.modular_layers]
        modules, names = checked_heads(heads, task_names, n_each)
        self.n_tasks = n_each[0]
        self.has_names = names is not None
        self.task_names = [str(task) for task in range(self.n_tasks)] if names is None else names
        self.heads = HeadList(modules, self.task_names) if modules else None
        self.dropout = dropout
        for module in self.modules():
            if isinstance(module, PerTask):
                module.put_in_order(self.task_names, are_given=self.has_names)
        self.number_layers()

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


class MultiTaskModel(TaskNetwork):
    """A model of one's own with modular layers somewhere in it, and a head for each task.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 4) for _ in range(2)], al.GumbelMatrix(2, 2))
    >>> body = nn.Sequential(nn.LayerNorm(8), layer)
    >>> model = al.MultiTaskModel(body, {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> model(torch.randn(5, 8), "b").shape
    torch.Size([5, 3])

    Args:
        body: Any module that holds modular layers. What it returns enters the heads. If its
            ``forward`` has an argument named ``task``, it is given the task's index.
        heads: A module for each task, as a list, or a dict whose keys are the tasks' names;
            None where the model has its own.
        dropout: Probability with which a feature is left out before the head, in training.
        task_names: The tasks' names, where the heads do not give them.
        features: From what the body returns to what enters the heads, where that is not the same.
    """

    def __init__(
        self,
        body: nn.Module,
        heads: Heads = None,
        *,
        dropout: float = 0.0,
        task_names: Sequence[str] | None = None,
        features: Features | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(body, nn.Module):
            raise TypeError(f"`body` should be a module. Found {described(body)}.")
        if features is not None and not callable(features):
            raise TypeError(f"`features` should be a function. Found {described(features)}.")
        self.body = body
        self.features = features
        self._tells_task = "task" in signature(body.forward).parameters
        self._add_heads(heads, task_names, dropout)

    def compute(self, x: Any, running: Pass, *arguments: Any, **options: Any) -> Tensor:
        if self._tells_task:
            options["task"] = running.task
        with opened(running):
            features = call_with(self.body, x, *arguments, **options)
            if self.features is not None:
                features = self.features(features)
        return self._outputs(features, running)

    @property
    def accepted_dtypes(self) -> tuple[torch.dtype, ...]:
        return getattr(self.body, "accepted_dtypes", ())


def as_network(model: nn.Module, task_names: Sequence[str] | None = None) -> TaskNetwork:
    """Returns the network itself, or a model with modular layers in it as a network.

    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], al.GumbelMatrix(2, 2))
    >>> as_network(nn.Sequential(layer), ["a", "b"]).task_names
    ['a', 'b']

    Args:
        model: A network, or any module with modular layers in it.
        task_names: The tasks' names, where the model is no network yet.
    """
    if isinstance(model, TaskNetwork):
        return model
    if not isinstance(model, nn.Module):
        many = isinstance(model, list | tuple)
        raise TypeError(
            "`network` should be one network, or a module with modular layers in it. "
            f"Found {described(model)}."
            + (" Several train together as `train([Run(...), ...])`." if many else "")
        )
    return MultiTaskModel(model, task_names=task_names)


def task_embeddings(network: nn.Module) -> Tensor:
    """Returns who uses what, a row for each task (paper, Section III-E), ``[T, C]``.

    The modular layers of a network stand side by side.

    >>> from torch import nn
    >>> import allotment as al
    >>> allocation = al.FixedMatrix([[1, 1, 0], [0, 1, 1]])
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], allocation)
    >>> al.task_embeddings(al.MultiTaskNetwork(None, [layer], task_names=["a", "b"]))
    tensor([[1., 1., 0.],
            [0., 1., 1.]])

    Args:
        network: A network, or any module with modular layers in it.
    """
    return as_network(network).matrix()
