"""What each gate counts in budgets, where they do not all count the same."""

from copy import deepcopy

import torch
from torch import Tensor

from ..modules import component_costs
from ._run import Run, example_batch


def gate_costs(run: Run, device: torch.device) -> Tensor | None:
    """Returns what each component costs, ``[C]``; None where every gate counts the same.

    Operations and latencies are those of a batch of the first task, on the device.
    """
    chosen, network = run.settings.penalties, run.network
    if isinstance(chosen.cost, tuple):
        n_components = sum(network.layer_sizes)
        if len(chosen.cost) != n_components:
            raise ValueError(
                "`cost` should have a number for each component, the layers side by side. "
                f"Found {len(chosen.cost)} for {n_components} components."
            )
        return torch.tensor(chosen.cost, device=device)
    is_asked_for = chosen.budget is not None or chosen.connection_weight > 0
    if chosen.cost == "count" or not is_asked_for:
        return None
    assert isinstance(chosen.cost, str)
    found = component_costs(deepcopy(network).to(device), example_batch(run)[0], chosen.cost)
    if not found.sum() > 0:
        raise ValueError(
            f"`cost` should be one that some component has. Found {chosen.cost} of 0 for all."
        )
    return found.to(device)
