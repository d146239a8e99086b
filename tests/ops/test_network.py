"""A network of many channels by kernels, several runs in one pass: as by plain operations."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork, Noise
from allotment.paper.networks import (
    ConvNormReLU,
    NormReLU,
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
    TwoColourStem,
)
from tests.ops.both_ways import DEVICE, BothWays, needs_kernels

pytestmark = needs_kernels

CHANNELS = 20


def layer() -> ModularLayer:
    def twice(first: tuple[int, int], second: tuple[int, int]) -> nn.Module:
        return nn.Sequential(
            ConvNormReLU(CHANNELS, CHANNELS, first), ConvNormReLU(CHANNELS, CHANNELS, second, 2)
        )

    components = [
        twice((3, 3), (3, 3)),
        twice((1, 5), (5, 1)),
        SameMaxPool2d(2),
        SameAvgPool2d(2),
        SameConv2d(CHANNELS, CHANNELS, 1, 2),
    ]
    return ModularLayer(components, GumbelMatrix(2, 5))


def test_runs_of_a_network_in_one_pass(assert_same: BothWays) -> None:
    torch.manual_seed(0)
    layers = [layer(), NormReLU(4, CHANNELS), layer(), NormReLU(4, CHANNELS)]
    network = MultiTaskNetwork(TwoColourStem(CHANNELS), layers).to(DEVICE)
    names = [name for name, _ in network.named_parameters()]
    runs = [torch.stack([p.detach(), 1.1 * p.detach()]) for p in network.parameters()]
    images = (torch.rand(2, 3, 1, 11, 11) > 0.5).to(DEVICE)
    open_and_shut = Noise(torch.linspace(0.1, 0.9, 10, device=DEVICE), None)

    def one(images: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        # Copies, so that both ways have the temperature of the first batch.
        counts = {name: count.clone() for name, count in network.named_buffers()}
        options = {"noise": open_and_shut}
        y: Tensor = functional_call(network, {**state, **counts}, (images, 1), options)
        return y

    assert_same(lambda *values: vmap(one)(images, *values), runs)
