"""Learning rates that fall over the course of training."""

import torch
from torch import Tensor


class FallingRates:
    """Learning rates that follow half a cosine, from their full value down to 0.

    The rates become tensors on the device, and are a function of the step alone: a captured step
    sets them without the host, and going on from a checkpoint needs nothing more.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, n_batches: int, device: torch.device
    ) -> None:
        self._full = [float(group["lr"]) for group in optimizer.param_groups]
        self._rates = [torch.tensor(rate, device=device) for rate in self._full]
        self._n_batches = n_batches
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate

    def set(self, step: Tensor) -> None:
        """Sets the rates for a step, counted in task batches from 0."""
        share_left = 0.5 * (1.0 + torch.cos(torch.pi * step / self._n_batches))
        for full, rate in zip(self._full, self._rates, strict=True):
            rate.copy_(full * share_left)
