"""A network for each alphabet: which runs train together, and the mean over alphabets."""

from dataclasses import replace
from pathlib import Path

from pytest import MonkeyPatch, approx

from allotment.experiments import Sweep, run_groups
from allotment.paper._omniglot_alone import ALONE, NAME, PUBLISHED, mean_errors
from allotment.records import RunRecord
from tests.experiments.toy import make_small_data, toy
from tests.records.made_up import accuracy_run, failed_run

ALPHABETS = ALONE.data.conditions


def runs_of(seed: int, accuracy: float, n: int = len(ALPHABETS)) -> list[RunRecord]:
    """Returns a run of each of the first alphabets; the first is 0.1 better."""
    named = {"experiment": NAME, "method": "single_task"}
    return [
        accuracy_run([accuracy + 0.1 * (place == 0)], seed, condition=name, **named)
        for place, name in enumerate(ALPHABETS[:n])
    ]


def test_alphabets_of_different_sizes_train_as_one_program(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    folder = make_small_data(tmp_path, monkeypatch, "omniglot")
    experiment = toy(NAME)
    sweep = Sweep(experiment=experiment, out=tmp_path / "runs", n_runs=2, data_folder=folder)
    (group,) = run_groups(sweep)
    assert len(group.runs) == 4
    assert {len(run.tasks) for run in group.runs} == {1}


def test_the_error_of_a_seed_is_the_mean_over_alphabets() -> None:
    records = [*runs_of(0, 0.8), *runs_of(1, 0.7)]
    n = len(ALPHABETS)
    assert mean_errors(records) == {0: approx(20 - 10 / n), 1: approx(30 - 10 / n)}


def test_a_seed_without_all_alphabets_has_no_mean() -> None:
    failed = failed_run(2, experiment=NAME, condition=ALPHABETS[-1])
    assert mean_errors([*runs_of(1, 0.7, n=19), *runs_of(2, 0.7, n=19), failed]) == {}
    elsewhere = [
        replace(run, header=replace(run.header, experiment="omniglot")) for run in runs_of(0, 0.8)
    ]
    assert mean_errors(elsewhere) == {}


def test_the_section_has_the_published_number_beside_ours() -> None:
    own = ALONE.report.own
    assert own is not None
    section = own([*runs_of(0, 0.8), *runs_of(1, 0.7)])
    first, *others = section.tables[0].rows
    assert first[:2] == ("Mean over alphabets", PUBLISHED)
    assert first[2].startswith("24.5 ±")
    assert [row[0] for row in others] == list(ALPHABETS)
    assert "not run yet" in own([]).sentences[0]
    assert not own([]).tables
