"""The parameters of several runs as flat tensors: their layout, groups, and way back."""

from collections.abc import Callable

import torch
from pytest import mark
from torch import nn

from allotment._engine._parameters import FlatParameters
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from tests.training.toy import N_INPUTS, a_network, picture_network

CPU = torch.device("cpu")


def of_pictures() -> MultiTaskNetwork:
    return picture_network(3, 2)


def of_few_channels() -> MultiTaskNetwork:
    return MultiTaskNetwork(nn.Conv2d(1, 4, 3), list(picture_network(2, 2).layers))


def of_vectors() -> MultiTaskNetwork:
    return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 1), nn.Linear(4, 3)])


NETWORKS = [of_pictures, of_few_channels, of_vectors]


@mark.parametrize("build", NETWORKS)
def test_weights_come_back_as_they_were(build: Callable[[], MultiTaskNetwork]) -> None:
    networks = [build() for _ in range(3)]
    parameters = FlatParameters(networks, CPU)
    for run, network in enumerate(networks):
        expected, found = network.state_dict(), parameters.state_dict(run)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert torch.equal(found[name], value), name
            assert found[name].is_contiguous(), name


def test_weights_that_came_back_are_copies() -> None:
    parameters = FlatParameters([of_pictures()], CPU)
    before = parameters.state_dict(0)
    with torch.no_grad():
        for flat in parameters.flat.values():
            flat += 1.0
    after = parameters.state_dict(0)
    assert all(
        (after[name] != value).all() for name, value in before.items() if "n_batches" not in name
    )


@mark.parametrize("build", NETWORKS)
def test_a_runs_own_state_is_its_row_of_the_state_of_all(
    build: Callable[[], MultiTaskNetwork],
) -> None:
    for n_runs in (1, 3):
        parameters = FlatParameters([build() for _ in range(n_runs)], CPU)
        together, apart = parameters.state("network."), parameters.states("network.")
        assert len(apart) == n_runs
        for run, own in enumerate(apart):
            assert own.keys() == together.keys()
            assert all(torch.equal(own[name], value[run]) for name, value in together.items())


def test_kernels_of_many_channels_lie_with_their_channels_last() -> None:
    parameters = FlatParameters([of_pictures() for _ in range(2)], CPU).parameters()
    lone = parameters["layers.0.components.0.0.conv.weight"]  # [R, O, I, h, w]
    stacked = parameters["layers.0.components.1.conv.weight"]  # [R, C, O, I, h, w]
    assert lone.shape == (2, 8, 8, 3, 3) and stacked.shape == (2, 2, 8, 8, 1, 3)
    assert lone[0].is_contiguous(memory_format=torch.channels_last)
    for kernel in stacked[0]:
        assert kernel.is_contiguous(memory_format=torch.channels_last)
    assert parameters["stem.conv.weight"][0].is_contiguous()  # one channel goes in


def test_parameters_are_views_through_which_a_gradient_reaches_the_flat_tensors() -> None:
    parameters = FlatParameters([of_pictures() for _ in range(2)], CPU)
    for states in ([parameters.state()], parameters.states()):
        total = sum(value.sum() for state in states for value in state.values())
        assert isinstance(total, torch.Tensor)
        learnt = [flat for _, flat in parameters.learnt()]
        for gradient in torch.autograd.grad(total, learnt):
            assert torch.equal(gradient, torch.ones_like(gradient))


def test_norms_and_heads_are_scales_and_kernels_weights() -> None:
    parameters = FlatParameters([of_pictures()], CPU)
    modules, names = parameters.network.named_modules(), parameters.names
    norms = {path for path, module in modules if isinstance(module, nn.GroupNorm)}
    assert {"stem.norm", "layers.1", "layers.2.components.0.1.norm"} <= norms
    scales = {f"{path}.{leaf}" for path in norms for leaf in ("weight", "bias")}
    assert set(names["scales"]) == scales | {"heads.weight"}
    assert all(name.endswith("conv.weight") or "components" in name for name in names["weights"])
    assert all(name.endswith("bias") for name in names["biases"])
    assert names["allocation"] == [f"layers.{n}.allocation.logits" for n in (0, 2)]


def test_what_stands_in_for_the_flat_tensors_is_what_is_seen() -> None:
    parameters = FlatParameters([of_vectors() for _ in range(2)], CPU)
    zeros = [torch.zeros_like(flat) for _, flat in parameters.learnt()]
    assert not any(value.any() for value in parameters.parameters(zeros).values())
    assert parameters.parameters()["layers.0.components.0.0.weight"].shape == (2, 3, 5, N_INPUTS)
    assert any(value.any() for value in parameters.parameters().values())
