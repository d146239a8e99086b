"""Components of one architecture as one batched operation: the same as one after another."""

import warnings

import torch
from pytest import mark, param, raises, warns
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer
from tests.modules.components import (
    FOR_IMAGES,
    FOR_VECTORS,
    Components,
    GainedReLU,
    conv,
    plainly,
    stacked,
    times,
    with_one_activation,
    with_one_convolution,
)

IMAGES, VECTORS = (5, 4, 6, 6), (5, 4)


CASES = [
    *(param(components, IMAGES, id=name) for name, components in FOR_IMAGES.items()),
    *(param(components, VECTORS, id=name) for name, components in FOR_VECTORS.items()),
    param(FOR_VECTORS["two linear"], (5, 3, 4), id="linear on sequences"),
    param(
        times(3, lambda: nn.Sequential(conv(), GainedReLU())),
        IMAGES,
        id="a class below an activation",
    ),
    param(
        times(3, with_one_activation),
        IMAGES,
        id="one activation in two places",
    ),
    param(
        times(3, with_one_convolution),
        IMAGES,
        id="one convolution in two places",
    ),
]


def noise_for(n: int) -> Tensor:
    """Returns noise that opens some of ``n`` gates of probability one half."""
    return torch.tensor([0.7, 0.8, 0.2, 0.9, 0.1, 0.6, 0.7, 0.3, 0.8])[:n]


def a_layer(components: Components) -> tuple[ModularLayer, Tensor]:
    """Returns a layer with a learnt allocation, and noise that opens some of its gates."""
    made = components()
    return ModularLayer(made, GumbelMatrix(2, len(made))), noise_for(len(made))


@mark.parametrize(("components", "shape"), CASES)
@mark.parametrize("task", [1, torch.tensor(1)], ids=["int", "tensor"])
def test_a_layer_equals_a_plain_loop_over_its_components(
    components: Components, shape: tuple[int, ...], task: int | Tensor
) -> None:
    layer, noise = a_layer(components)
    x = torch.randn(shape, requires_grad=True)
    weights = layer.allocation.weights(task, noise=noise)
    expected = plainly(list(layer.components), weights, x)
    found = layer(x, task=task, noise=noise)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    learnt = [x, *layer.parameters()]
    upstream = torch.randn_like(expected)
    by_loop = torch.autograd.grad(expected, learnt, upstream, allow_unused=True)
    by_layer = torch.autograd.grad(found, learnt, upstream, allow_unused=True)
    for a, b, parameter in zip(by_layer, by_loop, learnt, strict=True):
        zero = torch.zeros_like(parameter)
        assert_close(zero if a is None else a, zero if b is None else b, rtol=1e-3, atol=1e-4)


@mark.parametrize(("components", "shape"), CASES)
def test_a_stacked_layer_equals_a_plain_loop_too(
    components: Components, shape: tuple[int, ...]
) -> None:
    layer, noise = a_layer(components)
    x = torch.randn(shape)
    expected = plainly(list(layer.components), layer.allocation.weights(0, noise=noise), x)
    for task in (0, torch.tensor(0)):
        assert_close(stacked(layer)(x, task=task, noise=noise), expected, rtol=1e-4, atol=1e-5)


@mark.parametrize(("components", "shape"), CASES)
def test_evaluation_equals_a_plain_loop_too(components: Components, shape: tuple[int, ...]) -> None:
    made = components()
    likely = noise_for(len(made)).repeat(2, 1)  # some above one half, some below
    layer = ModularLayer(made, GumbelMatrix(2, len(made), p_init=likely)).eval()
    x = torch.randn(shape)
    expected = plainly(list(layer.components), layer.allocation.weights(0), x)
    assert_close(layer(x, task=0), expected, rtol=1e-4, atol=1e-5)
    assert_close(stacked(layer)(x, task=0), expected, rtol=1e-4, atol=1e-5)


def test_components_drop_out_independently() -> None:
    n = 10_000
    linears = [nn.Linear(1, 1, bias=False) for _ in range(2)]
    for linear, weight in zip(linears, (2.0, 4.0), strict=True):
        nn.init.constant_(linear.weight, weight)
    components = [nn.Sequential(nn.Dropout(0.5), linear) for linear in linears]
    layer = ModularLayer(components, GumbelMatrix(1, 2))
    # Weight 1/2 each and dropout's own factor 2: the two outcomes are the bits of the output.
    y = layer(torch.ones(n, 1), task=0, noise=torch.full((2,), 0.9)).round()
    both = (y == 6).float().mean().item()
    assert abs(both - 0.25) < 4 * (0.25 * 0.75 / n) ** 0.5


class Doubling(nn.Module):
    """Looks at values to decide what to do, which `vmap` cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return 2 * y if y.mean() > 0 else y


def test_components_that_look_at_values_are_evaluated_one_by_one() -> None:
    layer, noise = a_layer(times(5, Doubling))
    assert layer.groups == [[0, 1, 2, 3, 4]]
    x = torch.randn(VECTORS)
    outputs = torch.stack([component(x) for component in layer.components])
    plain = [component.get_submodule("linear")(x) for component in layer.components]
    assert {bool(y.mean() > 0) for y in plain} == {True, False}
    weights = layer.allocation.weights(1, noise=noise)
    with warns(UserWarning, match=r"^Components of class Doubling are .* slower: vmap") as told:
        for _ in range(2):  # found out and told, and remembered
            assert_close(layer(x, task=1, noise=noise), torch.einsum("c,cbo->bo", weights, outputs))
    assert len(told) == 1


def test_a_mistake_in_alike_components_is_told_as_it_is() -> None:
    layer, noise = a_layer(times(2, Doubling))
    with raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        layer(torch.randn(5, 7), task=1, noise=noise)


def test_whole_channels_are_dropped_without_a_warning() -> None:
    layer, noise = a_layer(times(3, lambda: nn.Sequential(nn.Dropout2d(0.5), conv())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = layer(torch.randn(IMAGES), task=1, noise=noise)
    assert y.shape[0] == IMAGES[0]
