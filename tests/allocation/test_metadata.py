"""Gates as a function of what is known about a task."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import numpy as np
import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment import fit
from allotment.allocation import Allocation, Annealing, GumbelMatrix, MetadataMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks import glorot_
from allotment.tasks import Task
from tests.allocation.ways import (
    PLAIN,
    assert_every_parameter_moves,
    assert_runs_train_together,
    both_schedules,
)
from tests.training.toy import SETTINGS, a_network, a_run, outcomes_of

FEATURES = [[1.0, 0.5, -1.0], [0.2, -0.7, 0.4]]


def a_matrix(hidden: int | None = None) -> MetadataMatrix:
    """Returns gates of two tasks, with weights that are not zero."""
    matrix = MetadataMatrix(2, 4, features=FEATURES, hidden=hidden)
    with torch.no_grad():
        for parameter in matrix.parameters():
            parameter.normal_()
    return matrix


def metadata_network() -> MultiTaskNetwork:
    return a_network(MetadataMatrix(2, 3, features=FEATURES))


def metadata_network_with_a_hidden_layer() -> MultiTaskNetwork:
    return a_network(MetadataMatrix(2, 3, features=FEATURES, hidden=5))


def test_probabilities_are_those_of_a_linear_function_of_the_features() -> None:
    features = [[1.0, 2.0], [0.0, -1.0]]
    matrix = MetadataMatrix(2, 1, features=features, p_init=0.75, keeps_one=False)
    with torch.no_grad():
        matrix.weight[:, 0] = torch.tensor([[0.5, 0.0], [1.0, -1.0]])
    prior = torch.tensor(3.0).log()  # of 0.75
    advantages = torch.stack([prior + 0.5 + 4.0, prior - 2.0])
    assert_close(matrix.probabilities()[:, 0].detach(), torch.sigmoid(advantages))
    assert_close(matrix.matrix()[:, 0], torch.tensor([1.0, 0.0]))


def test_a_hidden_layer_is_a_tanh_of_the_features() -> None:
    matrix = a_matrix(hidden=5).double()
    assert matrix.inner is not None and matrix.inner_bias is not None
    inner = torch.tanh(matrix.features @ matrix.inner + matrix.inner_bias)
    logits = torch.einsum("th,hcg->tcg", inner, matrix.weight) + matrix.bias
    assert_close(matrix.probabilities(), logits.softmax(dim=-1)[..., 0])


@mark.parametrize("hidden", [None, 5])
def test_every_task_starts_at_p_init(hidden: int | None) -> None:
    matrix = MetadataMatrix(2, 4, features=FEATURES, hidden=hidden, p_init=0.3)
    assert_close(matrix.probabilities().detach(), torch.full((2, 4), 0.3))
    assert_close(matrix.row_for(torch.randn(3)), torch.full((4,), 0.3))
    with torch.no_grad():
        assert_close(glorot_(matrix).probabilities(), torch.full((2, 4), 0.3))


@mark.parametrize("hidden", [None, 5])
def test_an_unseen_task_with_the_features_of_a_seen_one_gets_its_row(hidden: int | None) -> None:
    matrix = a_matrix(hidden)
    for task in range(2):
        assert_close(matrix.row_for(FEATURES[task]), matrix.probabilities(task).detach())
    assert_close(matrix.row_for(np.array(FEATURES)), matrix.probabilities().detach())
    between = (torch.tensor(FEATURES[0]) + torch.tensor(FEATURES[1])) / 2
    assert not matrix.row_for(between).requires_grad
    if hidden is None:  # the logits of a mean are the mean of the logits
        logits = torch.logit(matrix.probabilities().detach()).mean(dim=0)
        assert_close(torch.logit(matrix.row_for(between)), logits)


@mark.usefixtures("double")
@both_schedules
def test_with_one_feature_a_task_it_learns_as_a_gumbel_matrix(schedule: str) -> None:
    def built(allocation: Allocation) -> Any:
        return lambda: a_network(allocation)

    settings = PLAIN.changed(schedule=schedule, budget=0.3, rounds=20)
    one_hot = torch.eye(2).tolist()
    metadata, gumbel = (
        outcomes_of([a_run(0, settings, build=built(allocation))])[0]
        for allocation in (
            MetadataMatrix(2, 3, features=one_hot, bias=False, p_init=0.6),
            GumbelMatrix(2, 3, p_init=0.6),
        )
    )
    assert abs(gumbel.probabilities - 0.6).max() > 0.1
    assert abs(metadata.probabilities - gumbel.probabilities).max() < 1e-9
    for name, value in gumbel.weights.items():
        if "allocation" not in name:
            assert_close(metadata.weights[name], value, rtol=0, atol=1e-9)


def a_column(place: int) -> nn.Linear:
    """Returns a map that is the input's number at a place, and that does not learn."""
    linear = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        linear.weight.zero_()
        linear.weight[0, place] = 1.0
    linear.weight.requires_grad_(False)
    return linear


@mark.parametrize("hidden", [None, 8])
def test_similar_tasks_learn_similar_rows_and_an_unseen_one_gets_theirs(hidden: int | None) -> None:
    # Each family needs a component of its own; features tell the family, up to a small difference.
    features = [[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]]
    allocation = MetadataMatrix(
        4, 2, features=features, hidden=hidden, temperature=Annealing(start=2.0)
    )
    layer = ModularLayer([a_column(0), a_column(1)], allocation)
    x = torch.randn(64, 3)
    tasks = [Task(f"task {t}", (x, x[:, t // 2])) for t in range(4)]
    network = MultiTaskNetwork(None, [layer], task_names=[task.name for task in tasks])
    fit(network, tasks, SETTINGS.changed(rounds=150, learning_rate=0.03))
    expected = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert_close(allocation.matrix(), expected)
    p = allocation.probabilities().detach()
    within = max((p[0] - p[1]).abs().max().item(), (p[2] - p[3]).abs().max().item())
    assert within < 0.2 < 0.4 < (p[0] - p[2]).abs().min().item()
    unseen = allocation.row_for([[0.9, 0.0], [-0.9, 0.05]])  # never trained
    assert_close((unseen >= 0.5).float(), expected[[0, 2]])


def test_gates_are_drawn_and_averaged_as_those_of_a_gumbel_matrix() -> None:
    matrix = a_matrix()
    matrix.n_batches.fill_(30)
    gumbel = GumbelMatrix(2, 4, p_init=matrix.probabilities().detach())
    gumbel.n_batches.fill_(30)
    upstream, noise = torch.randn(4), torch.rand(4)
    assert_close(matrix.weights(1, noise=noise).detach(), gumbel.weights(1, noise=noise).detach())
    (matrix.weights(1, noise=noise) * upstream).sum().backward()
    (gumbel.weights(1, noise=noise) * upstream).sum().backward()
    assert matrix.weight.grad is not None and gumbel.logits.grad is not None
    by_hand = torch.einsum("f,cg->fcg", matrix.features[1], gumbel.logits.grad[1])
    assert_close(matrix.weight.grad, by_hand)
    assert_close(matrix.bias.grad, gumbel.logits.grad[1])


def test_open_gates_have_their_probability_as_frequency() -> None:
    n = 20_000
    matrix = MetadataMatrix(1, n, features=[[1.0]], p_init=0.3)
    standard_error = (0.3 * 0.7 / n) ** 0.5
    assert_close(matrix.gates(0).mean().item(), 0.3, rtol=0, atol=4 * standard_error)


def test_tasks_are_told_apart_by_tensors_too() -> None:
    matrix, noise = a_matrix(hidden=3), torch.rand(2, 4)

    def weights(task: Tensor, noise: Tensor) -> Tensor:
        return matrix.weights(task, noise=noise)

    for is_training in (True, False):
        matrix.train(is_training)
        one_by_one = torch.stack([matrix.weights(task, noise=noise[task]) for task in range(2)])
        assert_close(vmap(weights)(torch.arange(2), noise), one_by_one)
    assert_close(vmap(matrix.probabilities)(torch.arange(2)), matrix.probabilities())


@mark.usefixtures("double")
@mark.parametrize(
    ("build", "schedule"),
    [
        param(metadata_network, "alternating", marks=mark.slow),
        (metadata_network, "joint"),
        (metadata_network_with_a_hidden_layer, "alternating"),
    ],
)
def test_many_runs_train_as_one_program(build: Any, schedule: str) -> None:
    assert_runs_train_together(build, schedule)


def test_training_moves_every_parameter() -> None:
    assert_every_parameter_moves(metadata_network_with_a_hidden_layer)


def test_what_it_says_of_itself() -> None:
    matrix = a_matrix()
    assert (matrix.is_binary, matrix.sees_examples, matrix.is_learnt) == (True, False, True)
    assert matrix.n_noise == 4
    assert "n_tasks=2, n_components=4, n_features=3, temperature=Annealing" in repr(matrix)


def test_features_are_copied_and_travel_with_the_state() -> None:
    features = torch.randn(2, 3)
    matrix, other = (MetadataMatrix(2, 4, features=f) for f in (features, FEATURES))
    before = features.clone()
    features.zero_()
    assert_close(matrix.features, before, rtol=0, atol=0)
    other.load_state_dict(matrix.state_dict())
    assert_close(other.features, before, rtol=0, atol=0)


def wrong(found: str) -> AbstractContextManager[object]:
    return raises(ValueError, match=rf"`features` should be finite .* \[2, F\]\. Found {found}")


@mark.parametrize(
    ("features", "expectation"),
    [
        param([[1.0], [2.0]], does_not_raise(), id="lists"),
        param(np.ones((2, 3)), does_not_raise(), id="an array"),
        param(torch.ones(2, 3, dtype=torch.long), does_not_raise(), id="a tensor"),
        param([1.0, 2.0], wrong(r"shape \[2\]"), id="one number a task"),
        param([[1.0]], wrong(r"shape \[1, 1\]"), id="a task too few"),
        param(torch.ones(2, 0), wrong(r"shape \[2, 0\]"), id="none"),
        param([[1.0], [1.0, 2.0]], wrong(r"`features = \[\[1.0\], "), id="unequal rows"),
        param([[1.0], [float("nan")]], wrong(r"`features = .*nan"), id="not a number"),
        param([["a"], ["b"]], wrong(r"`features = \[\['a'\]"), id="texts"),
    ],
)
def test_features_have_a_row_for_each_task(
    features: Any, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        MetadataMatrix(2, 3, features=features)


@mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"p_init": 1.0}, ValueError, r"`p_init` should be strictly between 0 and 1\. Found"),
        ({"hidden": 0}, ValueError, r"`hidden` should be at least 1\. Found `hidden = 0`"),
        ({"hidden": 2.5}, TypeError, r"`hidden` should be a whole number\. Found `hidden = 2.5`"),
        ({"temperature": 5.0}, TypeError, r"`temperature` should be an Annealing"),
    ],
)
def test_bad_options_are_named(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        MetadataMatrix(2, 3, features=FEATURES, **changes)


def test_rows_are_asked_for_with_as_many_features() -> None:
    with raises(ValueError, match=r"of shape \[3\] or \[N, 3\]\. Found shape \[2\]\."):
        a_matrix().row_for([1.0, 2.0])
