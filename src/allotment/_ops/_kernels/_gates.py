"""Straight-through Gumbel-Softmax gates and their weights in Triton, a program for each draw."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _draw(
    logits, tasks, noise, step, weights, derivatives, logits_stride, noise_stride, start, floor,
    n_components, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes a draw's weights, and how fast each soft gate rises with its logits."""
    k = tl.program_id(0)
    inner = tl.arange(0, BLOCK)
    known = inner < n_components
    row = logits + k.to(tl.int64) * logits_stride + tl.load(tasks + k) * n_components * 2
    shut = tl.load(row + 2 * inner + 1, mask=known, other=0.0)
    advantage = tl.load(row + 2 * inner, mask=known, other=0.0) - shut
    chance = tl.load(noise + k * noise_stride + inner, mask=known, other=0.5)
    # The difference of two Gumbel draws is one logistic draw.
    noisy = advantage + tl.log(chance) - tl.log(1.0 - chance)
    temperature = tl.maximum(start / tl.sqrt(tl.load(step).to(tl.float32) + 1.0), floor)
    soft = tl.sigmoid(noisy / temperature)
    gates = tl.where(known & (noisy >= 0.0), 1.0, 0.0)
    total = tl.maximum(tl.sum(gates), 1.0)
    tl.store(weights + k * n_components + inner, gates / total, mask=known)
    tl.store(derivatives + k * n_components + inner, soft * (1.0 - soft) / temperature, mask=known)


@triton.jit
def _draw_backward(
    dweights, tasks, weights, derivatives, dlogits, n_tasks, n_components, BLOCK: tl.constexpr
):
    """Writes the gradient of one task's logits: zero, but for the task that was drawn for."""
    k, task = tl.program_id(0), tl.program_id(1)
    inner = tl.arange(0, BLOCK)
    known = inner < n_components
    places = k * n_components + inner
    weight = tl.load(weights + places, mask=known, other=0.0)
    derivative = tl.load(dweights + places, mask=known, other=0.0)
    # Gates are divided by their sum where it is above 0; weights that sum to 1 tell that.
    n_open = tl.sum(tl.where(weight > 0.0, 1.0, 0.0))
    total = tl.maximum(n_open, 1.0)
    share = tl.where(n_open > 0.0, tl.sum(derivative * weight), 0.0)
    derivative = (derivative - share) / total * tl.load(derivatives + places, mask=known, other=0.0)
    derivative = tl.where(tl.load(tasks + k) == task, derivative, 0.0)
    row = dlogits + ((k * n_tasks + task) * n_components + inner) * 2
    tl.store(row, derivative, mask=known)
    tl.store(row + 1, -derivative, mask=known)


def draw(
    logits: Tensor, tasks: Tensor, noise: Tensor, step: Tensor, start: float, floor: float
) -> tuple[Tensor, Tensor]:
    """Returns weights ``[K, C]`` and the soft gates' derivatives ``[K, C]``."""
    n, _, n_components, _ = logits.shape
    if not logits[0].is_contiguous():
        logits = logits.contiguous()
    noise = noise if noise.stride(1) == 1 else noise.contiguous()
    weights = torch.empty(n, n_components, device=logits.device)
    derivatives = torch.empty_like(weights)
    _draw[(n,)](
        logits, tasks, noise, step, weights, derivatives, logits.stride(0), noise.stride(0),
        start, floor, n_components, triton.next_power_of_2(n_components), num_warps=1,
    )  # fmt: skip
    return weights, derivatives


def draw_backward(
    dweights: Tensor, tasks: Tensor, weights: Tensor, derivatives: Tensor, shape: torch.Size
) -> Tensor:
    """Returns the gradient of the logits, ``[K, T, C, 2]``."""
    n, n_tasks, n_components, _ = shape
    dlogits = torch.empty(shape, device=dweights.device)
    _draw_backward[(n, n_tasks)](
        dweights.contiguous(), tasks, weights, derivatives, dlogits, n_tasks, n_components,
        triton.next_power_of_2(n_components), num_warps=1,
    )  # fmt: skip
    return dlogits
