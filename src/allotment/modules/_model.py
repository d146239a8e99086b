"""A model of one's own as a network: modular layers anywhere in it, and a head for each task."""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import described
from ._context import Pass, opened
from ._inputs import call_with
from ._network import Features, Heads, TaskNetwork


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
