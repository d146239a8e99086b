"""What is charged for open gates, beside the loss.

Each function takes probabilities of gates to be open: a task's row ``[C]``, the layers side by
side (the authors' code), or all of them ``[T, C]`` (the paper's text).
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from .._checks import check_fraction, check_number, described, is_list_of


def expected_share(probabilities: Tensor, costs: Tensor | None = None) -> Tensor:
    """Returns the expected share of open gates, each counted once or by its cost ``[C]``."""
    _check_probabilities(probabilities)
    if costs is None:
        return probabilities.mean()
    if not isinstance(costs, Tensor) or not costs.ndim or costs.shape != probabilities.shape[-1:]:
        raise TypeError(
            f"`costs` should be a tensor of shape {list(probabilities.shape[-1:])}, one for each "
            f"component. Found {_found(costs)}."
        )
    return (probabilities @ (costs / costs.sum())).mean()


def budget_penalty(
    probabilities: Tensor,
    budget: float | Tensor,
    *,
    weight: float | Tensor = 1.0,
    costs: Tensor | None = None,
) -> Tensor:
    """Charges for the expected share of open gates above ``budget`` (paper, Section III-D).

    >>> budget_penalty(torch.tensor([0.9, 0.7]), 0.5, weight=2.0)
    tensor(0.6000)
    >>> budget_penalty(torch.tensor([0.3, 0.1]), 0.5)
    tensor(0.)
    >>> budget_penalty(torch.tensor([0.9, 0.1]), 0.5, costs=torch.tensor([3.0, 1.0]))
    tensor(0.2000)

    Args:
        probabilities: Of gates to be open, ``[C]`` of a task or ``[T, C]``.
        budget: The largest share that costs nothing, in (0, 1].
        weight: What a share of 1 above the budget would cost.
        costs: What each component costs, ``[C]``, such as its floating-point operations or its
            parameters. The share is then that of the costs in place of the number of gates: here
            the first gate counts three times as much. None counts every gate once.
    """
    if not isinstance(budget, Tensor):
        check_fraction("budget", budget)
    elif not budget.is_floating_point():
        raise TypeError(f"`budget` should be floating-point. Found {budget.dtype}.")
    weight = _factor("weight", weight)
    return weight * (expected_share(probabilities, costs) - budget).clamp_min(0.0)


def entropy_penalty(
    probabilities: Tensor,
    *,
    weight: float | Tensor = 1.0,
    progress: float | Tensor = 1.0,
    power: float = 1.0,
) -> Tensor:
    """Charges for undecided gates: ``weight * progress ** power * mean entropy``, in nats.

    ``progress`` goes from 0 to 1 over training, so that the charge grows (authors' code; that
    the entropy is a mean over gates is our choice, so that its weight means the same in a
    network of any size).

    >>> entropy_penalty(torch.tensor([0.5, 1.0]), weight=2.0)
    tensor(0.6932)

    Args:
        probabilities: Of gates to be open, ``[C]`` of a task or ``[T, C]``.
        weight: Of the penalty at the end of a training.
        progress: How much of the training is over, 0 to 1.
        power: How late the penalty sets in: the larger, the later.
    """
    _check_probabilities(probabilities)
    weight, progress = _factor("weight", weight), _factor("progress", progress)
    check_number("power", power)
    p = probabilities.clamp(1e-6, 1 - 1e-6)
    entropy = -(p * p.log() + (1 - p) * (1 - p).log())
    return weight * progress**power * entropy.mean()


def connection_penalty(
    probabilities: Tensor, *, weight: float | Tensor = 1.0, costs: Tensor | None = None
) -> Tensor:
    """Charges for every open gate: ``weight`` times the expected share, by ``costs`` if given.

    >>> connection_penalty(torch.tensor([0.9, 0.7]), weight=0.5)
    tensor(0.4000)

    Args:
        probabilities: Of gates to be open, ``[C]`` of a task or ``[T, C]``.
        weight: What it costs when all gates are open.
        costs: What each component costs, ``[C]``; None counts every gate once.
    """
    weight = _factor("weight", weight)
    return weight * expected_share(probabilities, costs)


def disconnect_penalty(
    probabilities: Tensor, layer_sizes: Sequence[int], *, weight: float | Tensor = 1.0
) -> Tensor:
    """Charges for the probability, in each layer, that no gate is open; summed over layers.

    >>> disconnect_penalty(torch.tensor([0.5, 0.5, 0.9]), layer_sizes=[2, 1])
    tensor(0.3500)

    Args:
        probabilities: Of gates to be open, ``[C]`` of a task or ``[T, C]``.
        layer_sizes: Number of components in each layer.
        weight: What it costs when a layer has surely no open gate.
    """
    _check_probabilities(probabilities)
    weight = _factor("weight", weight)
    n_components = probabilities.shape[-1] if probabilities.ndim else 0
    if not is_list_of(layer_sizes, int) or sum(layer_sizes) != n_components:
        raise ValueError(
            f"`layer_sizes` should be whole numbers that add up to {n_components} components. "
            f"Found {layer_sizes!r}."
        )
    # Gate by gate: the gradient of `prod` makes the host wait for the device.
    layers = (1 - probabilities).split(list(layer_sizes), dim=-1)
    shut = [reduce(torch.mul, layer.unbind(-1)) for layer in layers]
    return weight * torch.stack(shut).sum(dim=0).mean()


def _check_probabilities(probabilities: Tensor) -> None:
    is_real = isinstance(probabilities, Tensor) and probabilities.is_floating_point()
    if not is_real or 0 in probabilities.shape:
        raise TypeError(
            "`probabilities` should be a floating-point tensor of shape [C] or [T, C]. "
            f"Found {_found(probabilities)}."
        )


def _factor(name: str, value: float | Tensor) -> float | Tensor:
    """Returns a number that is not NaN, or a tensor; raises where ``value`` is neither."""
    if isinstance(value, Tensor):
        return value
    check_number(name, value)
    if not abs(value) < float("inf"):
        raise ValueError(f"`{name}` should be finite. Found `{name} = {value}`.")
    return float(value)


def _found(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else described(value)
