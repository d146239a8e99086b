"""A step recorded once as plain tensor operations, and replayed.

Batching over runs and building the backward pass cost Python time at every step. Both come out the
same each time, so they are done once and the operations they lead to are kept.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from .._ops import plain_operations

Gradients = Callable[[list[Tensor], Any], tuple[Tensor, list[Tensor]]]


def traced(
    gradients: Gradients, parameters: list[Tensor], batch: Any, *, compiled: bool = False
) -> Gradients:
    """Returns a function that replays what ``gradients`` does for a batch of this shape.

    Tensors that it reads beside its arguments are read anew at each call. ``compiled`` has torch
    fuse the operations, which takes a minute or so once. Whatever keeps it from being recorded is
    raised, for instance by a component that looks at values to decide what to do.
    """
    # A plain function: the recorder miscounts the arguments of a bound method.
    with plain_operations():
        record = make_fx(lambda parameters, batch: gradients(parameters, batch))
        graph = record(parameters, batch)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    recorded = torch.compile(graph, dynamic=False) if compiled else graph
    with torch.no_grad():
        recorded(parameters, batch)  # compilation happens at the first call

    def replay(parameters: list[Tensor], batch: Any) -> tuple[Tensor, list[Tensor]]:
        with torch.no_grad():
            result: tuple[Tensor, list[Tensor]] = recorded(parameters, batch)
            return result

    return replay
