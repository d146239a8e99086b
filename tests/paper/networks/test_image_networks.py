"""The networks for Omniglot and the clusters: their parts, and the plain networks they equal."""

from collections.abc import Callable
from itertools import chain

import torch
from pytest import fixture, mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine._stacked_network import stack
from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork, Noise
from allotment.paper.networks import (
    ConvNormReLU,
    NormReLU,
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
    clusters_network,
    omniglot_network,
)
from benchmarks.reference_images import ImageNetwork, clusters_components, omniglot_components

STRIDES = (2, 2, 1, 2, 2, 1, 2, 1)
KERNELS = {
    "conv3x3": ((3, 3), (3, 3)),
    "conv5x5": ((5, 5), (5, 5)),
    "conv7x7": ((7, 7), (7, 7)),
    "conv1x7-7x1": ((1, 7), (7, 1)),
}
WIDTHS = {"a": 14, "b": 5}

Pair = Callable[[], tuple[MultiTaskNetwork, ImageNetwork, Tensor]]


def n_numbers(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def n_conv_norm(n_inputs: int, n_outputs: int, kernel: tuple[int, int]) -> int:
    """Returns the size of a convolution with bias, and a norm's scale and shift."""
    return n_inputs * n_outputs * kernel[0] * kernel[1] + n_outputs + 2 * n_outputs


@fixture(scope="module")
def omniglot() -> MultiTaskNetwork:
    return omniglot_network(
        lambda c, **_: GumbelMatrix(20, c), {str(task): 14 for task in range(20)}
    )


@fixture(scope="module")
def clusters() -> MultiTaskNetwork:
    return clusters_network(
        lambda c, **_: GumbelMatrix(40, c), {str(task): 10 for task in range(40)}
    )


def test_the_omniglot_network_has_the_size_of_its_description(omniglot: MultiTaskNetwork) -> None:
    convolutions = sum(n_conv_norm(48, 48, kernel) for kernel in chain(*KERNELS.values()))
    n_strided = sum(stride == 2 for stride in STRIDES)
    norm, identity, logits = 2 * 48, 48 * 48 + 48, 20 * 7 * 2
    layers = len(STRIDES) * (convolutions + norm + logits) + n_strided * identity
    trunk = n_conv_norm(1, 48, (1, 1)) + layers
    assert omniglot.heads is not None
    assert n_numbers(omniglot) - n_numbers(omniglot.heads) == trunk == 3_341_936
    assert n_numbers(omniglot.heads) == 20 * (4 * 4 * 48 + 1) * 14


def test_the_clusters_network_has_the_size_of_its_description(clusters: MultiTaskNetwork) -> None:
    components = 8 * (n_conv_norm(8, 8, (3, 3)) + n_conv_norm(8, 8, (5, 5)))
    trunk = n_conv_norm(3, 8, (1, 1)) + 3 * (components + 2 * 8 + 40 * 16 * 2)
    assert clusters.heads is not None
    assert n_numbers(clusters) - n_numbers(clusters.heads) == trunk
    assert n_numbers(clusters.heads) == 40 * (4 * 4 * 8 + 1) * 10


def test_a_stride_of_omniglot_acts_on_the_last_operation(omniglot: MultiTaskNetwork) -> None:
    for layer, stride in zip(omniglot.modular_layers, STRIDES, strict=True):
        *convolutions, largest, average, identity = layer.components
        for component, kernels in zip(convolutions, KERNELS.values(), strict=True):
            assert isinstance(component, nn.Sequential)
            parts = [part.conv for part in component if isinstance(part, ConvNormReLU)]
            assert len(parts) == len(component)
            assert tuple(part.kernel_size for part in parts) == kernels
            assert [part.stride for part in parts] == [(1, 1), (stride, stride)]
        assert isinstance(largest, SameMaxPool2d) and largest.stride == stride
        assert isinstance(average, SameAvgPool2d) and average.stride == stride
        if stride == 1:
            assert isinstance(identity, nn.Identity)
        else:
            assert isinstance(identity, SameConv2d)
            assert (identity.kernel_size, identity.stride) == ((1, 1), (2, 2))


def test_every_convolution_of_the_clusters_has_stride_two(clusters: MultiTaskNetwork) -> None:
    for layer in clusters.modular_layers:
        convolutions = [part.conv for part in layer.components if isinstance(part, ConvNormReLU)]
        assert [part.kernel_size for part in convolutions] == [(3, 3)] * 8 + [(5, 5)] * 8
        assert {part.stride for part in convolutions} == {(2, 2)}


def test_components_have_the_names_of_the_paper(
    omniglot: MultiTaskNetwork, clusters: MultiTaskNetwork
) -> None:
    for layer in omniglot.modular_layers:
        assert layer.names == [*KERNELS, "max pool", "average pool", "identity"]
    names = [f"conv{size} {copy}" for size in ("3x3", "5x5") for copy in "ABCDEFGH"]
    assert [layer.names for layer in clusters.modular_layers] == [names] * 3


@mark.parametrize("name", ["omniglot", "clusters"])
def test_a_norm_follows_every_layer_and_all_norms_are_alike(
    name: str, omniglot: MultiTaskNetwork, clusters: MultiTaskNetwork
) -> None:
    network = {"omniglot": omniglot, "clusters": clusters}[name]
    *pairs, last = network.layers
    assert isinstance(last, nn.Flatten)
    assert all(isinstance(layer, ModularLayer) for layer in pairs[::2])
    assert all(isinstance(norm, NormReLU) for norm in pairs[1::2])
    norms = [module for module in network.modules() if isinstance(module, nn.GroupNorm)]
    assert {(norm.num_groups, norm.eps) for norm in norms} == {(4, 1e-6)}
    assert network.dropout == 0.5


def an_omniglot_pair() -> tuple[MultiTaskNetwork, ImageNetwork, Tensor]:
    ours = omniglot_network(lambda c, **_: GumbelMatrix(2, c, p_init=0.9), WIDTHS)
    layers = [omniglot_components(stride) for stride in STRIDES]
    plain = ImageNetwork((1, 48), layers, list(WIDTHS.values()), p_init=0.5)
    return ours, plain, torch.rand(1, 1, 105, 105)


def a_clusters_pair() -> tuple[MultiTaskNetwork, ImageNetwork, Tensor]:
    ours = clusters_network(lambda c, **_: GumbelMatrix(2, c, p_init=0.9), WIDTHS)
    layers = [clusters_components() for _ in range(3)]
    plain = ImageNetwork((3, 8), layers, list(WIDTHS.values()), p_init=0.5)
    return ours, plain, torch.rand(3, 3, 32, 32)


def make_equal(ours: MultiTaskNetwork, plain: ImageNetwork) -> None:
    """Draws every parameter of the plain network, opens its gates, and copies it into ours."""
    for name, parameter in plain.named_parameters():
        if name.endswith("logits"):
            parameter.data.copy_(torch.tensor([100.0, -100.0]))
        elif parameter.ndim == 1:  # not at one and zero, where a mistake could hide
            nn.init.uniform_(parameter, 0.2, 1.0)
    norms = nn.ModuleList(layer for layer in ours.layers if isinstance(layer, NormReLU))
    assert ours.heads is not None
    pairs: list[tuple[nn.Module, nn.Module]] = [
        (ours.stem, plain.stem),
        (norms, plain.norms),
        (ours.heads, plain.heads),
    ]
    for layer, other in zip(ours.modular_layers, plain.layers, strict=True):
        pairs.append((layer.components, other.get_submodule("components")))
    for module, other in pairs:
        for a, b in zip(module.parameters(), other.parameters(), strict=True):
            a.data.copy_(b.data)


@mark.parametrize("make", [an_omniglot_pair, a_clusters_pair])
def test_with_all_gates_open_the_network_equals_the_plain_one(make: Pair) -> None:
    ours, plain, x = make()
    make_equal(ours, plain)
    plain.eval()
    stacked = stack(ours).train()  # the form that trains
    stacked.dropout = 0.0
    noise = Noise(gates=torch.full((sum(ours.layer_sizes),), 0.5))  # leaves likely gates open
    with torch.no_grad():
        for task, width in enumerate(WIDTHS.values()):
            expected = plain(x, task, 0.5)
            assert expected.shape == (len(x), width)
            assert_close(ours.eval()(x, task), expected, rtol=1e-4, atol=1e-4)
            assert_close(stacked(x, task, noise=noise), expected, rtol=1e-4, atol=1e-4)
