"""Sweeps that go on to another end than they were meant to have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest import mark, param, raises

from allotment.experiments import run_sweep
from allotment.records import RecordError, read_runs
from tests.experiments.test_running import a_sweep, kill_after, quiet, records_in
from tests.experiments.toy import toy


@mark.slow
@mark.parametrize("name", ["two_pairs", param("digits", marks=mark.slow)])
@mark.parametrize("rounds", [20, 30, 60])  # where the checkpoint before the last is, the last, more
def test_a_sweep_may_go_on_to_another_end(name: str, rounds: int, tmp_path: Path) -> None:
    looks = {"evaluate_every": 10} if name == "digits" else {}
    experiment = toy(name, rounds=40, **looks)
    sweep = a_sweep(tmp_path / "stopped", experiment=experiment, methods=experiment.methods[-1:])
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(4))
    experiment = toy(name, rounds=rounds, **looks)
    run_sweep(replace(sweep, experiment=experiment, resume=True), quiet)
    meant_to_be = replace(sweep, experiment=experiment, out=tmp_path / "whole")
    run_sweep(meant_to_be, quiet)
    assert records_in(sweep.out) == records_in(meant_to_be.out)


def test_an_end_before_every_checkpoint_is_refused(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path)
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(4))
    sooner = replace(sweep, experiment=toy("two_pairs", rounds=10), resume=True)
    with raises(RecordError, match=r"`rounds` should be at least 20, .* Found `rounds = 10`"):
        run_sweep(sooner, quiet)
    run_sweep(replace(sweep, resume=True), quiet)  # nothing was lost


@mark.parametrize("setting", [{"lr_schedule": "cosine"}, {"entropy_weight": 0.1}])
def test_steps_that_follow_the_rounds_have_the_end_they_were_meant_to_have(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    sweep = a_sweep(tmp_path, experiment=toy("two_pairs", rounds=40, **setting))
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(2))
    longer = replace(sweep, experiment=toy("two_pairs", rounds=50, **setting), resume=True)
    with raises(RecordError, match=r"Found `settings\.training\.rounds = 50` for 40"):
        run_sweep(longer, quiet)


def test_runs_that_have_ended_stay_as_long_as_they_are(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path)
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(7))  # fixed allocations have ended, learnt ones have not
    before = records_in(tmp_path)
    said: list[str] = []
    longer = replace(sweep, experiment=toy("two_pairs", rounds=50), resume=True)
    run_sweep(longer, quiet, say=said.append)
    of = "No sharing + Shared bottom, seeds 0, 1"
    assert said[0] == f"Finished after 40 rounds, and left as they are: {of}."
    assert {run.header.method: run.outcome.rounds for run in read_runs(tmp_path)} == {
        "no_sharing": 40,
        "shared_bottom": 40,
        "gumbel": 50,
    }
    after = records_in(tmp_path)
    ended = [name for name in before if name.startswith(("no_sharing", "shared_bottom"))]
    assert len(ended) > 8 and all(after[name] == before[name] for name in ended)


def test_a_run_that_was_closed_alone_holds_the_others_to_its_rounds(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path)
    run_sweep(sweep, quiet)
    (tmp_path / "gumbel" / "seed-001" / "summary.json").unlink()
    longer = replace(sweep, experiment=toy("two_pairs", rounds=50), resume=True)
    with raises(RecordError, match=r"Found `settings\.training\.rounds = 50` for 40"):
        run_sweep(longer, quiet)


def test_one_may_change_ones_mind_about_the_end(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path / "stopped", methods=toy("two_pairs").methods[-1:])
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(4))
    sooner = replace(sweep, experiment=toy("two_pairs", rounds=25), resume=True)
    with raises(KeyboardInterrupt):
        run_sweep(sooner, kill_after(1))
    run_sweep(replace(sweep, resume=True), quiet)
    whole = replace(sweep, out=tmp_path / "whole")
    run_sweep(whole, quiet)
    assert records_in(sweep.out) == records_in(whole.out)
