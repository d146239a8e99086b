"""Torch's fused Adam, given flat tensors in pieces that fill a GPU."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

N_PIECES = 72  # of a group of tensors; torch's kernel takes about half as many in a launch
LEAST_NUMBERS = 2_048  # of a piece
KERNEL_NUMBERS = 65_536  # of a tensor that the kernel gives to one group of threads


class FlatAdam(torch.optim.Adam):
    """Torch's fused Adam, which on a GPU is given flat tensors in pieces.

    Its kernel has one group of threads for each tensor, or for each 65,536 numbers of a large
    one. The few flat tensors of a small network would leave most of the device idle, and took 75
    of 1,340 microseconds of a step of the clusters network; those of a large one fill it as they
    are. States are those of the flat tensors.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Takes one step, given the gradients."""
        if self.param_groups[0]["params"][0].is_cuda:
            for group in self.param_groups:
                self.step_in_pieces(group)
        else:
            super().step(closure)

    @torch.no_grad()
    def step_in_pieces(self, group: dict[str, Any]) -> None:
        """Takes one step of one group of tensors."""
        flats: list[Tensor] = group["params"]
        size = piece_size([flat.numel() for flat in flats])
        states = []
        for flat in flats:
            if not self.state[flat]:
                self.state[flat] |= empty_state(flat)
            states.append(self.state[flat])
        torch._foreach_add_([state["step"] for state in states], 1)
        names = ("weights", "gradients", "exp_avg", "exp_avg_sq", "step")
        pieces: dict[str, list[Tensor]] = {name: [] for name in names}
        for flat, state in zip(flats, states, strict=True):
            assert flat.grad is not None
            for name, whole in {"weights": flat, "gradients": flat.grad, **state}.items():
                if name != "step":
                    pieces[name] += whole.view(-1).split(size)
            n_new = len(pieces["weights"]) - len(pieces["step"])
            pieces["step"] += [state["step"]] * n_new  # which the kernel only reads
        torch._fused_adam_(
            pieces["weights"],
            pieces["gradients"],
            pieces["exp_avg"],
            pieces["exp_avg_sq"],
            [],
            pieces["step"],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


def piece_size(n_numbers: Sequence[int]) -> int:
    """Returns how many numbers of each tensor make a piece, given how many the tensors have."""
    # Whole fours, which the kernel reads at once.
    size = max(LEAST_NUMBERS, -(-sum(n_numbers) // (4 * N_PIECES)) * 4)
    # Pieces need further launches, which larger ones would not make up for.
    return size if 2 * size <= KERNEL_NUMBERS else max(n_numbers)


def empty_state(flat: Tensor) -> dict[str, Tensor]:
    """Returns the state of Adam before its first step."""
    moments = {name: torch.zeros_like(flat) for name in ("exp_avg", "exp_avg_sq")}
    return {"step": torch.zeros((), dtype=torch.float32, device=flat.device), **moments}
