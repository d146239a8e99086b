from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytest import MonkeyPatch, mark, raises

import allotment as al
from allotment.experiments import Experiment, Launch, TaskChoice, overridden, run_launch
from allotment.records import RecordError, read_run
from tests.experiments.toy import make_small_mnist, toy


def run_one(experiment: Experiment, method: str, out: Path, data: Path | None = None) -> Path:
    """Trains the run with seed 3 and returns its folder."""
    launch = Launch(
        experiment=experiment,
        methods=(experiment.method(method),),
        out=out,
        n_runs=1,
        first_seed=3,
        data_folder=data,
    )
    (folder,) = run_launch(launch, lambda cohort, progress: None)
    return folder


def test_a_loaded_network_has_the_recorded_gates(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs", rounds=20), "gumbel", tmp_path)
    network, outcome = al.load(folder), read_run(folder).outcome
    assert not network.training
    np.testing.assert_array_equal(network.matrix().numpy(), outcome.matrix)
    found = network.probabilities().detach().numpy()
    np.testing.assert_allclose(found, outcome.probabilities, atol=1e-6)
    assert int(network.get_buffer("layers.0.allocation.n_draws")) == 20 * 4


@mark.parametrize(
    ("name", "method", "training"),
    [
        ("digits", "gumbel", {"evaluate_every": 20}),
        ("digits", "shared_bottom_mean", {"evaluate_every": None}),
        ("mnist", "gumbel_budget", {}),
    ],
)
def test_a_loaded_network_has_the_recorded_test_results(
    name: str, method: str, training: dict[str, Any], tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    data = make_small_mnist(tmp_path / "data", monkeypatch)
    experiment = toy(name, rounds=20, **training)
    folder = run_one(experiment, method, tmp_path / "runs", data)
    network, outcome = al.load(str(folder)), read_run(folder).outcome
    assert outcome.test is not None and outcome.test.accuracies is not None
    for index, task in enumerate(experiment.tasks(TaskChoice("", 3, data))):
        x, y = task.test.examples()
        with torch.no_grad():
            logits = network(x, task.name)
        accuracy = (logits.argmax(dim=1) == y).double().mean().item()
        assert abs(accuracy - outcome.test.accuracies[index]) < 1e-6, task.name
        loss = torch.nn.functional.cross_entropy(logits, y).item()
        assert abs(loss - outcome.test.losses[index]) < 1e-4, task.name


def test_settings_from_the_command_line_come_back_too(tmp_path: Path) -> None:
    experiment = overridden(toy("two_pairs"), ["allocation.reduce=sum"])
    network = al.load(run_one(experiment, "shared_bottom", tmp_path))
    weights = network.modular_layers[0].allocation.weights(0)
    assert torch.equal(weights, torch.ones(4))


def test_a_run_that_did_not_reach_its_end_is_not_loaded(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "no_sharing", tmp_path)
    (folder / "summary.json").unlink()
    with raises(RecordError, match=r"should have a `summary.json`"):
        al.load(folder)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "no_sharing", tmp_path)
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with raises(RecordError, match=r"weights\.safetensors` damaged"):
        al.load(folder)
