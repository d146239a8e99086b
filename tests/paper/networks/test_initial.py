"""The starting values of weights."""

import torch
from pytest import mark, param
from torch import nn

from allotment.paper.networks import glorot_


@mark.parametrize(
    ("module", "fan_in", "fan_out"),
    [
        param(nn.Linear(300, 200), 300, 200, id="linear"),
        param(nn.Conv2d(30, 40, 5), 30 * 25, 40 * 25, id="conv"),
    ],
)
def test_kernels_are_uniform_between_glorots_bounds(
    module: nn.Linear | nn.Conv2d, fan_in: int, fan_out: int
) -> None:
    glorot_(module)
    bound = (6 / (fan_in + fan_out)) ** 0.5
    weight = module.weight.detach().flatten()
    n = len(weight)
    assert weight.abs().max() <= bound
    standard_error = bound / (3 * n) ** 0.5  # of the mean of n uniform numbers
    assert abs(weight.mean().item()) < 4 * standard_error
    of_variance = bound**2 / 3 * (0.8 / n) ** 0.5  # kurtosis of the uniform distribution: 1.8
    assert abs(weight.var().item() - bound**2 / 3) < 4 * of_variance


def test_biases_start_at_zero_in_every_part() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Conv2d(3, 4, 3)))
    assert glorot_(network) is network
    biases = [p for name, p in network.named_parameters() if name.endswith("bias")]
    assert len(biases) == 2
    assert all((bias == 0).all() for bias in biases)


def test_modules_without_biases_and_normalisations_are_left() -> None:
    norm = nn.GroupNorm(2, 4)
    glorot_(nn.Sequential(nn.Linear(3, 4, bias=False), norm))
    assert (norm.weight == 1).all()


def test_starting_values_follow_torchs_seed() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append(glorot_(nn.Linear(3, 4)).state_dict()["weight"])
    assert torch.equal(*drawn)
