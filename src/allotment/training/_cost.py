"""What an optimizer step costs, counted and not timed."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from .._engine import Run, example_batch
from .._streams import torch_stream
from ..modules import Operations, TaskNetwork


def step_operations(run: Run) -> int:
    """Returns the floating-point operations of an optimizer step, forward and backward.

    They are those of products and convolutions, in a batch of the first task; a joint step takes
    as many batches as there are tasks. Allocations that learn on held-out batches have a pass of
    their own. Nothing is computed where the network can do without values. 0 where they cannot
    be counted.

    >>> from torch import nn, randn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], al.GumbelMatrix(1, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["a"])
    >>> step_operations(al.Run(network, [al.Task("a", (randn(64, 8), randn(64)))]))
    4864
    """
    x, y = example_batch(run)
    n_batches = len(run.tasks) if run.settings.is_joint else 1
    for device in ("meta", "cpu"):  # on the first, tensors have shapes and no values
        try:
            return n_batches * _counted(run, device, x, y)
        except Exception:  # whatever a user's network raises without values
            continue
    return 0


def _counted(run: Run, device: str, x: Any, y: Any) -> int:
    network = deepcopy(run.network).to(device).train()
    x, y = (tree_map(lambda part: part.to(device), part) for part in (x, y))
    counter = Operations()  # type: ignore[no-untyped-call]
    with torch_stream(run.seed, "trial"), counter, torch.enable_grad():
        loss = run.tasks[0].loss_function(network(x, 0), y)
        loss.backward()
        if run.settings.optimization.allocation_held_out:
            held_out = run.tasks[0].loss_function(network(x, 0), y)
            _descend_allocations(network, held_out)
    return int(counter.total)


def _descend_allocations(network: TaskNetwork, loss: Tensor) -> None:
    """Computes the gradients of allocations alone, where any learns by them."""
    allocations = nn.ModuleList(layer.allocation for layer in network.modular_layers)
    learnt = [p for p in allocations.parameters() if p.requires_grad]
    if learnt:
        torch.autograd.grad(loss, learnt, allow_unused=True)
