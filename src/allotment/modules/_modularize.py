"""Named parts of a model made modular."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

from torch import nn

from .._checks import check_whole, described, nearest
from ..allocation import Allocation, GumbelMatrix
from ._layer import ModularLayer
from ._network import Heads, MultiTaskModel

Allocate = Callable[[int, int], Allocation]  # from numbers of tasks and of components


def modularize(
    model: nn.Module,
    parts: Mapping[str, int],
    *,
    tasks: Sequence[str] | None = None,
    heads: Heads = None,
    allocation: Allocate = GumbelMatrix,
    dropout: float = 0.0,
) -> MultiTaskModel:
    """Returns a network in which named parts of a model are modular layers; the model stays.

    The components of a part are copies of it, and start from its weights. What a learnt allocation
    draws tells them apart; one without draws should start with weights that differ.

    >>> from torch import nn, randn
    >>> from allotment import modularize
    >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4))
    >>> network = modularize(model, {"2": 3}, heads={"a": nn.Linear(4, 1), "b": nn.Linear(4, 5)})
    >>> network(randn(2, 8), "b").shape, network.component_names
    (torch.Size([2, 5]), ('2 A', '2 B', '2 C'))

    Args:
        model: Any module. What it returns enters the heads.
        parts: How many components each part gets, by the part's name in ``model.named_modules()``.
        tasks: The tasks' names, where the heads do not give them.
        heads: A module for each task, by name, or as a list; None where the model's output is it.
        allocation: From the numbers of tasks and components to a layer's allocation.
        dropout: Probability with which a feature is left out before the head, in training.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` should be a module. Found {described(model)}.")
    sized = tasks if heads is None else heads
    if sized is None:
        raise ValueError("`tasks` or `heads` should say how many tasks there are. Found neither.")
    if not hasattr(sized, "__len__"):
        raise TypeError(
            "`heads` should be a dict or a list with a module for each task. "
            f"Found {described(sized)}."
        )
    _check_apart(parts)
    body = deepcopy(model)
    _check_known(parts, [name for name, _ in body.named_modules() if name])
    for name, n in parts.items():
        layer = ModularLayer(
            [deepcopy(body.get_submodule(name)) for _ in range(n)],
            allocation(len(sized), n),
            names=[f"{name} {chr(ord('A') + position)}" for position in range(n)],
            kinds=[name] * n,
        )
        body.set_submodule(name, layer)
    return MultiTaskModel(body, heads, dropout=dropout, task_names=tasks)


def _check_known(parts: Mapping[str, int], known: Sequence[str]) -> None:
    for name, n in parts.items():
        if name not in known:
            raise ValueError(
                "`parts` should name modules inside the model. "
                f"Found {name!r}, which is not among {known}." + nearest(name, known)
            )
        check_whole(f"parts[{name!r}]", n)


def _check_apart(parts: Mapping[str, int]) -> None:
    for inner in parts:
        for outer in parts:
            if inner.startswith(f"{outer}."):
                raise ValueError(
                    f"`parts` should lie outside of each other. Found {inner!r} inside {outer!r}."
                )
