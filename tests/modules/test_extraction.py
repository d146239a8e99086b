"""A task's own network: its outputs, and nothing that it does not use."""

from collections.abc import Callable

import torch
from pytest import mark, param, raises
from torch import Tensor, nn

from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel, MultiTaskNetwork, extract
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
    transfer_network,
)
from tests.allocation.made_up import ByExample

Allocate = Callable[..., Allocation]

N_TASKS = 3
OUTPUTS = {"a": 2, "b": 5, "c": 3}
NETWORKS = {
    transfer_network: (128,),
    pairs_network: (128,),
    digits_network: (1, 8, 8),
    mnist_network: (1, 28, 28),
    clusters_network: (3, 32, 32),
    omniglot_network: (1, 105, 105),
}
FORMS = [param(build, shape, id=build.__name__) for build, shape in NETWORKS.items()]


def learnt(n_components: int, **offered: int) -> GumbelMatrix:
    """Returns gates of which each task has others open."""
    matrix = GumbelMatrix(N_TASKS, n_components)
    matrix.logits.data.normal_()
    return matrix


ALLOCATIONS: list[object] = [
    param(learnt, id="learnt"),
    param(lambda n: SharedBottom(N_TASKS, n), id="sum"),
    param(lambda n: SharedBottom(N_TASKS, n, reduce="mean"), id="mean"),
    param(lambda n: NoSharing(N_TASKS, n), id="apart"),
    param(lambda n: FixedMatrix(torch.eye(N_TASKS, n)), id="one each"),
]


def a_network(allocate: Allocate = learnt, n_components: int = 4) -> MultiTaskNetwork:
    """Returns two layers of linear components and heads of different widths."""
    layers = [
        ModularLayer([nn.Linear(6, 6) for _ in range(n_components)], allocate(n_components))
        for _ in range(2)
    ]
    heads = {name: nn.Linear(6, n) for name, n in OUTPUTS.items()}
    return MultiTaskNetwork(nn.Linear(6, 6), [layers[0], nn.ReLU(), layers[1]], heads, dropout=0.5)


def outputs(network: MultiTaskNetwork, x: Tensor, task: int | str) -> Tensor:
    was_training = network.training
    with torch.no_grad():
        y: Tensor = network.eval()(x, task)
    network.train(was_training)
    return y


@mark.parametrize(("build", "shape"), FORMS)
def test_it_has_the_outputs_of_the_network_to_the_last_bit(
    build: Callable[[Allocate, dict[str, int]], MultiTaskNetwork], shape: tuple[int, ...]
) -> None:
    network, x = build(learnt, OUTPUTS), torch.randn(2, *shape)
    for index, name in enumerate(OUTPUTS):
        with torch.no_grad():
            assert torch.equal(extract(network, name)(x), outputs(network, x, index))


@mark.parametrize("allocate", ALLOCATIONS)
def test_every_way_of_sharing(allocate: Allocate) -> None:
    network, x = a_network(allocate, n_components=6), torch.randn(4, 6)
    for index, name in enumerate(OUTPUTS):
        own = extract(network, index)
        assert torch.equal(own(x), outputs(network, x, name))
        assert not any(isinstance(module, Allocation) for module in own.modules())


def test_it_holds_what_the_task_uses_and_nothing_else() -> None:
    network = a_network(lambda n: FixedMatrix(torch.tensor([[1, 0, 0, 0], [1, 0, 1, 1], [0] * 4])))
    of_a_linear = 6 * 6 + 6
    counts = [sum(p.numel() for p in extract(network, task).parameters()) for task in (0, 1)]
    heads = [(6 + 1) * n for n in OUTPUTS.values()]
    assert counts == [(1 + 2) * of_a_linear + heads[0], (1 + 6) * of_a_linear + heads[1]]
    names = [name for name, _ in extract(network, 0).named_children()]
    assert names == ["stem", "layer_0", "layer_1", "layer_2", "head"]


def test_a_task_that_uses_nothing_gets_zeros() -> None:
    network, x = a_network(lambda n: FixedMatrix(torch.zeros(N_TASKS, n))), torch.randn(4, 6)
    own = extract(network, "b")
    assert torch.equal(own(x), outputs(network, x, "b"))
    assert torch.equal(own(x), own(2 * x))


def test_the_network_stays_as_it_is() -> None:
    network = a_network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own = extract(network, "a")
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())
    assert all(module.training for module in network.modules())
    assert not any(module.training for module in own.modules())


def test_what_stands_in_two_places_stays_one() -> None:
    twice = nn.Linear(6, 6)
    layers = [ModularLayer([twice, nn.Linear(6, 6)], SharedBottom(1, 2)) for _ in range(2)]
    own = extract(MultiTaskNetwork(None, layers, [nn.Linear(6, 1)]), 0)
    assert len(list(own.parameters())) == 2 * (1 + 2 + 1)


def test_it_can_be_trained_further() -> None:
    own = extract(a_network(), "c").train()
    own(torch.randn(4, 6)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in own.parameters())


@mark.parametrize(
    "allocate", [param(learnt, id="some"), param(lambda n, **_: SharedBottom(3, n), id="all")]
)
def test_it_goes_through_torch_export(allocate: Allocate) -> None:
    own, x = extract(digits_network(allocate, OUTPUTS), "b"), torch.randn(4, 1, 8, 8)
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(own, (x,), dynamic_shapes=({0: batch},))
    more = torch.randn(9, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(exported.module()(more), own(more))


DRAWN_ANEW = (
    "`network` should have allocations that are the same in every evaluation. "
    "Found GumbelMatrix, which is drawn anew each time."
)
BY_EXAMPLE = (
    "`network` should have allocations that do not look at examples: only then does a task have a "
    "part of its own. Found ByExample, whose weights differ from example to example."
)


@mark.parametrize(
    ("allocate", "sentence"),
    [
        (lambda n: GumbelMatrix(N_TASKS, n, evaluation="sampled"), DRAWN_ANEW),
        (lambda n: ByExample(N_TASKS, n, 6), BY_EXAMPLE),
    ],
)
def test_tasks_without_a_part_of_their_own_are_refused(allocate: Allocate, sentence: str) -> None:
    for network in (
        a_network(allocate),
        MultiTaskModel(nn.Sequential(*a_network(allocate).layers)),
    ):
        with raises(ValueError) as refusal:
            extract(network, 0)
        assert str(refusal.value) == sentence


def test_what_is_no_network_or_no_task_is_named() -> None:
    with raises(ValueError, match=r"should hold at least one ModularLayer. Found none"):
        extract(nn.Linear(2, 2), 0)
    with raises(ValueError, match=r"should be one of \['a', 'b', 'c'\]. Found 'd'"):
        extract(a_network(), "d")
    with raises(ValueError, match=r"should be in 0 to 2. Found 3"):
        extract(a_network(), 3)
