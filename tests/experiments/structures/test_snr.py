"""Sub-network routing: components that read sums over drawn connections."""

import torch
from pytest import mark, param
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import SNR
from allotment.experiments import using
from allotment.experiments._methods import Structure
from allotment.experiments.structures import snr_aver, snr_trans
from allotment.modules import ColumnLayer, MultiTaskNetwork, Noise
from allotment.modules._heads import HeadList
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
)
from tests.experiments.structures.toy import assert_runs_train_together, put_together
from tests.training.toy import N_INPUTS

ROUTED = using(SNR, p_init=0.8)
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}
STRUCTURES = [param(snr_trans, id="trans"), param(snr_aver, id="aver")]


def plainly(network: MultiTaskNetwork, x: Tensor, task: int, z: Tensor) -> Tensor:
    """Returns the outputs for variables ``z``: four of the first layer, two of the last."""
    first, last = network.modular_layers
    assert isinstance(first, ColumnLayer) and isinstance(last, ColumnLayer)

    def through(layer: ColumnLayer, at: int, c: int, y: Tensor) -> Tensor:
        return y if layer.maps is None else y @ layer.maps[at, c].T

    y = [component(network.stem(x)) for component in first.components]
    sums = []
    for s in range(2):
        u = sum(z[2 * s + c] * through(first, s, c, y[c]) for c in range(2))
        sums.append(torch.relu(network.layers[1](u)))
    y = [component(u) for component, u in zip(last.components, sums, strict=True)]
    assert isinstance(network.heads, HeadList)
    output: Tensor = network.heads[task](
        sum(z[4 + c] * through(last, task, c, y[c]) for c in range(2))
    )
    return output


@mark.parametrize("structure", STRUCTURES)
def test_the_outputs_are_those_of_sums_over_connections(structure: Structure) -> None:
    network = put_together(structure, ROUTED)
    assert isinstance(network, MultiTaskNetwork)
    for layer in network.modular_layers:
        if getattr(layer, "maps", None) is not None:
            torch.nn.init.normal_(layer.get_parameter("maps"))
    x, noise = torch.randn(5, N_INPUTS), torch.rand(6)
    first, last = (layer.allocation for layer in network.modular_layers)
    for task in range(2):
        z = torch.cat(
            [
                first.stream_weights([], noise=noise[:4]).flatten(),  # type: ignore[operator]
                last.weights(task, noise=noise[4:]),
            ]
        )
        expected = plainly(network, x, task, z)
        assert_close(network(x, task, noise=Noise(gates=noise)), expected)
        assert_close(network(x, torch.tensor(task), noise=Noise(gates=noise)), expected)


def test_maps_stand_on_all_connections_of_one_and_on_none_of_the_other() -> None:
    trans, aver = (put_together(structure, ROUTED) for structure in (snr_trans, snr_aver))
    sizes = [tuple(layer.get_parameter("maps").shape) for layer in trans.modular_layers]
    assert sizes == [(2, 2, 4, 4), (2, 2, 4, 4)]
    assert not any("maps" in name for name, _ in aver.named_parameters())


@mark.parametrize("structure", STRUCTURES)
def test_gradients_reach_components_maps_and_variables(structure: Structure) -> None:
    network = put_together(structure, ROUTED)
    noise = torch.full((6,), 0.3)  # no variable is cut at an end
    network(torch.randn(5, N_INPUTS), 0, noise=Noise(gates=noise)).sum().backward()
    for name, parameter in network.named_parameters():
        if not name.startswith("heads.1"):
            assert parameter.grad is not None and parameter.grad.any(), name
    gradient = network.modular_layers[1].allocation.get_parameter("log_alpha").grad
    assert gradient is not None and gradient[0].all() and not gradient[1].any()


@mark.usefixtures("double")
@mark.parametrize("structure", STRUCTURES)
def test_runs_train_together(structure: Structure) -> None:
    assert_runs_train_together(structure, using(SNR, p_init=0.8, l0_weight=0.01))


@mark.parametrize("structure", STRUCTURES)
@mark.parametrize(
    ("network", "shape", "sizes"),
    [
        (digits_network, (1, 8, 8), (4, 4)),
        (pairs_network, (128,), (4,)),
        (mnist_network, (1, 28, 28), (4, 4, 4)),
        (clusters_network, (3, 32, 32), (16, 16, 16)),
        (omniglot_network, None, (7,) * 8),
    ],
)
def test_networks_of_the_paper_are_put_together(
    structure: Structure, network: object, shape: tuple[int, ...] | None, sizes: tuple[int, ...]
) -> None:
    made = put_together(structure, ROUTED, network=network, outputs=FOUR)
    assert made.layer_sizes == sizes
    assert made.matrix().shape == (4, sum(sizes))
    if shape is not None:
        n_outputs = 1 if network is pairs_network else 3
        assert made(torch.randn(2, *shape), "b").shape == (2, n_outputs)
