"""Training one network of one's own."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import mark, raises, warns
from torch import nn

from allotment.allocation import FixedMatrix, GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork, task_embeddings
from allotment.tasks import Task
from allotment.training import Progress, Run, fit, predict, train
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    lines,
    n_different,
    weights_of,
)


def a_classifier() -> MultiTaskNetwork:
    torch.manual_seed(0)
    return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])


def test_the_network_is_trained_in_place() -> None:
    network = a_classifier()
    parameters = dict(network.named_parameters())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    fit(network, classes(3, 4), SETTINGS)
    assert n_different(before, network.state_dict()) > 10
    assert all(p is parameters[name] for name, p in network.named_parameters())


def test_the_network_is_ready_to_predict() -> None:
    network = a_classifier()
    result = fit(network, classes(3, 4), SETTINGS)
    split = classes(3, 4)[0].split("test")
    assert split is not None and split.rows is not None and result.test is not None
    x, y = split.inputs[split.rows], split.targets[split.rows]
    outputs = network(x, 0)
    assert torch.equal(outputs, network(x, 0))
    share = (outputs.argmax(dim=1) == y).double().mean()
    assert result.test.accuracies is not None
    assert_allclose(result.test.accuracies[0], share)


def test_fitting_is_a_run_of_one() -> None:
    run = a_run(seed=3)
    expected = weights_of(run)
    fit(run.network, run.tasks, run.settings, seed=3)
    assert n_different(run.network.state_dict(), expected) == 0


def test_the_result_says_what_was_learnt() -> None:
    network, settings = a_classifier(), SETTINGS.changed(rounds=30, evaluate_every=10)
    result = fit(network, classes(3, 4), settings)
    assert_allclose(result.embeddings, task_embeddings(network).numpy())
    assert_allclose(result.probabilities, network.probabilities().detach().numpy(), rtol=1e-6)
    assert [entry.round for entry in result.history] == [10, 20, 30]
    assert result.best_round in (10, 20, 30)
    assert result.failed_step is None
    assert result.validation is not None and result.validation.split == "validation"
    assert result.test is not None and result.test.split == "test"
    assert result.test.accuracies is not None and result.test.accuracies.shape == (2,)


def test_progress_is_told() -> None:
    told: list[Progress] = []
    fit(a_classifier(), classes(3, 4), SETTINGS.changed(rounds=25), on_progress=told.append)
    assert [progress.round for progress in told] == [10, 20, 25]


def test_training_helps() -> None:
    network = a_classifier()
    settings = SETTINGS.changed(rounds=150, batch_size=20, allocation_learning_rate=0.05)
    result = fit(network, classes(3, 4, n=200), settings)
    assert result.history[-1].losses.mean() < 0.5 * result.history[0].losses.mean()


def test_warnings_are_silent_for_a_network_like_any_other() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(a_classifier(), classes(3, 4), SETTINGS)


def test_a_plain_layer_may_follow_a_modular_one() -> None:
    layers = [
        ModularLayer([nn.Linear(N_INPUTS, 4) for _ in range(2)], GumbelMatrix(2, 2)),
        nn.Sequential(nn.Tanh(), nn.Linear(4, 3)),
    ]
    result = fit(MultiTaskNetwork(None, layers), classes(3, 3), SETTINGS)
    assert result.embeddings.shape == (2, 2)


@mark.parametrize(
    "kind",
    ["uint8", "int32", "int64", "bool"],
)
def test_labels_may_be_integers_of_any_kind(kind: str) -> None:
    x = np.random.default_rng(0).random((20, N_INPUTS), np.float32)
    y = (np.arange(20) % 2).astype(kind)
    network = a_network(GumbelMatrix(2, 3), [nn.Linear(4, 2), nn.Linear(4, 2)])
    result = fit(network, [Task(name, (x, y), test=(x, y)) for name in "ab"], SETTINGS)
    assert result.test is not None and result.test.accuracies is not None


def test_arrays_may_be_in_double_precision() -> None:
    random = np.random.default_rng(0)
    arrays = random.random((20, N_INPUTS)), random.random(20)
    result = fit(a_run().network, [Task(name, arrays) for name in "ab"], SETTINGS)
    assert result.failed_step is None


def test_training_that_fails_warns() -> None:
    network, settings = a_classifier(), SETTINGS.changed(learning_rate=1e30, rounds=200)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with warns(UserWarning, match=r"^The loss was not finite at task batch \d+, "):
        result = fit(network, classes(3, 4), settings)
    assert result.failed_step is not None
    assert "The network has the weights that it came with." in result.warnings()[0]
    assert n_different(before, network.state_dict()) == 0
    assert result.rounds < result.rounds_planned  # it ends, since nothing is to be learnt


def test_images_of_bytes_are_predicted_as_they_were_trained_on() -> None:
    network = a_classifier().eval()
    x = torch.randint(0, 255, (5, N_INPUTS), dtype=torch.uint8)
    assert torch.equal(predict(network, x, 0), predict(network, x.float(), 0))


def test_a_task_that_uses_nothing_is_told_of_in_every_outcome() -> None:
    rows = [[[True, False], [True, True]], [[False, False], [True, True]]]
    built = [a_network(FixedMatrix(own, reduce="sum")) for own in rows]
    with warns(UserWarning, match=r"uses no component of modular layer 0 at round 10, which"):
        *_, last = train([Run(network, lines(), 0, SETTINGS) for network in built])
    assert last.outcomes is not None
    assert [outcome.dead for outcome in last.outcomes] == [{}, {"line 0": [0]}]
    with warns(UserWarning, match=r"Task 'line 0' uses no component of modular layer 0"):
        assert fit(built[1], lines(), SETTINGS).dead() == {"line 0": [0]}


@mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_progress": None}, "`on_progress` should be a function. Found None"),
        ({"show": "yes"}, "`show` should be True or False or None. Found `show = 'yes'`"),
        ({"shared_learns": 1}, "`shared_learns` should be True or False. Found"),
    ],
)
def test_options_of_other_types_are_refused_before_training(
    arguments: dict[str, Any], message: str
) -> None:
    with raises(TypeError, match=message):
        fit(a_network(GumbelMatrix(2, 3)), lines(), SETTINGS, **arguments)
