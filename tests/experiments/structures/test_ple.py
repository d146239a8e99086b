"""Progressive layered extraction: streams of tasks and a shared one."""

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import extract
from allotment.allocation import PLE, CrossStitch
from allotment.experiments import using
from allotment.experiments.structures import ple
from allotment.modules import ColumnLayer, MultiTaskNetwork
from allotment.modules._heads import HeadList
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    pairs_network,
    transfer_network,
)
from tests.experiments.structures.toy import assert_runs_train_together, put_together
from tests.training.toy import N_INPUTS

LAYERED = using(PLE)
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}


def gate(allocation: PLE, stream: int, x: Tensor, experts: list[Tensor], seen: list[int]) -> Tensor:
    """Returns what a stream's gate makes of the experts that it sees."""
    weight, bias = allocation.gate.weight[stream, seen], allocation.gate.bias[stream, seen]
    shares = (x @ weight.T + bias).softmax(-1)  # [B, E]
    return sum(shares[:, [at]] * experts[c] for at, c in enumerate(seen))  # type: ignore[return-value]


def test_the_outputs_are_those_of_experts_and_gates_level_by_level() -> None:
    network = put_together(ple, LAYERED)
    assert isinstance(network, MultiTaskNetwork) and isinstance(network.heads, HeadList)
    first, last = network.modular_layers
    gates = [first.allocation, last.allocation]
    assert network.layer_sizes == (4, 4)  # an own one of each of two tasks, and two shared
    x = torch.randn(5, N_INPUTS)
    base = network.stem(x)
    assert isinstance(gates[0], PLE) and isinstance(gates[1], PLE)
    seen = [[0, 2, 3], [1, 2, 3], [0, 1, 2, 3]]
    experts = [component(base) for component in first.components]
    streams = [gate(gates[0], s, base, experts, seen[s]) for s in range(3)]
    streams = [torch.relu(network.layers[1](stream)) for stream in streams]
    reads = [0, 1, 2, 2]
    experts = [c(streams[s]) for c, s in zip(last.components, reads, strict=True)]
    for task in range(2):
        own = gate(gates[1], task, streams[task], experts, seen[task])
        expected = network.heads[task](own)
        for training in (True, False):
            network.train(training)
            assert_close(network(x, task), expected)
            assert_close(network(x, torch.tensor(task)), expected)


def test_gradients_reach_what_a_task_sees_at_the_last_level_and_all_before() -> None:
    network = put_together(ple, LAYERED)
    network(torch.randn(5, N_INPUTS), 0).sum().backward()
    first, last = network.modular_layers

    def is_reached(module: nn.Module) -> bool:
        return any(p.grad is not None and p.grad.any() for p in module.parameters())

    assert all(map(is_reached, first.components))
    reached = list(map(is_reached, last.components))
    assert reached == [True, False, True, True]  # not the other task's own expert
    gradient = last.allocation.get_parameter("gate.weight").grad
    assert gradient is not None and gradient[0].any() and not gradient[1].any()


@mark.usefixtures("double")
def test_runs_train_together() -> None:
    assert_runs_train_together(ple, LAYERED)


@mark.parametrize(
    ("network", "shape", "sizes"),
    [
        (digits_network, (1, 8, 8), (8, 8)),
        (pairs_network, (128,), (8,)),
        (mnist_network, (1, 28, 28), (8, 8, 8)),
        (transfer_network, (128,), (20,)),  # two kinds: all four of each of five networks
        (clusters_network, None, (80,) * 3),
    ],
)
def test_networks_of_the_paper_are_put_together(
    network: object, shape: tuple[int, ...] | None, sizes: tuple[int, ...]
) -> None:
    made = put_together(ple, LAYERED, network=network, outputs=FOUR)
    assert made.layer_sizes == sizes
    assert_close(made.matrix().sum(1), torch.full((4,), float(len(sizes))))
    if shape is not None:
        n_outputs = 1 if network is pairs_network else 3
        assert made(torch.randn(2, *shape), "b").shape == (2, n_outputs)


def test_components_that_differ_are_all_a_task_s_own() -> None:
    made = put_together(ple, LAYERED, network=transfer_network, outputs={"a": 1, "b": 1})
    (layer,) = made.modular_layers
    assert isinstance(layer.allocation, PLE)
    assert layer.allocation.reads == [0] * 4 + [1] * 4 + [2] * 4
    assert layer.kinds == ["shallow", "deep"] * 6


def test_three_tasks_have_the_components_of_one_network_where_they_are_enough() -> None:
    three = {"a": 1, "b": 1, "c": 1}
    made = put_together(ple, LAYERED, network=digits_network, outputs=three)
    assert made.layer_sizes == (4, 4)
    last = made.modular_layers[1]
    assert isinstance(last, ColumnLayer) and last.reads == [0, 1, 2, 3]


def test_another_allocation_is_refused() -> None:
    with raises(TypeError, match=r"should be a PLE\. Found CrossStitch"):
        put_together(ple, using(CrossStitch))


def test_a_task_is_not_extracted() -> None:
    with raises(ValueError, match="Found a ColumnLayer"):
        extract(put_together(ple, LAYERED), 0)
