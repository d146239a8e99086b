"""Sweeps from Python, as the command line makes them."""

from dataclasses import replace
from pathlib import Path

from pytest import MonkeyPatch, raises

import allotment as al
from allotment.experiments import Stopped
from allotment.records import read_declarations
from allotment.report import ReportSpec
from tests.cli.test_workers import FILE
from tests.experiments.test_running import a_sweep, records_in
from tests.experiments.toy import toy


def test_a_sweep_from_python_leaves_what_run_sweep_leaves(tmp_path: Path) -> None:
    command = f"al.sweep(two_pairs, '{tmp_path / 'b'}', n_runs=2)"
    sweep = replace(a_sweep(tmp_path / "a"), command=command, is_own=True)
    al.experiments.run_sweep(sweep)
    records = al.sweep(
        toy("two_pairs", rounds=40), tmp_path / "b", n_runs=2, checkpoint_every=10, device="cpu"
    )
    assert [record.header.seed for record in records] == [0, 1] * 3
    assert records_in(tmp_path / "b") == records_in(tmp_path / "a")


def test_a_file_some_methods_and_the_usual_folder(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE.replace("20_000", "10").replace("from beside import width", ""))
    text = Path("mine.py").read_text() + "\n"
    Path("mine.py").write_text("def width():\n    return 8\n" + text)
    (record,) = al.sweep("mine.py", methods=["gumbel"], first_seed=3, device="cpu")
    assert (record.header.method, record.header.seed) == ("gumbel", 3)
    assert Path("runs/mine/gumbel/seed-003/summary.json").exists()
    assert Path("runs/mine/experiment.py").exists()


def test_a_time_limit_stops_and_resume_goes_on(tmp_path: Path) -> None:
    experiment, said = toy("two_pairs", rounds=20), list[str]()
    with raises(Stopped, match="time limit"):
        al.sweep(experiment, tmp_path, n_runs=1, device="cpu", minutes=1e-9, say=said.append)
    records = al.sweep(experiment, tmp_path, n_runs=1, device="cpu", resume=True, say=said.append)
    assert len(records) == 3
    assert "Resuming after round 10." in said


def test_what_is_said_of_the_runs_and_kept_beside_them(tmp_path: Path) -> None:
    experiment, said = toy("two_pairs", rounds=20), list[str]()
    (run,) = al.sweep(
        experiment, tmp_path, methods=["gumbel"], n_runs=1, device="cpu", say=said.append
    )
    assert [line.split(", training loss")[0] for line in said] == [
        "Gumbel-Matrix, seed 0: round 20 of 20",
        f"Records: {tmp_path}. A page of them: allotment report {tmp_path} -o report.html",
    ]
    assert run.header.command == (
        f"al.sweep({experiment.name}, '{tmp_path}', methods=['gumbel'], n_runs=1)"
    )
    spec = ReportSpec.from_record(read_declarations(tmp_path)[experiment.name])
    assert [row.label for row in spec.rows] == [method.label for method in experiment.methods]


def test_a_method_that_is_none_is_refused(tmp_path: Path) -> None:
    with raises(ValueError, match=r"`method` should be one of .* Found `method = 'gumble'`"):
        al.sweep(toy("two_pairs"), tmp_path, methods=["gumble"])
