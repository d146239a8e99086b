"""All that steps change, taken out and put back."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ._adam import empty_state
from ._replicas import Replicas


def taken(replicas: Replicas, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns copies of the weights, the buffers and the optimizer's state, on the CPU."""
    tensors = {"steps": replicas.n_batches.to("cpu", copy=True)}
    tensors |= compact("now", replicas.changing(), replicas)
    for group, flat in replicas.learnt():
        for name, value in optimizer.state[flat].items():
            tensors |= compact(name, {group: value}, replicas)
    return tensors


@torch.no_grad()
def put_back(
    tensors: Mapping[str, Tensor], replicas: Replicas, optimizer: torch.optim.Optimizer
) -> None:
    """Copies what was taken into the tensors that are there, since a recorded step reads those."""
    replicas.n_batches.copy_(tensors["steps"])
    fill("now", replicas.changing(), tensors, replicas)
    for group, flat in replicas.learnt():
        state = optimizer.state[flat]
        if not state:  # Adam makes it at its first step
            state |= empty_state(flat)
        for name, value in state.items():
            fill(name, {group: value}, tensors, replicas)


def compact(prefix: str, values: Mapping[str, Tensor], replicas: Replicas) -> dict[str, Tensor]:
    """Returns copies on the CPU under prefixed names, without the padding of narrow heads.

    Padding never learns, and heads of different widths can be a third of it.
    """
    return {
        f"{prefix}/{name}": _real(name, value.detach(), replicas).to("cpu", copy=True)
        for name, value in values.items()
    }


@torch.no_grad()
def fill(
    prefix: str, targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor], replicas: Replicas
) -> None:
    """Copies values that were made compact into tensors; their padding stays as it is."""
    for name, target in targets.items():
        saved, shape = tensors.get(f"{prefix}/{name}"), _real(name, target, replicas).shape
        if saved is None or saved.shape != shape:
            found = "none" if saved is None else f"one of shape {list(saved.shape)}"
            raise ValueError(
                f"A state should be one of the same runs, with `{prefix}/{name}` of shape "
                f"{list(shape)}. Found {found}."
            )
        if _is_padded(name, target, replicas):
            target[:, replicas.real[name]] = saved.to(target.device)
        else:
            target.copy_(saved)


def _real(name: str, value: Tensor, replicas: Replicas) -> Tensor:
    return value[:, replicas.real[name]] if _is_padded(name, value, replicas) else value


def _is_padded(name: str, value: Tensor, replicas: Replicas) -> bool:
    """Tells whether a value is a flat tensor ``[R, P]`` with padding in it."""
    return name in replicas.real and value.ndim == 2
