"""Modular layers at any depth of a model: as the model with a task's own parts in their places."""

from collections.abc import Callable
from copy import deepcopy

import torch
from pytest import mark, param
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from allotment import for_task
from allotment._engine._stacked_network import stack
from allotment.allocation import FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel, Noise, PerTask, TaskNetwork
from tests.modules.blocks import Attention, Block, Model, causal

D, LENGTH = 4, 5
MATRIX = [[1, 0, 0], [0, 1, 1]]

State = dict[str, Tensor]


def modular(make: Callable[[], nn.Module], *, learnt: bool = False) -> ModularLayer:
    """Returns a layer of three components for two tasks."""
    allocation = GumbelMatrix(2, 3) if learnt else FixedMatrix(MATRIX)
    return ModularLayer([make() for _ in range(3)], allocation)


def a_model(*, learnt: bool = False) -> Model:
    """Returns a model with modular attention in one block, and a modular layer in the other."""
    attention = modular(lambda: Attention(D), learnt=learnt)
    dense = modular(lambda: nn.Sequential(nn.Linear(D, D), nn.GELU()), learnt=learnt)
    first = Block(attention, nn.Linear(D, D), D)
    return Model(first, Block(Attention(D), nn.Sequential(dense), D))


class MeanOf(nn.Module):
    """The mean of some modules' outputs."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, x: Tensor, *arguments: object, **options: object) -> Tensor:
        return torch.stack([part(x, *arguments, **options) for part in self.parts]).mean(0)


def for_one_task(model: Model, task: int) -> Model:
    """Returns the model with what a task uses written into the places of its modular layers."""
    own = deepcopy(model)
    for name, module in list(own.named_modules()):
        if isinstance(module, ModularLayer):
            used = [c for c, u in zip(module.components, MATRIX[task], strict=True) if u]
            own.set_submodule(name, MeanOf(used))
    return own


FORMS = [param(lambda network: network, id="plain"), param(stack, id="stacked")]


@mark.parametrize("form", FORMS)
@mark.parametrize("is_training", [True, False])
@mark.parametrize("has_mask", [True, False])
def test_a_model_is_that_of_each_task_with_its_own_parts(
    form: Callable[[TaskNetwork], TaskNetwork], is_training: bool, has_mask: bool
) -> None:
    model, x = a_model().train(is_training), torch.randn(2, LENGTH, D)
    network = form(MultiTaskModel(model))
    mask = (causal(LENGTH),) if has_mask else ()
    for task in (0, 1):
        expected = for_one_task(model, task)(x, *mask, scale=0.5)
        assert_close(network(x, task, *mask, scale=0.5), expected, rtol=1e-4, atol=1e-5)
        with for_task(task):
            assert_close(model(x, *mask, scale=0.5), expected, rtol=1e-4, atol=1e-5)


@mark.parametrize("is_training", [True, False])
def test_a_mask_reaches_every_component(is_training: bool) -> None:
    network = MultiTaskModel(modular(lambda: Attention(D))).train(is_training)
    x, mask = torch.randn(2, LENGTH, D), causal(LENGTH)
    other = x.clone()
    other[:, -1] = 7.0  # what the positions before it may not look at
    for task in (0, 1):
        masked = [network(seen, task, mask=mask)[:, :-1] for seen in (x, other)]
        assert_close(masked[0], masked[1], rtol=1e-4, atol=1e-5)
        free = [network(seen, task)[:, :-1] for seen in (x, other)]
        assert not torch.allclose(free[0], free[1], rtol=1e-2)


@mark.parametrize("form", FORMS)
def test_gradients_are_those_of_each_tasks_own_model(
    form: Callable[[TaskNetwork], TaskNetwork],
) -> None:
    model, x = a_model(), torch.randn(2, LENGTH, D)
    mask = causal(LENGTH)
    network = form(MultiTaskModel(model))
    for task in (0, 1):
        found = gradient_of_input(network, x, task, mask)
        expected = gradient_of_input(for_one_task(model, task), x, mask)
        assert_close(found, expected, rtol=1e-4, atol=1e-5)


def gradient_of_input(module: nn.Module, x: Tensor, *arguments: object) -> Tensor:
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(module(leaf, *arguments).square().sum(), leaf)
    return found


def test_runs_at_different_tasks_in_one_pass_are_those_runs_one_by_one() -> None:
    runs = [MultiTaskModel(a_model(learnt=True)) for _ in range(4)]
    tasks = torch.tensor([0, 1, 1, 0])
    x, gates = torch.randn(4, 2, LENGTH, D), torch.rand(4, 6)
    mask = causal(LENGTH)

    def loss(parameters: State, buffers: State, task: Tensor, x: Tensor, gates: Tensor) -> Tensor:
        state, options = (parameters, buffers), {"noise": Noise(gates)}
        outputs: Tensor = functional_call(runs[0], state, (x, task, mask), options)
        return outputs.square().mean()

    columns = [dict(run.named_parameters()) for run in runs]
    states = {name: torch.stack([column[name] for column in columns]) for name in columns[0]}
    counts = {name: torch.stack([count] * 4) for name, count in runs[0].named_buffers()}
    together = vmap(grad(loss))(states, counts, tasks, x, gates)
    assert all((count == 1).all() for count in counts.values())
    for number, run in enumerate(runs):
        own = run(x[number], int(tasks[number]), mask, noise=Noise(gates[number]))
        names, parameters = zip(*run.named_parameters(), strict=True)
        alone = torch.autograd.grad(own.square().mean(), parameters, allow_unused=True)
        for name, gradient in zip(names, alone, strict=True):
            expected = torch.zeros_like(columns[0][name]) if gradient is None else gradient
            assert_close(together[name][number], expected, rtol=1e-4, atol=1e-5)


class Residual(nn.Module):
    """Something with a connection around it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.inner(x)
        return y


@mark.parametrize("form", FORMS)
@mark.parametrize("is_training", [True, False])
def test_a_modular_layer_may_stand_inside_a_component_of_another(
    form: Callable[[TaskNetwork], TaskNetwork], is_training: bool
) -> None:
    inner = [modular(lambda: nn.Linear(D, D)) for _ in range(2)]
    components = [nn.Linear(D, D), nn.Linear(D, D), *(Residual(layer) for layer in inner)]
    network = MultiTaskModel(nn.Sequential(ModularLayer(components, SharedBottom(2, 4))))
    x = torch.randn(3, D)
    expected = (
        sum(
            (x + torch.stack([layer.components[1](x), layer.components[2](x)]).mean(0))
            for layer in inner
        )
        + components[0](x)
        + components[1](x)
    )
    found = form(network).train(is_training)(x, 1)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_torchs_own_encoder_takes_a_layer_for_each_task() -> None:
    one = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0, batch_first=True)
    encoder, x = nn.TransformerEncoder(one, 1), torch.randn(2, LENGTH, D)
    own = {name: nn.TransformerEncoderLayer(D, 2, 8, batch_first=True) for name in "ab"}
    encoder.layers[0] = PerTask(own)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for task, layer in enumerate(own.values()):
            with for_task(task):
                assert_close(encoder.eval()(x), layer.eval()(x))


def test_torchs_own_encoder_takes_a_modular_layer() -> None:
    one = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
    layers = [deepcopy(one) for _ in range(3)]
    for layer in layers:
        nn.init.normal_(layer.linear1.weight)
    encoder.layers[1] = ModularLayer(layers, FixedMatrix(MATRIX))
    network, x = MultiTaskModel(encoder), torch.randn(2, LENGTH, D)
    padding = torch.zeros(2, LENGTH, dtype=torch.bool)
    padding[0, 3:] = True
    y = encoder.layers[0](x, src_key_padding_mask=padding)
    expected = torch.stack([own(y, src_key_padding_mask=padding) for own in layers[1:]]).mean(0)
    for is_training in (True, False):
        network.train(is_training)
        with sdpa_kernel(SDPBackend.MATH):  # `vmap` warns that another one is slower under it
            found = network(x, 1, src_key_padding_mask=padding)
        assert_close(found, expected, rtol=1e-4, atol=1e-5)
