"""A whole network for each task, all of them in one."""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from ...allocation import Allocation, NoSharing
from ...modules import ModularLayer, MultiTaskNetwork
from .._methods import Allocate
from ._blueprint import Blueprint, Build, assembled, drawn_up, side_by_side


def single_task(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Returns ``T`` networks as one: nothing is shared, so no task learns from another's examples.

    The network is built once for each task. A modular layer has the components of all of them, and
    each task averages its own ``C``. The stem and plain layers, where they have parameters or
    statistics, become modular layers with one component for each task. Everything stays one
    program, and it costs ``T`` times as much. The optimizer is one too: where it has a memory, as
    Adam, a network also moves in steps of other tasks, and does not end as one trained alone.

    The method's allocation has to give each task components of its own, as `NoSharing` does.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    plans = [drawn_up(build, outputs) for _ in outputs]
    first, names = plans[0], list(outputs)
    joined = [
        _joined(first, list(parts), names, allocate)
        for parts in zip(*(plan.layers for plan in plans), strict=True)
    ]
    stem = _joined(first, [plan.network.stem for plan in plans], names, allocate)
    heads = [list(plan.network.heads or [])[task : task + 1] for task, plan in enumerate(plans)]  # type: ignore[arg-type]
    return assembled(
        first.network, joined, stem=stem, heads=[head for own in heads for head in own]
    )


def _joined(
    plan: Blueprint, parts: Sequence[nn.Module], names: Sequence[str], allocate: Allocate
) -> nn.Module:
    """Returns what the networks have in one place, as one layer."""
    first = parts[0]
    if isinstance(first, ModularLayer):
        layers = [part for part in parts if isinstance(part, ModularLayer)]
        components, kinds = side_by_side(layers)
        own = _checked(plan.allocated(first, allocate, len(components)))
        labels = [f"{t} {n}" for t, layer in zip(names, layers, strict=True) for n in layer.names]
        return ModularLayer(components, own, names=labels, kinds=kinds)
    if not any(True for _ in (*first.parameters(), *first.buffers())):
        return first
    kind = type(first).__name__.lower()
    own = _checked(allocate(len(parts)))
    return ModularLayer(parts, own, names=names, kinds=[kind] * len(parts))


def _checked(allocation: Allocation) -> Allocation:
    """Raises unless each task has components of its own."""
    own = NoSharing(allocation.n_tasks, allocation.n_components)
    if allocation.is_learnt or not torch.equal(allocation.matrix(), own.matrix()):
        raise ValueError(
            "`allocation` of a method with the structure `single_task` should give each task its "
            f"own components, as NoSharing does. Found {type(allocation).__name__}."
        )
    return allocation
