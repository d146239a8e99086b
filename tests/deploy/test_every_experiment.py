"""Every experiment's network as an ONNX file: all tasks, with untrained weights."""

from pathlib import Path

import pytest
import torch
from pytest import MonkeyPatch, mark, param

from allotment.deploy import examples_of, export
from allotment.experiments import TaskChoice
from allotment.paper import EXPERIMENTS
from tests.experiments.toy import make_small_data, toy

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")

# Every day each of these, and the deep networks for one task, which torch alone follows.
DAILY = [
    *((name, "gumbel") for name in ("two_pairs", "mnist", "comparison_census")),
    *(("comparison_two_pairs", name) for name in ("top_k", "ple")),
    ("transfer", "shared_bottom"),
]
EVERY = [
    param(name, method.name, marks=[mark.slow] * ((name, method.name) not in DAILY))
    for name, experiment in EXPERIMENTS.items()
    for method in experiment.methods
]


def export_all(
    name: str, method: str, folder: Path, monkeypatch: MonkeyPatch, file: str, n_tasks: int = 1_000
) -> None:
    """Exports some tasks of an untrained network."""
    experiment = toy(name)
    data = make_small_data(folder / "data", monkeypatch, *experiment.data.sets)
    tasks = experiment.make_tasks(TaskChoice(experiment.data.conditions[0], 0, data))
    outputs = {task.name: task.n_outputs for task in tasks}
    network = experiment.build_network(experiment.method(method), outputs, seed=0)
    for layer in network.modular_layers:
        for parameter in layer.allocation.parameters():
            # Untrained scores are equal, and which of equal ones is the largest is anybody's guess.
            torch.nn.init.normal_(parameter, std=0.3)  # with more, rounding grows
    x, scale = examples_of(tasks)
    made = export(network, list(outputs)[:n_tasks], folder / file, x, scale=scale)
    assert made.tasks == tuple(outputs)[:n_tasks]


@mark.parametrize(("name", "method"), EVERY)
def test_a_network_is_exported_with_all_its_tasks(
    name: str, method: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    export_all(name, method, tmp_path, monkeypatch, "all.onnx")


@mark.parametrize("name", ["clusters", param("omniglot", marks=mark.slow)])
def test_a_deep_network_is_followed_for_any_number_of_rows(
    name: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    export_all(name, "gumbel", tmp_path, monkeypatch, "one.pt2", n_tasks=1)
