import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytest import MonkeyPatch, mark, raises
from safetensors.torch import save_file

import allotment as al
from allotment.experiments import Experiment, Sweep, TaskChoice, overridden, run_sweep
from allotment.paper import EXPERIMENTS
from allotment.records import RecordError, read_run, read_weights
from tests.experiments.toy import make_small_mnist, toy
from tests.records.made_up import flip


def run_one(experiment: Experiment, method: str, out: Path, data: Path | None = None) -> Path:
    """Trains the run with seed 3 and returns its folder."""
    sweep = Sweep(
        experiment=experiment,
        methods=(experiment.method(method),),
        out=out,
        n_runs=1,
        first_seed=3,
        data_folder=data,
    )
    (folder,) = run_sweep(sweep)
    return folder


def test_a_loaded_network_has_the_recorded_gates(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs", rounds=20), "gumbel", tmp_path)
    network, outcome = al.load(folder), read_run(folder).outcome
    assert not network.training
    np.testing.assert_array_equal(network.matrix().numpy(), outcome.matrix)
    found = network.probabilities().detach().numpy()
    np.testing.assert_allclose(found, outcome.probabilities, atol=1e-6)
    assert int(network.get_buffer("layers.0.allocation.n_batches")) == 20 * 4


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
    for index, task in enumerate(experiment.make_tasks(TaskChoice("", 3, data))):
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


def test_options_that_weights_do_not_hold_come_back_from_the_record(tmp_path: Path) -> None:
    changed = overridden(toy("two_pairs"), ["allocation.evaluation=sampled"])
    network = al.load(run_one(changed, "gumbel", tmp_path))
    assert not network.modular_layers[0].allocation.same_in_evaluation


def test_a_run_of_version_0_1_is_loaded(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "gumbel", tmp_path)
    settings = json.loads((folder / "settings.json").read_text())
    settings["settings"]["allocation"] = {"kind": "Gumbel", "p_init": 0.5}
    (folder / "settings.json").write_text(json.dumps(settings))
    weights = read_weights(folder)
    weights["layers.0.allocation.n_draws"] = weights.pop("layers.0.allocation.n_batches")
    save_file(weights, folder / "weights.safetensors")
    summary = json.loads((folder / "summary.json").read_text())
    del summary["sha256"]
    (folder / "summary.json").write_text(json.dumps(summary))
    assert int(al.load(folder).get_buffer("layers.0.allocation.n_batches")) == 3 * 4


def test_a_run_of_an_experiment_nobody_declared_says_how_to_load_it(tmp_path: Path) -> None:
    mine = replace(toy("two_pairs"), name="mine")
    folder = run_one(mine, "gumbel", tmp_path)
    with raises(ValueError, match=r"`experiment=`.* or with `network=`.* Found a run of 'mine'"):
        al.load(folder)
    expected = al.load(folder, experiment=mine)
    blank = mine.build_network(mine.method("gumbel"), dict.fromkeys(expected.task_names, 1), seed=9)
    found = al.load(folder, network=blank)
    assert found is blank and not found.training
    for name, value in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], value), name


def test_another_network_is_refused(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "gumbel", tmp_path)
    digits = EXPERIMENTS["digits"]
    other = digits.build_network(digits.methods[0], dict.fromkeys("abcd", 10), seed=0)
    with raises(ValueError, match=r"should have the architecture of the one that was trained"):
        al.load(folder, network=other)


def test_a_run_that_did_not_reach_its_end_is_not_loaded(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "no_sharing", tmp_path)
    (folder / "summary.json").unlink()
    with raises(RecordError, match=r"should have a `summary.json`"):
        al.load(folder)


def test_weights_of_a_run_that_failed_are_not_given_back(tmp_path: Path) -> None:
    # A step this long overflows.
    diverging = overridden(toy("two_pairs", rounds=20), ["learning_rate=1e18"])
    folder = run_one(diverging, "shared_bottom", tmp_path)
    assert not read_run(folder).finished
    with raises(ValueError, match=r"should have finished. Found .* failed, .* task batch \d+"):
        al.load(folder)


@mark.parametrize("place", [0.3, 0.6, 0.9])
def test_one_flipped_bit_of_the_weights_is_seen(place: float, tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "no_sharing", tmp_path)
    flip(folder / "weights.safetensors", place)
    with raises(RecordError, match=r"weights\.safetensors` damaged: .* another hash"):
        al.load(folder)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = run_one(toy("two_pairs"), "no_sharing", tmp_path)
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with raises(RecordError, match=r"weights\.safetensors` damaged"):
        al.load(folder)
