"""The mathematics of the loss balancings that come with the library."""

from collections.abc import Callable
from functools import partial

import torch
from pytest import mark, raises
from torch import Tensor, tensor
from torch.testing import assert_close

from allotment.settings import DynamicWeightAverage, LossBalancing, UncertaintyWeighting

CPU = torch.device("cpu")
ALL = torch.tensor([[0, 1]])


def step(balancing: LossBalancing, *losses: float, tasks: Tensor = ALL) -> Tensor:
    """Returns the weights of one run's losses in a step."""
    return balancing.weights(tensor([losses]), tasks)[0]


def started(balancing: LossBalancing) -> LossBalancing:
    balancing.start(1, 2, CPU)
    return balancing


def test_uncertainties_descend_on_their_loss() -> None:
    balancing = UncertaintyWeighting(learning_rate=0.1)
    balancing.start(1, 2, CPU)
    s = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([s], lr=0.1)
    for losses in ([0.5, 1.5], [0.4, 1.2], [0.3, 1.1]):
        assert_close(step(balancing, *losses), torch.exp(-s).detach())
        optimizer.zero_grad()
        (torch.exp(-s) * tensor(losses) + s).sum().backward()
        optimizer.step()
    assert_close(balancing.log_variances[0], s.detach())


def test_an_uncertain_task_gets_the_inverse_of_its_loss_as_weight() -> None:
    balancing = started(UncertaintyWeighting(learning_rate=0.1))
    for _ in range(300):
        weights = step(balancing, 4.0, 0.25)
    assert_close(weights, tensor([0.25, 4.0]), rtol=0, atol=1e-3)


def test_one_large_loss_moves_an_uncertainty_by_one_step() -> None:
    balancing = started(UncertaintyWeighting(learning_rate=0.1))
    step(balancing, 1e6, 1.0)
    assert_close(step(balancing, 1.0, 1.0), tensor([-0.1, 0.0]).exp())


def test_a_task_that_is_not_in_the_step_keeps_its_uncertainty() -> None:
    balancing = UncertaintyWeighting(learning_rate=0.1)
    balancing.start(1, 2, CPU)
    step(balancing, 2.0, tasks=tensor([[1]]))
    assert_close(balancing.log_variances, tensor([[0.0, 0.1]]))


@mark.parametrize("is_joint", [True, False])
def test_weights_average_dynamically_as_published(is_joint: bool) -> None:
    balancing = started(DynamicWeightAverage(n_batches=2, temperature=2.0))
    epochs = [[(4.0, 1.0), (2.0, 1.0)], [(1.0, 1.0), (2.0, 0.6)], [(1.0, 0.5), (0.5, 0.3)]]
    means = [torch.tensor(epoch).mean(dim=0) for epoch in epochs]
    ratios = [torch.ones(2), torch.ones(2), means[1] / means[0], means[2] / means[1]]
    expected = [2 * torch.softmax(ratio / 2.0, dim=0) for ratio in ratios]
    for epoch, weights in zip([*epochs, epochs[0]], expected, strict=True):
        for losses in epoch:
            if is_joint:
                found = step(balancing, *losses)
            else:
                alone = [step(balancing, losses[i], tasks=tensor([[i]])) for i in (0, 1)]
                found = torch.cat(alone)
            assert_close(found, weights)


@mark.parametrize("make", [UncertaintyWeighting, partial(DynamicWeightAverage, n_batches=1)])
def test_runs_are_balanced_apart(make: Callable[[], LossBalancing]) -> None:
    together, alone = make(), [started(make()), started(make())]
    together.start(2, 2, CPU)
    for scale in (1.0, 0.5, 0.1):
        losses = tensor([[1.0, scale], [scale, 3.0]])
        apart = [each.weights(row[None], ALL) for each, row in zip(alone, losses, strict=True)]
        assert_close(together.weights(losses, ALL.expand(2, 2)), torch.cat(apart))


def test_their_numbers_are_checked() -> None:
    with raises(ValueError, match=r"`learning_rate` should be above 0"):
        UncertaintyWeighting(learning_rate=0.0)
    with raises(ValueError, match=r"`n_batches` should be at least 1"):
        DynamicWeightAverage(n_batches=0)
    with raises(ValueError, match=r"`temperature` should be above 0"):
        DynamicWeightAverage(temperature=0.0)
