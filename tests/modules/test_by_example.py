"""Layers whose weights differ from example to example."""

from collections.abc import Callable

import torch
from pytest import mark, param
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._ops import mix
from allotment.allocation import Allocation
from allotment.modules import ModularLayer
from tests.allocation.made_up import ByExample, TopOne
from tests.modules.components import of_mixed_architectures, stacked

N_FEATURES = 4 * 6 * 6


def one_by_one(layer: ModularLayer, x: Tensor, weights: Tensor) -> Tensor:
    """Returns each example's own sum of outputs, with a component called for one at a time."""
    rows = []
    for example, own in zip(x, weights, strict=True):
        outputs = [component(example[None])[0] for component in layer.components]
        rows.append(torch.stack([w * y for w, y in zip(own, outputs, strict=True)]).sum(0))
    return torch.stack(rows)


@mark.parametrize("shape", [(), (3,), (2, 4, 4)], ids=str)
@mark.parametrize("sizes", [(5,), (2, 3), (1, 1, 1)], ids=str)
def test_mixing_by_example_is_a_sum_for_each(
    sizes: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    n_examples = 6
    groups = [torch.randn(size, n_examples, *shape) for size in sizes]
    weights = torch.rand(n_examples, sum(sizes))
    together = torch.cat(groups)
    expected = torch.stack(
        [
            torch.stack([weights[b, c] * together[c, b] for c in range(sum(sizes))]).sum(0)
            for b in range(n_examples)
        ]
    )
    assert_close(mix(weights, groups), expected)


@mark.parametrize("allocate", [ByExample, TopOne])
@mark.parametrize("task", [1, torch.tensor(1)], ids=["int", "tensor"])
@mark.parametrize("is_training", [True, False])
@mark.parametrize("form", [param(lambda layer: layer, id="plain"), param(stacked, id="stacked")])
def test_a_layer_mixes_each_example_by_its_own_weights(
    allocate: type[ByExample],
    task: int | Tensor,
    is_training: bool,
    form: Callable[[ModularLayer], ModularLayer],
) -> None:
    layer = ModularLayer(of_mixed_architectures(), allocate(2, 9, N_FEATURES)).train(is_training)
    x = torch.randn(5, 4, 6, 6)
    expected = one_by_one(layer, x, layer.allocation.weights(1, x))
    assert_close(form(layer)(x, task=task), expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_a_loop() -> None:
    layer = ModularLayer([nn.Linear(4, 3) for _ in range(3)], ByExample(2, 3, 4))
    x = torch.randn(5, 4, requires_grad=True)
    learnt = [x, *layer.parameters()]
    upstream = torch.randn(5, 3)
    found = torch.autograd.grad(layer(x, task=0), learnt, upstream)
    by_loop = one_by_one(layer, x, layer.allocation.weights(0, x))
    assert_close(found, torch.autograd.grad(by_loop, learnt, upstream), rtol=1e-4, atol=1e-5)


class Halves(TopOne):
    """The first component for the first half of a batch, the second for the rest."""

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        assert x is not None
        weights = torch.zeros(len(x), self.n_components)
        weights[: len(x) // 2, 0] = 1.0
        weights[len(x) // 2 :, 1] = 1.0
        return weights


@mark.parametrize("form", [param(lambda layer: layer, id="plain"), param(stacked, id="stacked")])
def test_buffers_of_a_component_that_no_example_uses_stay(
    form: Callable[[ModularLayer], ModularLayer],
) -> None:
    layer = form(ModularLayer([nn.BatchNorm1d(4) for _ in range(3)], Halves(1, 3, 4)))
    before = {name: value.clone() for name, value in layer.components[2].state_dict().items()}
    x = torch.randn(8, 4) + 3
    layer(x, task=0).sum().backward()
    for position in (0, 1):  # used by half of the examples, and shown all of them
        norm = layer.components[position]
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.num_batches_tracked == 1
        assert_close(norm.running_mean, 0.1 * x.mean(0))
    for name, value in layer.components[2].state_dict().items():
        assert torch.equal(value, before[name])


def test_evaluation_calls_what_some_example_uses() -> None:
    layer = ModularLayer([nn.Linear(4, 4) for _ in range(3)], Halves(1, 3, 4)).eval()
    called: list[int] = []
    for position, component in enumerate(layer.components):
        component.register_forward_hook(lambda *_, p=position: called.append(p))
    x = torch.randn(6, 4)
    y = layer(x, task=0)
    assert called == [0, 1]
    assert_close(y[:3], layer.components[0](x[:3]))
    assert_close(y[3:], layer.components[1](x[3:]))


class Inattentive(ByExample):
    """Weights of no example's own, from the layer's input as a whole."""

    sees_examples = False

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return super().weights(task, x, noise=noise).mean(0)


def test_weights_of_a_batch_and_equal_weights_of_its_examples_agree() -> None:
    allocation: Allocation = Inattentive(2, 3, 4)
    layer, x = ModularLayer([nn.Linear(4, 2) for _ in range(3)], allocation), torch.randn(5, 4)
    weights = allocation.weights(0, x)
    outputs = torch.stack([component(x) for component in layer.components])
    assert_close(layer(x, task=0), mix(weights.expand(5, 3), [outputs]))
