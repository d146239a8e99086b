"""On which parameters L2 lies."""

from collections.abc import Callable
from dataclasses import replace

import torch
from pytest import mark, param
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import Run
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    lines,
    picture_network,
    pictures,
    weights_of,
)


def zero(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs * 0.0).sum()


class Attending(nn.Module):
    """A component with torch's own attention, whose biases have other names."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(N_INPUTS, 2, batch_first=True)
        nn.init.ones_(self.attention.in_proj_bias)
        nn.init.ones_(self.attention.out_proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(1)
        y: Tensor = self.attention(x, x, x, need_weights=False)[0].squeeze(1)[:, :4]
        return y


def moved_by_decay(make: Callable[[], nn.Module]) -> set[str]:
    """Returns the names of the parameters that move when L2 is all there is."""
    heads = [nn.Linear(4, 1), nn.Linear(4, 1)]
    return moved_by_decay_in(a_network(GumbelMatrix(2, 3), heads, make=make), lines())


def moved_by_decay_in(network: MultiTaskNetwork, tasks: list[Task]) -> set[str]:
    for parameter in network.parameters():
        if not (parameter != 0).all():
            nn.init.constant_(parameter, 0.5)  # L2 is seen only on what is not zero
    settings = SETTINGS.changed(rounds=1, weight_decay=0.1)
    run = Run(network, [replace(task, loss=zero) for task in tasks], 0, settings)
    before = {name: p.detach().clone() for name, p in run.network.named_parameters()}
    after = weights_of(run)
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


def test_l2_is_on_weights_and_normalisation_and_not_on_biases_and_logits() -> None:
    moved = moved_by_decay(lambda: nn.Sequential(nn.Linear(N_INPUTS, 4), nn.GroupNorm(2, 4)))
    components = [f"layers.0.components.{c}." for c in range(3)]
    expected = {f"{c}{name}" for c in components for name in ("0.weight", "1.weight", "1.bias")}
    assert moved == expected | {"heads.0.weight", "heads.1.weight"}


def test_l2_is_on_kernels_norms_and_heads_of_a_picture_network() -> None:
    network = picture_network(3, 3)
    moved = moved_by_decay_in(network, pictures(3, 3))
    biases = {"conv.bias", "heads.0.bias", "heads.1.bias", "layers.0.components.5.bias"}
    names = dict(network.named_parameters())
    untouched = {name for name in names if name.endswith(("logits", *biases))}
    assert moved == names.keys() - untouched
    assert {"stem.conv.weight", "stem.norm.weight", "stem.norm.bias", "layers.1.bias"} <= moved


@mark.parametrize(
    "make",
    [
        param(lambda: nn.Sequential(nn.Linear(N_INPUTS, 4), nn.LayerNorm(4)), id="layer norm"),
        param(lambda: nn.Sequential(nn.Linear(N_INPUTS, 4), nn.BatchNorm1d(4)), id="batch norm"),
    ],
)
def test_l2_is_on_the_shift_of_any_normalisation(make: Callable[[], nn.Module]) -> None:
    moved = moved_by_decay(make)
    assert "layers.0.components.2.1.bias" in moved
    assert "layers.0.components.2.0.bias" not in moved


@mark.filterwarnings("ignore:There is a performance drop")  # torch's, on batched attention
def test_l2_is_not_on_the_biases_of_attention() -> None:
    moved = moved_by_decay(Attending)
    assert "layers.0.components.0.attention.in_proj_weight" in moved
    assert not {name for name in moved if "bias" in name}


def test_l2_is_coupled() -> None:
    # Alone, coupled L2 is a gradient, which Adam brings to the learning rate whatever its size;
    # decoupled decay would take off a share of each weight.
    tasks = [replace(task, loss=zero) for task in lines()]
    run = a_run(settings=SETTINGS.changed(rounds=1, weight_decay=0.1), tasks=tasks)
    name = "layers.0.components.0.0.weight"
    before = run.network.state_dict()[name].clone()
    moved = (before - weights_of(run)[name]) * before.sign()
    moved = moved[before.abs() > 0.1]  # smaller ones change their sign on the way
    assert len(moved) > 10
    assert_close(
        moved, torch.full_like(moved, 2 * SETTINGS.optimization.learning_rate), rtol=0.01, atol=0
    )
