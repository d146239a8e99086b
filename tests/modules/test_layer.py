"""A layer of components: what it evaluates, what learns, and what it refuses."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer
from tests.modules.components import Gain, of_mixed_architectures, stacked

OPEN, SHUT = 0.9, 0.1  # noise that opens or shuts a gate of probability one half


class CountCalls:
    """Counts how often each of some modules is called."""

    def __init__(self, modules: nn.ModuleList) -> None:
        self.calls = [0] * len(modules)
        for position, module in enumerate(modules):
            module.register_forward_hook(lambda *_, p=position: self._add(p))

    def _add(self, position: int) -> None:
        self.calls[position] += 1


def linear_layer(n: int = 3) -> ModularLayer:
    """Returns a layer of ``n`` linear components with learnt gates for one task."""
    return ModularLayer([nn.Linear(4, 2) for _ in range(n)], GumbelMatrix(1, n))


def gradient(parameter: Tensor) -> Tensor:
    """Returns a parameter's gradient, zero where there is none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def weight_of(layer: ModularLayer, position: int) -> Tensor:
    weight = layer.components[position].weight
    assert isinstance(weight, Tensor)
    return weight


def logits_of(layer: ModularLayer) -> Tensor:
    logits = layer.allocation.logits
    assert isinstance(logits, Tensor)
    return logits


def test_a_shut_component_gets_no_weight_gradient_yet_moves_its_logit() -> None:
    layer = linear_layer()
    layer(
        torch.randn(5, 4), task=0, noise=torch.tensor([OPEN, SHUT, OPEN])
    ).square().sum().backward()
    assert (gradient(weight_of(layer, 1)) == 0).all()
    for position in (0, 2):
        assert (gradient(weight_of(layer, position)) != 0).any()
    assert (gradient(logits_of(layer))[0] != 0).all()


def test_the_sole_open_component_learns_its_weights_while_only_the_others_logits_move() -> None:
    layer = linear_layer()
    layer(
        torch.randn(5, 4), task=0, noise=torch.tensor([SHUT, OPEN, SHUT])
    ).square().sum().backward()
    assert (gradient(weight_of(layer, 1)) != 0).any()
    logits = gradient(logits_of(layer))[0]
    assert_close(logits[1], torch.zeros(2), rtol=0, atol=1e-7)
    assert (logits[[0, 2]].abs() > 1e-6).all()


@mark.parametrize("task", [0, torch.tensor(0)], ids=["int", "tensor"])
@mark.parametrize("is_stacked", [False, True])
@mark.parametrize("is_training", [True, False])
def test_no_open_gate_gives_a_zero_output(
    is_training: bool, is_stacked: bool, task: int | Tensor
) -> None:
    allocation = GumbelMatrix(1, 3, p_init=0.2, keeps_one=False)
    layer = ModularLayer([nn.Linear(4, 2) for _ in range(3)], allocation)
    layer = (stacked(layer) if is_stacked else layer).train(is_training)
    y = layer(torch.randn(5, 4), task=task, noise=torch.full((3,), SHUT))
    assert_close(y.detach(), torch.zeros(5, 2), rtol=0, atol=0)


def test_with_no_open_gate_logits_move_still() -> None:
    layer = linear_layer()
    layer.allocation.keeps_one = False
    (layer(torch.randn(5, 4), task=0, noise=torch.full((3,), SHUT)) - 1).square().sum().backward()
    assert (gradient(logits_of(layer)) != 0).all()
    assert all((gradient(weight_of(layer, position)) == 0).all() for position in range(3))


def test_training_without_noise_draws() -> None:
    layer = linear_layer()
    x = torch.randn(5, 4)
    outputs = {tuple(layer(x, task=0).flatten().tolist()) for _ in range(50)}
    assert 1 < len(outputs) <= 2**3
    assert layer.allocation.n_batches == 50


@mark.parametrize(
    "row", [[1, 0, 1, 0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0, 0], [1] * 9], ids=str
)
def test_evaluation_calls_only_what_the_task_uses(row: list[int]) -> None:
    layer = ModularLayer(of_mixed_architectures(), FixedMatrix(torch.tensor([row]))).eval()
    count = CountCalls(layer.components)
    layer(torch.randn(2, 4, 6, 6), task=0)
    assert count.calls == row


def test_evaluation_of_learnt_gates_calls_only_those_that_are_likely() -> None:
    prior = [[0.9, 0.1, 0.6], [0.1, 0.2, 0.5]]
    layer = ModularLayer([nn.Linear(4, 2) for _ in range(3)], GumbelMatrix(2, 3, p_init=prior))
    count = CountCalls(layer.eval().components)
    layer(torch.randn(2, 4), task=0)
    assert count.calls == [1, 0, 1]
    layer(torch.randn(2, 4), task=1)
    assert count.calls == [1, 0, 2]


def test_sampled_evaluation_calls_only_what_was_drawn() -> None:
    allocation = GumbelMatrix(1, 3, evaluation="sampled")
    layer = ModularLayer([nn.Linear(4, 2) for _ in range(3)], allocation).eval()
    count = CountCalls(layer.components)
    layer(torch.randn(2, 4), task=0, noise=torch.tensor([OPEN, SHUT, OPEN]))
    assert count.calls == [1, 0, 1]


SHAPES = r"Components of a layer should have equal output shapes\. Found "


@mark.parametrize(
    ("components", "expectation"),
    [
        ([nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 2))], does_not_raise()),
        (
            [nn.Linear(4, 2), nn.Linear(4, 3)],
            raises(
                ValueError,
                match=SHAPES + r"\[5, 2\] from component 0 \(linear 0\) and "
                r"\[5, 3\] from component 1 \(linear 1\)\.",
            ),
        ),
        (
            [nn.Linear(4, 1), nn.Linear(4, 1), nn.Identity()],
            raises(ValueError, match=SHAPES + r"\[5, 1\] from .* 0 .* and \[5, 4\] from .* 2 "),
        ),
    ],
)
@mark.parametrize("is_training", [True, False])
def test_components_have_one_output_shape(
    components: list[nn.Module], expectation: AbstractContextManager[object], is_training: bool
) -> None:
    layer = ModularLayer(components, SharedBottom(1, len(components))).train(is_training)
    with expectation:
        layer(torch.randn(5, 4), task=0)


@mark.parametrize(
    ("n_components", "expectation"),
    [
        (2, does_not_raise()),
        (3, raises(ValueError, match=r"one gate per component\. Found 3 gates for 2 components")),
        (1, raises(ValueError, match=r"one gate per component\. Found 1 gates for 2 components")),
    ],
)
def test_an_allocation_has_a_gate_for_each_component(
    n_components: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        ModularLayer([nn.Linear(4, 2), nn.Linear(4, 2)], GumbelMatrix(1, n_components))


@mark.parametrize(
    ("names", "expectation"),
    [
        (["a", "b"], does_not_raise()),
        (None, does_not_raise()),
        (["a"], raises(ValueError, match=r"one entry per component\. Found 1 names for 2 comp")),
    ],
)
def test_names_are_one_for_each_component(
    names: list[str] | None, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        layer = ModularLayer([nn.Linear(4, 2), nn.ReLU()], GumbelMatrix(1, 2), names=names)
        assert layer.names == (names or ["linear", "relu"])


def test_a_shared_parameter_gets_the_sum_of_its_components_gradients() -> None:
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    second.weight = first.weight
    layer = ModularLayer([first, second, nn.Linear(4, 2)], SharedBottom(1, 3))
    x = torch.randn(5, 4)
    layer(x, task=0).sum().backward()
    alone = x.sum(dim=0).expand(2, 4)
    assert_close(first.weight.grad, 2 * alone)
    assert_close(weight_of(layer, 2).grad, alone)
    assert len(list(layer.parameters())) == 5  # three biases, two weights


@mark.parametrize("n_same", [1, 2], ids=["alone", "beside a component of its architecture"])
def test_a_stacked_layer_shares_what_the_layer_shares(n_same: int) -> None:
    shared, again = nn.Linear(4, 2), nn.Linear(4, 2)
    again.weight, again.bias = shared.weight, shared.bias
    components = [shared, again, *(nn.Linear(4, 2) for _ in range(n_same - 1))]
    layer = ModularLayer(components, SharedBottom(1, n_same + 1))
    n_numbers = sum(parameter.numel() for parameter in layer.parameters())
    assert sum(parameter.numel() for parameter in stacked(layer).parameters()) == n_numbers


@mark.parametrize(
    "components",
    [
        param([nn.Linear(4, 4) for _ in range(3)], id="one architecture"),
        param([nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 4)], id="two architectures"),
        param([Gain(), nn.Sequential(nn.Linear(4, 4)), Gain()], id="of one's own"),
        param([nn.BatchNorm1d(4), nn.BatchNorm1d(4)], id="with buffers"),
    ],
)
def test_the_names_and_shapes_of_the_state_are_the_users(components: list[nn.Module]) -> None:
    layer = ModularLayer(components, SharedBottom(1, len(components)))
    expected = {
        f"components.{position}.{name}": value.shape
        for position, component in enumerate(components)
        for name, value in component.state_dict().items()
    }
    state = {name: value.shape for name, value in layer.state_dict().items()}
    assert state == {**expected, "allocation.table": (1, len(components))}
    assert list(layer.components) == components


def test_a_component_may_be_frozen_later() -> None:
    layer = linear_layer()
    layer.components[1].requires_grad_(False)
    learnt = sum(p.numel() for p in layer.parameters() if p.requires_grad)
    assert sum(p.numel() for p in stacked(layer).parameters() if p.requires_grad) == learnt


def test_a_component_may_be_replaced_later() -> None:
    layer = ModularLayer([nn.Linear(4, 4) for _ in range(3)], SharedBottom(1, 3))
    layer.components[1] = nn.Identity()
    x = torch.randn(5, 4)
    expected = torch.stack([component(x) for component in layer.components]).sum(dim=0)
    assert_close(layer(x, task=0), expected)


@mark.parametrize(
    ("components", "allocation", "expectation"),
    [
        param([nn.Linear(4, 2)], SharedBottom(1, 1), does_not_raise(), id="as they should be"),
        param(nn.ModuleList([nn.ReLU()]), SharedBottom(1, 1), does_not_raise(), id="module list"),
        param(
            nn.Linear(4, 2),
            SharedBottom(1, 1),
            raises(TypeError, match=r"`components` should be a list of modules\. Found a Linear\."),
            id="one component",
        ),
        param(
            [nn.Linear],
            SharedBottom(1, 1),
            raises(TypeError, match=r"a list of modules\. Found a list of class Linear\."),
            id="a class",
        ),
        param(
            [nn.Linear(4, 2)],
            torch.ones(1, 1),
            raises(TypeError, match=r"`allocation` should be an Allocation\. Found a Tensor\."),
            id="a matrix",
        ),
    ],
)
def test_components_are_modules_and_gates_an_allocation(
    components: Any, allocation: Any, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        ModularLayer(components, allocation)


def test_components_are_different_modules() -> None:
    same = nn.Linear(4, 2)
    message = r"`components` should be different .* one module \(Linear\) as components 0 and 2\.$"
    with raises(ValueError, match=message):
        ModularLayer([same, nn.Linear(4, 2), same], SharedBottom(1, 3))
    with raises(ValueError, match=r"\(Identity\) as components 0 and 1\.$"):
        ModularLayer([nn.Identity()] * 3, SharedBottom(1, 3))


@mark.parametrize(
    ("x", "found"),
    [
        ({"x": torch.ones(3, 4)}, r"a dict\. Inputs of several"),
        ((torch.ones(3, 4), {}), r"a tuple of Tensor, dict\. Inputs of several"),
        (torch.ones(3, 4).numpy(), r"a ndarray\. `torch\.as_tensor` makes a tensor of it\.$"),
    ],
)
def test_components_that_take_a_tensor_are_given_one(x: Any, found: str) -> None:
    layer = ModularLayer([nn.Linear(4, 2), nn.Linear(4, 2)], SharedBottom(1, 2))
    with raises(ValueError, match=rf"what it takes, a tensor for Linear\. Found {found}"):
        layer(x, task=0)


def test_components_without_names_are_told_apart() -> None:
    layer = ModularLayer([nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 4)], SharedBottom(1, 3))
    assert layer.names == ["linear 0", "identity", "linear 2"]
