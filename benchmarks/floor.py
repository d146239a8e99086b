"""How long a step would take if only arithmetic, or only memory, were in the way."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from allotment.modules import ModularLayer, TaskNetwork
from allotment.paper.networks import ConvNormReLU
from allotment.records import Floor

TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
SIDE = {"cpu": 1_024, "cuda": 8_192}  # of the matrices whose product is timed


def floor(
    network: TaskNetwork, shape: tuple[int, ...], precision: str, device: torch.device
) -> Floor:
    """Returns the floor of one step of one run, for a batch of this shape.

    Arithmetic: three times the forward pass, which a backward pass is twice. Memory: what each
    module gives is written and read once on the way forward and once on the way back, and the
    optimizer reads and writes weights, gradients and two moments.
    """
    n_operations, n_numbers = _counts(network, shape)
    n_weights = sum(parameter.numel() for parameter in network.parameters())
    size = TYPES[precision].itemsize
    return Floor(
        precision=precision,
        gigaflops=3 * n_operations / 1e9,
        gigabytes=(4 * size * n_numbers + 7 * 4 * n_weights) / 1e9,
        gigaflops_per_second=_product_rate(precision, device),
        gigabytes_per_second=_copy_rate(device),
    )


def _counts(network: TaskNetwork, shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns the floating-point operations of a forward pass, and the numbers modules give."""
    network = network.to("meta").train()
    n_numbers = 0

    def count(module: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal n_numbers
        # What the convolution gives its norm, and what the norm gives, are of one size.
        n_numbers += output.numel() * (2 if isinstance(module, ConvNormReLU) else 1)

    for module in network.modules():
        if isinstance(module, ModularLayer | ConvNormReLU) or not list(module.children()):
            module.register_forward_hook(count)
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(shape, device="meta"), 0)
    return counter.get_total_flops(), n_numbers


def _product_rate(precision: str, device: torch.device) -> float:
    """Returns how many thousand million operations a second a large product makes."""
    side = SIDE[device.type]
    a = torch.randn(side, side, device=device, dtype=TYPES[precision])
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    seconds = _seconds(lambda: a @ a, device)
    torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * side**3 / seconds / 1e9


def _copy_rate(device: torch.device) -> float:
    """Returns how many thousand million bytes a second a large copy reads and writes."""
    source = torch.empty(2**28 if device.type == "cpu" else 2**32, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = _seconds(lambda: target.copy_(source), device)
    return 2 * source.numel() / seconds / 1e9


def _seconds(call: Callable[[], object], device: torch.device, n: int = 10) -> float:
    def finish() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    call()
    finish()
    started = time.perf_counter()
    for _ in range(n):
        call()
    finish()
    return (time.perf_counter() - started) / n
