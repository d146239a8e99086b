"""Tensors of a training taken out, without padding, and put back."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ._parameters import FlatParameters


def compact(
    prefix: str, values: Mapping[str, Tensor], parameters: FlatParameters
) -> dict[str, Tensor]:
    """Returns copies on the CPU under prefixed names, without the padding of narrow heads.

    Padding never learns, and heads of different widths can be a third of it.
    """
    return {
        f"{prefix}/{name}": _real(name, value.detach(), parameters).to("cpu", copy=True)
        for name, value in values.items()
    }


@torch.no_grad()
def fill(
    prefix: str,
    targets: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    parameters: FlatParameters,
) -> None:
    """Copies values that were made compact into tensors; their padding stays as it is.

    They are copied into the tensors that are there, since a recorded step reads those.
    """
    for name, target in targets.items():
        saved, shape = tensors.get(f"{prefix}/{name}"), _real(name, target, parameters).shape
        if saved is None or saved.shape != shape:
            found = "none" if saved is None else f"one of shape {list(saved.shape)}"
            raise ValueError(
                f"A state should be one of the same runs, with `{prefix}/{name}` of shape "
                f"{list(shape)}. Found {found}."
            )
        if _is_padded(name, target, parameters):
            target[:, parameters.real[name]] = saved.to(target.device)
        else:
            target.copy_(saved)


def _real(name: str, value: Tensor, parameters: FlatParameters) -> Tensor:
    return value[:, parameters.real[name]] if _is_padded(name, value, parameters) else value


def _is_padded(name: str, value: Tensor, parameters: FlatParameters) -> bool:
    """Tells whether a value is a flat tensor ``[R, P]`` with padding in it."""
    return name in parameters.real and value.ndim == 2
