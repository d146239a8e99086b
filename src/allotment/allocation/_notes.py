"""What a pass leaves with its weights, for the auxiliary loss of the same pass."""

from torch import Tensor


def noted(weights: Tensor, note: Tensor) -> Tensor:
    """Returns weights that carry another tensor of their pass, to be read by `note_of`.

    An auxiliary loss is given the weights of a pass and not its examples. What it needs of these,
    such as the gates before they were divided, travels with the weights: so the allocation keeps
    nothing, and one that stands in several layers mixes nothing up.
    """
    weights._allotment_note = note  # type: ignore[attr-defined]
    return weights


def note_of(weights: Tensor) -> Tensor:
    """Returns what these weights carry."""
    note = getattr(weights, "_allotment_note", None)
    if not isinstance(note, Tensor):
        raise ValueError(
            "`weights` should be the tensor that `weights(...)` returned in this training pass, "
            "not a copy: it carries what is charged. Found a tensor of shape "
            f"{list(weights.shape)} that carries nothing."
        )
    return note
