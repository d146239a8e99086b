"""What weights carry from `weights` to `auxiliary_loss`, which is given nothing else of a pass.

An attribute of the tensor and not of the allocation: runs and tasks that are computed together
have it for themselves, a layer may be called several times, and it goes when the weights go.
"""

from torch import Tensor


def carry(weights: Tensor, value: Tensor) -> Tensor:
    """Returns the weights of a pass, which carry a tensor for `auxiliary_loss`."""
    weights.carried = value  # type: ignore[attr-defined]
    return weights


def carried(weights: Tensor) -> Tensor:
    """Returns what the weights of a pass carry."""
    found = getattr(weights, "carried", None)
    if not isinstance(found, Tensor):
        raise ValueError(
            "`weights` should be what `weights` of the allocation returned in training, itself and "
            f"not a copy. Found a tensor of shape {list(weights.shape)} that carries nothing."
        )
    return found
