"""Drawings: the numbers and gradients of the images they stand for."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import fixture, mark
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.testing import assert_close

from allotment.paper.networks import ConvNormReLU, NormReLU, SameAvgPool2d, SameConv2d, SameMaxPool2d
from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork, extract
from allotment.paper.networks._two_colour import Drawing
from tests.paper.networks.test_conv_norm import randomised


def without_bias() -> ConvNormReLU:
    stem = ConvNormReLU(1, 8, 1)
    stem.conv.bias = None
    return stem


@fixture
def ink() -> Tensor:
    """Drawings on both kinds of sides: odd and even. One is blank, one all ink."""
    drawn = torch.rand(5, 1, 9, 6, generator=torch.Generator().manual_seed(1)) < 0.3
    drawn[0], drawn[1] = False, True
    return drawn


def everything() -> list[nn.Module]:
    """Returns components of every class that takes drawings, two of one kind among them."""
    return [
        nn.Sequential(ConvNormReLU(8, 8, 3), ConvNormReLU(8, 8, 3, 2)),
        nn.Sequential(ConvNormReLU(8, 8, (1, 7)), ConvNormReLU(8, 8, (7, 1), 2)),
        ConvNormReLU(8, 8, 5, 2),
        ConvNormReLU(8, 8, 5, 2),
        SameConv2d(8, 8, 1, 2),
        SameMaxPool2d(2),
        SameAvgPool2d(2),
    ]


def known() -> MultiTaskNetwork:
    return network_of(ModularLayer(everything(), SharedBottom(2, 7)))


def with_strangers() -> MultiTaskNetwork:
    components = [*everything(), nn.Sequential(nn.ReLU(), SameConv2d(8, 8, 3, 2))]
    return network_of(ModularLayer(components, SharedBottom(2, 8)))


def with_a_plain_layer_first() -> MultiTaskNetwork:
    layer = ModularLayer(everything(), SharedBottom(2, 7))
    return network_of(SameConv2d(8, 8, 3), layer)


def network_of(*layers: nn.Module) -> MultiTaskNetwork:
    heads = [nn.Linear(8 * 5 * 3, 4), nn.Linear(8 * 5 * 3, 3)]
    network = MultiTaskNetwork(
        ConvNormReLU(1, 8, 1), [*layers, NormReLU(4, 8), nn.Flatten()], heads
    )
    randomised(network)
    return network


def gradients(network: MultiTaskNetwork, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns outputs for the first task, and the gradients of a sum with weights that differ."""
    network.zero_grad()
    y = network(x, 0)
    (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    return y.detach(), {n: p.grad for n, p in network.named_parameters() if p.grad is not None}


@mark.parametrize("made", [known, with_strangers, with_a_plain_layer_first])
@mark.parametrize("training", [True, False])
def test_a_network_makes_of_ink_what_it_makes_of_ones_and_zeros(
    made: Callable[[], MultiTaskNetwork], training: bool, ink: Tensor
) -> None:
    network = made().train(training)
    drawn, slopes = gradients(network, ink)
    plain, expected = gradients(network, ink.double())
    assert_close(drawn, plain, rtol=1e-9, atol=1e-9)
    assert len(expected) > 20
    assert_close(slopes, expected, rtol=1e-8, atol=1e-8)


class Residual(ModularLayer):
    """A layer that does something with its input itself."""

    def forward(self, x: Tensor, *arguments: Any, **options: Any) -> Tensor:  # type: ignore[override]
        return x + super().forward(x, *arguments, **options)


def with_a_layer_of_ones_own() -> MultiTaskNetwork:
    components = [ConvNormReLU(8, 8, 3), SameMaxPool2d()]
    return network_of(Residual(components, SharedBottom(2, 2)), SameAvgPool2d(2))


def with_unequal_strides() -> MultiTaskNetwork:
    oblong = ConvNormReLU(8, 8, 3, (2, 3))  # type: ignore[arg-type]
    layer = ModularLayer([oblong], SharedBottom(2, 1))
    return network_of(layer, nn.AdaptiveAvgPool2d((5, 3)))


def with_hooks(name: str) -> Callable[[], MultiTaskNetwork]:
    def made() -> MultiTaskNetwork:
        network = known()
        module = network.get_submodule(name)
        module.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 0.5, *inputs[1:]))
        module.register_forward_hook(lambda _, inputs, output: output + inputs[0].sum())
        return network

    return made


@mark.parametrize(
    "made",
    [
        with_a_layer_of_ones_own,
        with_unequal_strides,
        *map(with_hooks, ["stem", "layers.0", "layers.0.components.0", "layers.0.components.0.0"]),
    ],
)
def test_what_expects_tensors_is_given_them(
    made: Callable[[], MultiTaskNetwork], ink: Tensor
) -> None:
    network = made()
    x = ink if network.takes_ink else ink.double()  # as in training
    assert_close(network(x, 0), network(ink.double(), 0), rtol=1e-9, atol=1e-9)


def test_one_tasks_part_takes_ink_too(ink: Tensor) -> None:
    network = known()
    assert_close(extract(network, 1)(ink), network.eval()(ink, 1), rtol=1e-9, atol=1e-9)


def test_no_drawings_at_all(ink: Tensor) -> None:
    assert known()(ink[:0], 0).shape == (0, 4)


def test_many_tasks_at_once(ink: Tensor) -> None:
    network = network_of(ModularLayer(everything(), GumbelMatrix(2, 7))).eval()
    network.heads = None  # of one width, as in a joint step
    state: dict[str, Tensor] = dict(network.named_parameters())
    batches = torch.stack([ink, ink.flip(0)])

    def outputs(x: Tensor, task: Tensor) -> Tensor:
        y: Tensor = functional_call(network, state, (x, task))
        return y

    together = vmap(outputs)(batches, torch.arange(2))
    assert_close(together[1], network(batches[1].double(), 1), rtol=1e-9, atol=1e-9)
    assert_close(together[0], network(batches[0].double(), 0), rtol=1e-9, atol=1e-9)


def test_pixels_are_the_stems_output(ink: Tensor) -> None:
    stem = ConvNormReLU(1, 8, 1)
    randomised(stem)
    drawing = stem.drawing(ink)
    assert isinstance(drawing, Drawing) and drawing.colours.shape == (5, 2, 8)
    assert_close(drawing.pixels(), stem(ink.double()), rtol=1e-9, atol=1e-9)


@mark.parametrize("kernel", [(1, 1), (2, 4), (3, 3), (7, 7)])
@mark.parametrize("stride", [1, 2, 3])
def test_a_convolution_leaves_nothing_around_the_paper(
    kernel: tuple[int, int], stride: int, ink: Tensor
) -> None:
    # Paper has a colour too: taking its surroundings for paper would show at the edges.
    conv = SameConv2d(8, 3, kernel, stride)
    randomised(conv)
    drawing = Drawing(torch.cat([~ink, ink], 1).double(), 1 + torch.rand(5, 2, 8).double())
    assert_close(conv(drawing), conv(drawing.pixels()), rtol=1e-9, atol=1e-9)


@mark.parametrize(
    ("stem", "takes_ink"),
    [
        (ConvNormReLU(1, 8, 1), True),
        (ConvNormReLU(1, 8, 3), False),
        (ConvNormReLU(1, 8, 1, 2), False),
        (ConvNormReLU(3, 8, 1), False),
        (nn.Conv2d(1, 8, 1), False),
        (without_bias(), False),
        (None, False),
    ],
)
def test_only_a_stem_of_single_pixels_takes_ink(stem: nn.Module | None, takes_ink: bool) -> None:
    network = MultiTaskNetwork(stem, [ModularLayer([nn.Identity()], SharedBottom(2, 1))])
    assert network.takes_ink == takes_ink
