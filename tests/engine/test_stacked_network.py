"""The stacked form: the same outputs, and a way back to the user's own state."""

from collections.abc import Callable
from copy import deepcopy

import torch
from pytest import mark, param
from torch import nn
from torch.testing import assert_close

from allotment._engine._stacked_network import StackedForm, locations, stack
from allotment.allocation import Allocation, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel, MultiTaskNetwork, Noise, TaskNetwork
from tests.allocation.made_up import ByExample
from tests.modules.components import FOR_IMAGES, Normed, conv, of_mixed_architectures, times

N_FEATURES = 4 * 6 * 6
Heads = Callable[[], list[nn.Module]]


def a_network(heads: list[nn.Module], *, dropout: float = 0.0) -> MultiTaskNetwork:
    """Returns a network with stacked and lone components, a plain layer and a stem."""
    mixed = of_mixed_architectures()
    normed: list[nn.Module] = [
        nn.Sequential(conv(), nn.BatchNorm2d(4)),
        *(Normed() for _ in range(2)),
        nn.Sequential(conv(), nn.BatchNorm2d(4)),
    ]
    layers = [
        ModularLayer(mixed, GumbelMatrix(len(heads), len(mixed), p_init=0.6)),
        nn.GroupNorm(2, 4),
        ModularLayer(normed, SharedBottom(len(heads), len(normed))),
        nn.Flatten(),
    ]
    return MultiTaskNetwork(conv(), layers, heads, dropout=dropout)


def linear_heads(*widths: int) -> list[nn.Module]:
    return [nn.Linear(N_FEATURES, width) for width in widths]


HEADS = [
    param(lambda: linear_heads(3, 3), id="equal widths"),
    param(lambda: linear_heads(2, 5, 3), id="different widths"),
    param(lambda: [nn.Linear(N_FEATURES, 2, bias=False) for _ in range(2)], id="no biases"),
    param(
        lambda: [nn.Linear(N_FEATURES, 2), nn.Sequential(nn.Tanh(), nn.Linear(N_FEATURES, 2))],
        id="not linear",
    ),
]


@mark.parametrize("heads", HEADS)
@mark.parametrize("is_training", [True, False])
def test_a_stacked_network_gives_the_same_outputs(heads: Heads, is_training: bool) -> None:
    made = heads()
    network = a_network(made, dropout=0.3).train(is_training)
    stacked = stack(network)
    x = torch.randn(5, 4, 6, 6)
    noise = Noise(torch.rand(sum(network.layer_sizes)), torch.rand(5, N_FEATURES))
    for task, head in enumerate(made):
        expected = network(x, task, noise=noise)
        width = expected.shape[1]
        found = stacked(x, task, noise=noise)
        assert_close(found[:, :width], expected, rtol=1e-4, atol=1e-5)
        assert (found[:, width:] < -1e8).all()
        if isinstance(head, nn.Linear):
            by_tensor = stack(network)(x, torch.tensor(task), noise=noise)
            assert_close(by_tensor[:, :width], expected, rtol=1e-4, atol=1e-5)


@mark.parametrize("heads", HEADS)
def test_locations_give_the_users_state_back_exactly(heads: Heads) -> None:
    network = a_network(heads())
    network(torch.randn(5, 4, 6, 6), 0)  # so that statistics have moved
    assert_round_trip(network)


@mark.parametrize("name", FOR_IMAGES)
def test_locations_know_every_sort_of_component(name: str) -> None:
    components = FOR_IMAGES[name]()
    allocation = GumbelMatrix(2, len(components))
    assert_round_trip(MultiTaskNetwork(None, [ModularLayer(components, allocation)]))


def assert_round_trip(network: TaskNetwork) -> None:
    """Asserts that reading every location of the stacked state gives the user's state."""
    state = network.state_dict()
    stacked = stack(network).state_dict()
    found = {name: location.read(stacked) for name, location in locations(network).items()}
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert found[name].dtype == value.dtype
        assert_close(found[name], value, rtol=0, atol=0)


def test_a_stacked_network_shares_no_tensor() -> None:
    network = a_network(linear_heads(3, 3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.no_grad():
        for value in stack(network).state_dict().values():
            value.zero_()
    for name, value in network.state_dict().items():
        assert_close(value, before[name], rtol=0, atol=0)


def test_components_of_one_architecture_become_one_module() -> None:
    components = times(5, lambda: nn.Sequential(conv(), nn.ReLU()))()
    network = stack(MultiTaskNetwork(None, [ModularLayer(components, GumbelMatrix(2, 5))]))
    weights = [p for name, p in network.named_parameters() if name.endswith("weight")]
    assert [tuple(weight.shape) for weight in weights] == [(5, 4, 4, 3, 3)]


def test_frozen_parameters_stay_frozen() -> None:
    frozen = [conv().requires_grad_(False) for _ in range(3)]
    components = [*frozen, *(conv() for _ in range(2))]
    network = MultiTaskNetwork(None, [ModularLayer(components, SharedBottom(2, 5))])
    sizes = [
        sum(p.numel() for p in stack(network).parameters() if p.requires_grad is learns)
        for learns in (False, True)
    ]
    one = sum(p.numel() for p in conv().parameters())
    assert sizes == [3 * one, 2 * one]


def test_a_head_in_several_places_stays_one() -> None:
    head = nn.Linear(N_FEATURES, 3)
    network = a_network([head, head])
    n_numbers = sum(p.numel() for p in network.parameters())
    assert sum(p.numel() for p in stack(network).parameters()) == n_numbers


def test_a_module_in_several_places_stays_one() -> None:
    shared = conv()
    layer = ModularLayer([conv(), conv()], GumbelMatrix(2, 2))
    network = MultiTaskNetwork(shared, [layer, shared])
    n_numbers = sum(p.numel() for p in network.parameters())
    assert sum(p.numel() for p in stack(network).parameters()) == n_numbers


def holding_layers(allocate: Callable[[], Allocation]) -> list[nn.Module]:
    """Returns components of which two hold modular layers themselves."""

    def holder() -> nn.Module:
        return nn.Sequential(ModularLayer([conv() for _ in range(2)], allocate()), nn.ReLU())

    return [conv(), conv(), holder(), nn.Identity(), holder()]


@mark.parametrize(
    "allocate",
    [
        param(lambda: GumbelMatrix(2, 2), id="with buffers"),
        param(lambda: ByExample(2, 2, N_FEATURES), id="without"),
    ],
)
def test_modular_layers_inside_components(allocate: Callable[[], Allocation]) -> None:
    outer = ModularLayer(holding_layers(allocate), GumbelMatrix(2, 5))
    network = MultiTaskModel(nn.Sequential(outer, nn.Flatten()), linear_heads(2, 3))
    assert_round_trip(network)
    x, n_gates = (
        torch.randn(5, 4, 6, 6),
        sum(layer.allocation.n_noise for layer in network.modular_layers),
    )
    noise = Noise(torch.rand(n_gates))
    for task in (0, 1):
        found, expected = stack(network)(x, task, noise=noise), network(x, task, noise=noise)
        assert_close(found[:, : expected.shape[1]], expected, rtol=1e-4, atol=1e-5)


@mark.parametrize("heads", HEADS)
def test_a_network_that_was_stacked_gets_its_own_form_back(heads: Heads) -> None:
    network = a_network(heads())
    modules, before = list(network.modules()), deepcopy(network.state_dict())
    form = StackedForm(network)
    assert list(network.modules()) != modules
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    doubled = form.own(network.state_dict())
    assert_close(form.stacked(doubled), network.state_dict())
    form.undo()
    assert list(network.modules()) == modules
    assert_close(network.state_dict(), doubled)
    learnt = dict(network.named_parameters())
    assert all(torch.equal(learnt[name], 2.0 * before[name]) for name in learnt)


def test_what_is_stacked_already_stays_so() -> None:
    network = a_network(linear_heads(3, 3))
    for layer in network.modular_layers:
        layer.stack_()
    expected = {name: value.clone() for name, value in network.state_dict().items()}
    StackedForm(network).undo()
    assert_close(network.state_dict(), expected)
