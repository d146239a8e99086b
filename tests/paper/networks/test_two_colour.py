"""Two-colour images: the numbers and gradients of the images they stand for."""

from collections.abc import Callable

import torch
from pytest import fixture, mark
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.testing import assert_close

from allotment._engine._stacked_network import stack
from allotment.allocation import GumbelMatrix, MMoE, SharedBottom
from allotment.allocation._features import example_features
from allotment.modules import ModularLayer, MultiTaskNetwork, extract
from allotment.paper.networks import (
    ConvNormReLU,
    NormReLU,
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
    TwoColourStem,
    clusters_network,
    omniglot_network,
)
from allotment.paper.networks._same_padding import TwoColourImage, same_convolution
from tests.paper.networks.test_conv_norm import randomised


@fixture
def images() -> Tensor:
    """Images of two values on both sorts of sides, odd and even; two have one value only."""
    made = torch.rand(5, 1, 9, 6, generator=torch.Generator().manual_seed(1)) < 0.3
    made[0], made[1] = False, True
    return made


@fixture
def two_colours(images: Tensor) -> TwoColourImage:
    """Images of two colours, neither of which is zero."""
    marks = torch.cat([~images, images], 1).double()
    return TwoColourImage(marks, 1 + torch.rand(5, 2, 8).double())


def a_stem() -> TwoColourStem:
    stem = randomised(TwoColourStem(8))
    assert isinstance(stem, TwoColourStem)
    return stem


def components() -> list[nn.Module]:
    """Returns components of every class that takes two-colour images, some of one architecture."""
    return [
        *(nn.Sequential(ConvNormReLU(8, 8, 3), ConvNormReLU(8, 8, 3, 2)) for _ in range(2)),
        nn.Sequential(ConvNormReLU(8, 8, (1, 7)), ConvNormReLU(8, 8, (7, 1), 2)),
        SameMaxPool2d(2),
        *(ConvNormReLU(8, 8, 5, 2) for _ in range(2)),
        *(SameConv2d(8, 8, 1, 2) for _ in range(2)),
        SameMaxPool2d(2),
        SameAvgPool2d(2),
    ]


def network_of(*layers: nn.Module) -> MultiTaskNetwork:
    heads = [nn.Linear(8 * 5 * 3, 4), nn.Linear(8 * 5 * 3, 3)]
    network = MultiTaskNetwork(TwoColourStem(8), [*layers, NormReLU(4, 8), nn.Flatten()], heads)
    randomised(network)
    return network


def modular_first() -> MultiTaskNetwork:
    return network_of(ModularLayer(components(), SharedBottom(2, 10)))


def plain_first() -> MultiTaskNetwork:
    return network_of(SameConv2d(8, 8, 3), ModularLayer(components(), SharedBottom(2, 10)))


def gated_first() -> MultiTaskNetwork:
    return network_of(ModularLayer(components(), MMoE(2, 10, n_features=8)))


def gradients(network: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns outputs for the first task, and the gradients of a sum with weights that differ."""
    network.zero_grad()
    y = network(x, 0)
    (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    return y.detach(), {n: p.grad for n, p in network.named_parameters() if p.grad is not None}


@mark.parametrize("made", [modular_first, plain_first, gated_first])
@mark.parametrize("training", [True, False])
@mark.parametrize("is_stacked", [True, False])
def test_a_network_makes_of_truth_values_what_it_makes_of_ones_and_zeros(
    made: Callable[[], MultiTaskNetwork], training: bool, is_stacked: bool, images: Tensor
) -> None:
    network = made()
    chosen = (stack(network) if is_stacked else network).train(training)
    found, of_values = gradients(chosen, images)
    expected, of_numbers = gradients(chosen, images.double())
    assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert len(of_numbers) > 15
    assert_close(of_values, of_numbers, rtol=1e-8, atol=1e-8)


def test_a_stem_is_a_convolution_with_norm_of_single_pixels(images: Tensor) -> None:
    stem, block = a_stem(), ConvNormReLU(1, 8, 1).double()
    block.load_state_dict(stem.state_dict())
    expected = block(images.double())
    assert_close(stem(images.double()), expected, rtol=0, atol=0)
    seen = stem(images)
    assert isinstance(seen, TwoColourImage) and seen.colours.shape == (5, 2, 8)
    assert_close(seen.pixels(), expected, rtol=1e-9, atol=1e-9)


def test_features_for_gates_are_the_means_over_pixels(two_colours: TwoColourImage) -> None:
    expected = two_colours.pixels().mean(dim=(2, 3))
    assert_close(example_features(two_colours, 8), expected, rtol=1e-12, atol=1e-12)


def test_the_omniglot_network_takes_truth_values_as_they_are() -> None:
    outputs = {"a": 2, "b": 3}
    assert omniglot_network(lambda c, **_: SharedBottom(2, c), outputs).accepted_dtypes == (
        torch.bool,
    )
    assert clusters_network(lambda c, **_: SharedBottom(2, c), outputs).accepted_dtypes == ()


def test_one_tasks_part_takes_truth_values_too(images: Tensor) -> None:
    network = modular_first()
    expected = network.eval()(images.double(), 1)
    assert_close(extract(network, 1)(images), expected, rtol=1e-9, atol=1e-9)


def test_no_images_at_all(images: Tensor) -> None:
    assert modular_first()(images[:0], 0).shape == (0, 4)


def test_many_tasks_at_once(images: Tensor) -> None:
    network = network_of(ModularLayer(components(), GumbelMatrix(2, 10))).eval()
    network.heads = None  # of one width, as in a joint step
    state: dict[str, Tensor] = dict(network.named_parameters())
    batches = torch.stack([images, images.flip(0)])

    def outputs(x: Tensor, task: Tensor) -> Tensor:
        y: Tensor = functional_call(network, state, (x, task))
        return y

    together = vmap(outputs)(batches, torch.arange(2))
    for task in (0, 1):
        expected = network(batches[task].double(), task)
        assert_close(together[task], expected, rtol=1e-9, atol=1e-9)


@mark.parametrize("kernel", [(1, 1), (2, 4), (3, 3), (7, 7)])
@mark.parametrize("stride", [1, 2, 3])
def test_a_convolution_leaves_nothing_around_an_image(
    kernel: tuple[int, int], stride: int, two_colours: TwoColourImage
) -> None:
    # No colour is zero: taking the surroundings for one of them would show at the edges.
    conv = SameConv2d(8, 3, kernel, stride)
    randomised(conv)
    assert_close(conv(two_colours), conv(two_colours.pixels()), rtol=1e-9, atol=1e-9)


def test_a_stride_may_differ_between_the_sides(two_colours: TwoColourImage) -> None:
    weight, bias = torch.randn(3, 8, 3, 3).double(), torch.randn(3).double()
    found = same_convolution(two_colours, weight, bias, (2, 3))
    expected = same_convolution(two_colours.pixels(), weight, bias, (2, 3))
    assert_close(found, expected, rtol=1e-9, atol=1e-9)


@mark.parametrize("pool", [SameMaxPool2d, SameAvgPool2d])
@mark.parametrize("stride", [1, 2, 3])
def test_a_pool_leaves_nothing_around_an_image(
    pool: type[SameMaxPool2d | SameAvgPool2d], stride: int, two_colours: TwoColourImage
) -> None:
    expected = pool(stride)(two_colours.pixels() - 10) + 10  # a zero from outside would be largest
    assert_close(pool(stride)(two_colours), expected, rtol=1e-9, atol=1e-9)
