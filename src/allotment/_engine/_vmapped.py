"""Runs batched over: one tensor program for all of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from .._ops import keep_for_capture

if TYPE_CHECKING:
    from ._batch import Batch
    from ._forward import Forward


class Vmapped:
    """Computes the losses of ``R`` runs by `vmap`; a task is a tensor."""

    def __init__(self, forward: "Forward") -> None:
        self._forward = forward
        self._budgets = forward.penalties.budgets_on(forward.parameters.device)

    def __call__(self, learnt: Sequence[Tensor], batch: "Batch") -> tuple[Tensor, Tensor]:
        """Returns each run's losses and charges, ``[R]`` each; ``[R, T]`` in a joint step."""
        state = self._forward.parameters.state("network.", learnt)
        keep_for_capture(state.values())
        in_dims = (0, 0, 0, 0, batch.noise.dims, 0)
        batched = vmap(self._forward.of_run, in_dims=in_dims, randomness="different")
        # The fused kernels of attention cannot be batched: on a CPU torch would go run by run, and
        # on a GPU their gradients fail.
        with sdpa_kernel(SDPBackend.MATH):
            found: tuple[Tensor, Tensor] = batched(state, *batch[:4], self._budgets)
        return found
