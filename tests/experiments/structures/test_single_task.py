"""A whole network for each task: the same as networks of their own."""

from dataclasses import replace

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import extract
from allotment.allocation import FixedMatrix, GumbelMatrix, NoSharing, SharedBottom
from allotment.experiments import using
from allotment.experiments._methods import AllocationSpec
from allotment.experiments.structures import single_task
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks import digits_network, omniglot_network, pairs_network
from allotment.tasks import Split, Task
from tests.experiments.structures.toy import (
    OUTPUTS,
    a_run,
    assert_runs_train_together,
    put_together,
    small_network,
)
from tests.training.toy import N_INPUTS, classes, weights_of

OWN = using(NoSharing)
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}


def mean(n_components: int, **facts: object) -> SharedBottom:
    return SharedBottom(len(OUTPUTS), n_components, reduce="mean")


def networks_of_their_own(outputs: dict[str, int]) -> list[MultiTaskNetwork]:
    """Returns the networks that single tasks are made of, in the order they are built in."""
    return [small_network(mean, outputs) for _ in outputs]


def test_each_task_has_the_outputs_of_a_network_of_its_own() -> None:
    torch.manual_seed(3)
    own = networks_of_their_own(OUTPUTS)
    torch.manual_seed(3)
    network = put_together(single_task, OWN)
    x = torch.randn(5, N_INPUTS)
    for training in (True, False):
        network.train(training)
        for task, alone in enumerate(own):
            assert_close(network(x, task), alone(x, task))
            assert_close(network(x, torch.tensor(task)), alone(x, task))


def test_gradients_reach_the_own_network_and_no_other() -> None:
    network = put_together(single_task, OWN)
    network(torch.randn(5, N_INPUTS), 1).square().sum().backward()
    for name, parameter in network.named_parameters():
        parts = name.split(".")
        if "components" in parts:
            layer = network.get_submodule(".".join(parts[: parts.index("components")]))
            assert isinstance(layer, ModularLayer)
            position = int(parts[parts.index("components") + 1])
            is_own = position >= len(layer.components) // 2
        else:
            is_own = parts[:2] == ["heads", "1"]
        reached = parameter.grad is not None and bool(parameter.grad.any())
        assert reached == is_own, name


def with_other_targets(task: Task) -> Task:
    assert isinstance(task.train, Split)
    return replace(task, train=replace(task.train, targets=task.train.targets.flip(0)))


def test_the_data_of_another_task_changes_nothing() -> None:
    first, second = classes(3, 3)
    ends = [
        weights_of(a_run(single_task, OWN, tasks=tasks))
        for tasks in ([first, second], [first, with_other_targets(second)])
    ]
    network = a_run(single_task, OWN).network

    def of_second(name: str) -> bool:
        layer, _, rest = name.partition(".components.")
        if not rest:
            return name.startswith("heads.1")
        n_own = len(network.get_submodule(layer).components) // 2  # type: ignore[arg-type]
        return int(rest.split(".")[0]) >= n_own

    learnt = [name for name, _ in network.named_parameters()]
    for name in learnt:
        assert torch.equal(ends[0][name], ends[1][name]) != of_second(name), name


@mark.usefixtures("double")
def test_runs_train_together() -> None:
    assert_runs_train_together(single_task, OWN)


@mark.parametrize(
    ("network", "shape", "sizes"),
    [
        (digits_network, (2, 1, 8, 8), (16, 16)),
        (pairs_network, (2, 128), (16,)),
        (omniglot_network, (2, 1, 105, 105), (4, *(28, 4) * 8)),  # stem and norms too
    ],
)
def test_networks_of_the_paper_are_put_together(
    network: object, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    made = put_together(single_task, OWN, network=network, outputs=FOUR)
    assert made.layer_sizes == sizes
    assert torch.equal(made.matrix().sum(1), torch.full((4,), sum(sizes) / 4))
    assert len(made.component_names) == len(made.component_kinds) == sum(sizes)
    if network is not omniglot_network:
        width = 3 if network is digits_network else 1
        assert made(torch.randn(shape), "b").shape == (2, width)
        assert made.eval()(torch.randn(shape), torch.tensor(1)).shape == (2, width)


def test_a_task_is_extracted_as_a_network_without_the_others() -> None:
    network = put_together(single_task, OWN).eval()
    x = torch.randn(5, N_INPUTS)
    alone = extract(network, 1)
    assert_close(alone(x), network(x, 1), rtol=0, atol=0)
    body = [p for n, p in small_network(mean, OUTPUTS).named_parameters() if "heads.0" not in n]
    assert sum(p.numel() for p in alone.parameters()) == sum(p.numel() for p in body)


def alike(n_tasks: int, n_components: int) -> FixedMatrix:
    return FixedMatrix([[1] * n_components] * n_tasks)


@mark.parametrize(
    ("spec", "found"), [(using(GumbelMatrix), "GumbelMatrix"), (using(alike), "FixedMatrix")]
)
def test_an_allocation_that_shares_is_refused(spec: AllocationSpec, found: str) -> None:
    with raises(ValueError, match=rf"should give each task its own components, .* Found {found}"):
        put_together(single_task, spec)


class OfOnesOwn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_other_networks_than_layers_in_a_row_are_refused() -> None:
    with raises(TypeError, match=r"should build a MultiTaskNetwork .* Found an OfOnesOwn"):
        put_together(single_task, OWN, network=lambda *_: OfOnesOwn())

    def nested(allocate: object, outputs: dict[str, int]) -> MultiTaskNetwork:
        layer = ModularLayer([nn.Linear(2, 2)], allocate(1))  # type: ignore[operator]
        return MultiTaskNetwork(None, [nn.Sequential(layer)], task_names=list(outputs))

    with raises(ValueError, match=r"one after another .* Found one inside another module"):
        put_together(single_task, OWN, network=nested)
