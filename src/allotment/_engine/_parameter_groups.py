"""Which parameters an optimizer treats alike."""

from typing import TYPE_CHECKING

from torch import nn

from ..allocation import Allocation
from ..modules import HeadTable

if TYPE_CHECKING:
    from ..modules import TaskNetwork

NORMALISATIONS = (nn.GroupNorm, nn.LayerNorm, nn.modules.batchnorm._NormBase)
GROUPS = ("weights", "scales", "biases", "allocation", "frozen")


def names_by_group(network: "TaskNetwork") -> dict[str, list[str]]:
    """Returns the names of parameters by optimizer group; groups without any are left out."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    allocated = _allocated(network)
    for name, parameter in network.named_parameters():
        path, _, leaf = name.rpartition(".")
        own = _group(network.get_submodule(path), leaf)
        group = "allocation" if id(parameter) in allocated else own
        groups[group if parameter.requires_grad else "frozen"].append(name)
    return {group: names for group, names in groups.items() if names}


def _allocated(network: "TaskNetwork") -> set[int]:
    """Returns the identities of the parameters of allocations, at any depth, as a router's."""
    allocations = [module for module in network.modules() if isinstance(module, Allocation)]
    return {id(p) for allocation in allocations for p in allocation.parameters()}


def _group(module: nn.Module, leaf: str) -> str:
    """Returns the group of a module's own parameter.

    The shift of a normalisation, though torch calls it ``bias``, counts as a weight, as in the
    authors' code: it is among the ``scales``, which are treated as weights but never rounded.
    """
    if isinstance(module, NORMALISATIONS):
        return "scales"
    if "bias" in leaf:
        return "biases"
    return "scales" if isinstance(module, HeadTable) else "weights"
