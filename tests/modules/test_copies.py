"""Networks copied, and rebuilt from their state."""

from copy import deepcopy

import torch
from pytest import mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork, Noise
from tests.modules.components import FOR_IMAGES, FOR_VECTORS, Components, of_mixed_architectures


def on_images(components: Components, x: Tensor) -> MultiTaskNetwork:
    """Returns a network with a layer of these components and a linear head."""
    made = components()
    layer = ModularLayer(made, GumbelMatrix(1, len(made)))
    head = nn.Linear(made[0].eval()(x)[0].numel(), 2)
    return MultiTaskNetwork(nn.Tanh(), [layer, nn.Flatten()], [head]).train()


def batch_normed() -> list[nn.Module]:
    return [nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)) for _ in range(2)]


EVERY = {**FOR_IMAGES, **FOR_VECTORS, "with buffers": batch_normed}


@mark.parametrize("name", EVERY)
def test_a_network_goes_through_a_copy_and_its_state(name: str) -> None:
    x = torch.randn(5, 4) if name in FOR_VECTORS else torch.randn(5, 4, 6, 6)
    network, twin = on_images(EVERY[name], x), on_images(EVERY[name], x)
    network(x, 0)  # so that buffers have moved
    copy = deepcopy(network)
    twin.load_state_dict(network.state_dict())
    noise = Noise(torch.rand(sum(network.layer_sizes)))
    expected = network(x, 0, noise=noise), network.eval()(x, 0)
    for other in (copy, twin):
        found = other(x, 0, noise=noise), other.eval()(x, 0)
        assert_close(found, expected, rtol=0, atol=0)


@mark.parametrize(
    "allocation", [GumbelMatrix(2, 9), SharedBottom(2, 9), FixedMatrix(torch.ones(2, 9))], ids=str
)
def test_copies_share_nothing(allocation: Allocation) -> None:
    network = MultiTaskNetwork(None, [ModularLayer(of_mixed_architectures(), allocation)])
    x = torch.randn(2, 4, 6, 6)
    before = deepcopy(network).eval()(x, 0)
    copy = deepcopy(network)
    with torch.no_grad():
        for value in copy.state_dict().values():
            value.zero_()
    assert_close(network.eval()(x, 0), before, rtol=0, atol=0)
