"""An experiment of one's own, with ways of sharing that the library does not have."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import torch
from pytest import fixture, mark, raises
from torch import nn

import allotment as al
from allotment.experiments import (
    Allocate,
    Experiment,
    Method,
    ReportOptions,
    RunGroup,
    Stop,
    Stopped,
    Sweep,
    TaskChoice,
    run_groups,
    run_sweep,
    using,
)
from allotment.records import read_run, read_runs
from allotment.training import Progress
from tests.allocation.made_up import ByExample, Shares
from tests.experiments.test_running import records_in


def network(allocate: Allocate, outputs: Mapping[str, int]) -> nn.Module:
    layers = [
        al.ModularLayer([nn.Linear(6, 6) for _ in range(3)], allocate(3, n_features=6))
        for _ in range(2)
    ]
    heads = {name: nn.Linear(6, n_outputs) for name, n_outputs in outputs.items()}
    return al.MultiTaskNetwork(None, layers, heads)


def examples(n_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(n_classes))
    return x, x[:, :n_classes].argmax(dim=1)


def classification(name: str, n_classes: int) -> al.Task:
    x, y = examples(n_classes)
    train, validation, test = ((x[i::3], y[i::3]) for i in range(3))
    return al.Task(name, train, validation, test)


OWN = Experiment(
    name="own",
    tasks=[classification("two", 2), classification("three", 3)],
    network=network,
    methods=[
        Method(name="mixture", allocation=using(Shares)),
        Method(name="router", label="Router", allocation=using(ByExample)),
        Method(name="gumbel", allocation=using(al.GumbelMatrix, p_init=0.9)),
    ],
    training=al.TrainingSettings(rounds=40),
    n_runs=2,
)


@fixture(scope="module")
def out(tmp_path_factory: Any) -> Path:
    """The folder of a sweep of it."""
    torch.set_num_threads(1)
    folder: Path = tmp_path_factory.mktemp("own")
    run_sweep(Sweep(experiment=OWN, out=folder))
    return folder


def test_every_run_is_recorded(out: Path) -> None:
    records = read_runs(out)
    assert len(records) == 6
    assert all(record.finished and record.header.measure == "accuracy" for record in records)
    soft = {r.header.method: r for r in records if not r.header.is_binary}
    assert set(soft) == {"mixture", "router"}
    for record in soft.values():
        rows = record.outcome.matrix.reshape(2, 2, 3)  # tasks, layers, components
        np.testing.assert_allclose(rows.sum(axis=2), 1.0, atol=1e-5)
    kinds = {r.header.method: r.header.settings["allocation"] for r in records}
    assert kinds == {
        "mixture": {"kind": "Shares"},
        "router": {"kind": "ByExample"},
        "gumbel": {"kind": "GumbelMatrix", "p_init": 0.9, "keeps_one": True},
    }


def test_runs_of_one_method_train_together(out: Path) -> None:
    groups = list(run_groups(Sweep(experiment=OWN, out=out)))
    assert [group.label for group in groups] == ["mixture", "Router", "gumbel"]
    assert {record.outcome.n_together for record in read_runs(out)} == {2}


def test_a_run_alone_learns_what_it_learns_beside_others(out: Path, tmp_path: Path) -> None:
    for method in OWN.methods:
        one = Sweep(experiment=OWN, methods=(method,), n_runs=1, first_seed=1, out=tmp_path)
        (folder,) = run_sweep(one)
        alone, beside = (read_run(f) for f in (folder, out / folder.relative_to(tmp_path)))
        np.testing.assert_allclose(alone.losses, beside.losses, rtol=1e-3, atol=1e-4)
        expected = beside.outcome.matrix
        np.testing.assert_allclose(alone.outcome.matrix, expected, rtol=1e-3, atol=1e-4)


@mark.parametrize("method", ["mixture", "router"])
def test_a_trained_network_comes_back(method: str, out: Path) -> None:
    folder = out / method / "seed-001"
    with raises(ValueError, match="Found a run of 'own'"):
        al.load(folder)
    loaded, record = al.load(folder, experiment=OWN), read_run(folder)
    np.testing.assert_allclose(loaded.matrix().detach(), record.outcome.matrix, atol=1e-6)
    assert record.outcome.test is not None and record.outcome.test.accuracies is not None
    for task, expected in zip(
        OWN.make_tasks(TaskChoice("", 0, None)), record.outcome.test.accuracies, strict=True
    ):
        x, y = task.test.examples()
        found = (loaded(x, task.name).argmax(dim=1) == y).double().mean().item()
        assert abs(found - expected) < 1e-6


def test_gates_are_kept_where_the_record_says_so_and_not_where_it_is_older(
    out: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "older"
    copytree(out / "gumbel" / "seed-001", folder)
    settings = folder / "settings.json"
    for is_kept in (True, False):
        loaded = al.load(folder, experiment=OWN)
        filled = al.load(folder, network=al.load(out / "gumbel" / "seed-000", experiment=OWN))
        for network in (loaded, filled):
            assert {layer.allocation.keeps_one for layer in network.modular_layers} == {is_kept}
        settings.write_text(settings.read_text().replace('"keeps_one": true', '"older": true'))


def test_a_sweep_that_was_stopped_ends_as_one_that_never_was(out: Path, tmp_path: Path) -> None:
    sweep = Sweep(experiment=OWN, out=tmp_path, checkpoint_every=10, resume=True)
    n_stops = 0
    while True:
        stop = Stop()

        def ask(group: RunGroup, progress: Progress, stop: Stop = stop) -> None:
            if progress.round == 20:
                stop.ask("tired")

        try:
            run_sweep(sweep, ask, stop=stop)
            break
        except Stopped:
            n_stops += 1
    assert n_stops == 3  # once in each run group
    assert records_in(tmp_path) == records_in(out)


def test_the_report_is_told_of_it_by_its_declaration(out: Path) -> None:
    records = read_runs(out)
    told = OWN.report_spec(records)
    assert (told.title, told.place, told.measure, told.unit) == ("own", "", "Test accuracy", "%")
    assert [(row.method, row.label, row.learnt) for row in told.rows] == [
        ("mixture", "mixture", True),
        ("router", "Router", True),
        ("gumbel", "gumbel", True),
    ]
    assert OWN.report_spec().measure == "Loss"  # nothing was measured yet, and nothing declared


def test_a_page_shows_it(out: Path) -> None:
    from allotment.report import html_page, summary_text

    records = read_runs(out)
    page = html_page(records, [OWN.report_spec(records)])
    assert "Router" in page and "Test accuracy" in page
    assert summary_text(records, OWN.report_spec(records))


def test_a_plain_module_does_for_a_network(tmp_path: Path) -> None:
    class Body(nn.Module):
        def __init__(self, allocate: Allocate) -> None:
            super().__init__()
            self.inside = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
            self.layer = al.ModularLayer([nn.Linear(6, 1) for _ in range(3)], allocate(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.layer(self.inside(x))
            return y

    x = torch.randn(30, 6)
    tasks = [al.Task(name, (x, x[:, place])) for place, name in enumerate("ab")]
    mine = replace(
        OWN,
        tasks=lambda choice: tasks,
        network=lambda allocate, outputs: Body(allocate),
        methods=OWN.methods[:1],
    )
    folders = run_sweep(Sweep(experiment=mine, out=tmp_path))
    assert read_run(folders[0]).header.measure == "loss"
    found = al.load(folders[0], experiment=mine)
    assert found(x, "b").shape == (30, 1)


@mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": []}, r"`methods` should be methods with different names\. Found \[\]"),
        ({"methods": [OWN.methods[0]] * 2}, r"different names\. Found \['mixture', 'mixture'\]"),
        ({"report": ReportOptions(baseline="gumble")}, r"`baseline` .* Did you mean 'gumbel'"),
    ],
)
def test_a_declaration_is_checked_when_it_is_made(changes: dict[str, Any], message: str) -> None:
    with raises(ValueError, match=message):
        replace(OWN, **changes)
    with raises(ValueError, match=r"one of '', 'accuracy', 'test_loss', 'loss'"):
        ReportOptions(measure="accurate")
