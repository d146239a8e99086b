"""Stopping and going on from the command line."""

import json
from pathlib import Path

import torch
from pytest import mark

from allotment.experiments.launchers import determinism
from allotment.records import read_runs
from tests.cli.conftest import Command
from tests.cli.test_bad_input import assert_one_sentence
from tests.experiments.test_running import records_in

RUN = ("run", "two_pairs", "--runs", "2", "--method", "gumbel")
SHORT = ("--minutes", "1e-9")


def test_a_time_limit_stops_with_a_checkpoint_and_says_how_to_go_on(allotment: Command) -> None:
    assert allotment(*RUN, "--out", "whole").status == 0
    answer = allotment(*RUN, "--out", "a folder", *SHORT)
    assert (answer.status, answer.error) == (0, "")
    last = answer.out.splitlines()[-1]
    assert last == "Stopped (time limit). To resume: allotment run two_pairs --resume 'a folder'"
    assert "time limit" in Path("a folder/gumbel/seed-000/interrupted.json").read_text()
    answer = allotment("run", "two_pairs", "--resume", "a folder")
    assert (answer.status, answer.error) == (0, "")
    assert "Resuming after round 10." in answer.out
    assert "Records: a folder" in answer.out
    whole, gone_on = records_in(Path("whole")), records_in(Path("a folder"))
    for records in (whole, gone_on):
        del records["launch.json"]
        for name in [name for name in records if name.endswith("settings.json")]:
            assert json.loads(records.pop(name))["command"].startswith(
                "allotment run two_pairs --runs"
            )
    assert gone_on == whole


def test_runs_divided_into_groups_are_resumed_so(allotment: Command) -> None:
    assert allotment(*RUN, "--group-size", "1", "--out", "out", *SHORT).status == 0
    assert read_runs(Path("out")) == []
    assert allotment("run", "two_pairs", "--resume", "out").status == 0
    assert [run.outcome.n_together for run in read_runs(Path("out"))] == [1, 1]


def test_a_sweep_that_version_0_1_began_is_resumed(allotment: Command) -> None:
    assert allotment(*RUN, "--group-size", "1", "--out", "out", *SHORT).status == 0
    options = json.loads(Path("out/launch.json").read_text())
    options["together"] = options.pop("group_size")
    Path("out/launch.json").write_text(json.dumps(options))
    assert allotment("run", "two_pairs", "--resume", "out").status == 0
    assert [run.outcome.n_together for run in read_runs(Path("out"))] == [1, 1]


def test_run_groups_that_begin_later_record_the_first_command(allotment: Command) -> None:
    allotment("run", "two_pairs", "--runs", "1", "--out", "out", *SHORT)
    assert allotment("run", "two_pairs", "--resume", "out").status == 0
    assert {run.header.command for run in read_runs(Path("out"))} == {
        "allotment run two_pairs --runs 1 --out out --minutes 1e-9"
    }


def test_a_finished_sweep_has_nothing_left_to_do(allotment: Command) -> None:
    allotment(*RUN, "--out", "out")
    answer = allotment("run", "two_pairs", "--resume", "out")
    assert answer.status == 0
    assert "Nothing is left to do: every run of the sweep in out has its summary." in answer.out
    assert "Records: out" in answer.out


def test_a_folder_without_a_sweep_is_refused(allotment: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = allotment(*RUN, "--resume", "empty")
    assert answer.status == 1
    assert_one_sentence(answer.error, "should hold the `launch.json` of", "--out")
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_remaining_time_is_told_only_where_it_is_known(allotment: Command) -> None:
    allotment(*RUN, "--out", "out", "--rounds", "30", *SHORT)
    answer = allotment("run", "two_pairs", "--resume", "out")
    lines = [line for line in answer.out.splitlines() if line.startswith("  round")]
    # Nothing was timed yet at the first, and nothing is left at the last.
    assert [line.split()[1] for line in lines] == ["20/30", "30/30"]
    assert not any("left" in line for line in lines)


@mark.parametrize(
    ("options", "parts"),
    [
        (("--runs", "3"), ("`runs` should be", "began with, 2. Found 3")),
        (("--group-size", "1"), ("`group-size` should be", "began with, None. Found 1")),
        (("--first-seed", "1"), ("`first-seed` should be", "began with, 0. Found 1")),
        (("--method", "no_sharing"), ("`method` should be", "['gumbel']", "['no_sharing']")),
        (("--set", "batch_size=8"), ("`set` should be", "[]", "['batch_size=8']")),
        (("--deterministic",), ("`deterministic` should be", "False. Found True")),
    ],
)
def test_options_that_contradict_the_sweep_are_refused(
    options: tuple[str, ...], parts: tuple[str, ...], allotment: Command, tmp_path: Path
) -> None:
    allotment(*RUN, "--out", "out", *SHORT)
    before = records_in(tmp_path)
    answer = allotment("run", "two_pairs", "--resume", "out", *options)
    assert answer.status == 1
    assert_one_sentence(answer.error, *parts)
    assert records_in(tmp_path) == before


def test_an_end_that_is_over_is_refused_and_nothing_is_touched(
    allotment: Command, tmp_path: Path
) -> None:
    allotment(*RUN, "--out", "out", *SHORT)
    before = records_in(tmp_path)
    answer = allotment("run", "two_pairs", "--resume", "out", "--rounds", "5")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`rounds` should be at least 10", "Found `rounds = 5`")
    assert records_in(tmp_path) == before


def test_another_experiment_is_refused(allotment: Command) -> None:
    allotment(*RUN, "--out", "out", *SHORT)
    answer = allotment("run", "digits", "--resume", "out")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`experiment` should be", "'two_pairs'. Found 'digits'")


def test_options_that_agree_may_be_given_again(allotment: Command) -> None:
    allotment(*RUN, "--out", "out", "--set", "batch_size=8", *SHORT)
    again = ("--set", "batch_size=8", "--rounds", "20", "--first-seed", "0", "--device", "cpu")
    assert allotment(*RUN, "--resume", "out", *again).status == 0
    assert len(read_runs(Path("out"))) == 2


def test_settings_are_those_the_sweep_began_with(allotment: Command) -> None:
    changed = ("--set", "batch_size=8", "--set", "allocation.p_init=0.7", "--rounds", "30")
    allotment(*RUN, "--out", "out", *changed, *SHORT)
    assert allotment("run", "two_pairs", "--resume", "out").status == 0
    settings = [run.header.settings for run in read_runs(Path("out"))]
    assert [s["training"]["batch_size"] for s in settings] == [8, 8]
    assert [s["training"]["rounds"] for s in settings] == [30, 30]
    assert [s["allocation"]["p_init"] for s in settings] == [0.7, 0.7]


@mark.parametrize("began_with", [(), ("--rounds", "40")])
def test_the_command_on_record_is_one_that_has_as_many_rounds(
    began_with: tuple[str, ...], allotment: Command
) -> None:
    allotment(*RUN, *began_with, "--out", "out", *SHORT)
    answer = allotment("run", "two_pairs", "--resume", "out", "--rounds", "10")
    assert (answer.status, answer.error) == (0, "")
    ended = read_runs(Path("out"))
    assert {run.outcome.rounds for run in ended} == {10}
    expected = "allotment run two_pairs --runs 2 --method gumbel --out out --minutes 1e-9"
    assert {run.header.command for run in ended} == {f"{expected} --rounds 10"}


def test_a_folder_is_either_new_or_gone_on_with(allotment: Command) -> None:
    answer = allotment(*RUN, "--out", "a", "--resume", "b")
    assert answer.status == 2
    assert_one_sentence(answer.error, "--resume: not allowed with argument --out")


@mark.parametrize(
    ("options", "parts"),
    [
        (("--minutes", "0"), ("`minutes` should be above 0", "0.0")),
        (("--checkpoint-every", "15"), ("should be a multiple of 10 rounds", "15")),
        (("--checkpoint-every", "0"), ("`checkpoint-every` should be at least 1", "0")),
    ],
)
def test_bad_limits_are_answered(
    options: tuple[str, ...], parts: tuple[str, ...], allotment: Command, tmp_path: Path
) -> None:
    answer = allotment(*RUN, *options)
    assert answer.status == 1
    assert_one_sentence(answer.error, *parts)
    assert not list(tmp_path.iterdir())


def test_determinism_is_recorded_and_ends_with_the_sweep(allotment: Command) -> None:
    assert allotment(*RUN, "--deterministic").status == 0
    assert {run.environment.deterministic for run in read_runs(Path("runs"))} == {True}
    assert not torch.are_deterministic_algorithms_enabled()
    with determinism(True):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.deterministic
    with determinism(False):
        assert not torch.are_deterministic_algorithms_enabled()


def test_two_sweeps_in_one_folder_that_were_stopped_can_both_be_resumed(allotment: Command) -> None:
    first = ("run", "two_pairs", "--runs", "1", "--method", "gumbel")
    second = ("run", "two_pairs", "--runs", "1", "--method", "no_sharing")
    assert allotment(*first, "--out", "out", *SHORT).status == 0
    assert allotment(*second, "--out", "out", *SHORT).status == 0
    answer = allotment("run", "two_pairs", "--resume", "out", "--method", "gumbel")
    assert (answer.status, answer.error) == (0, "")
    assert [run.header.method for run in read_runs(Path("out"))] == ["gumbel"]
    assert allotment("run", "two_pairs", "--resume", "out").status == 0  # what is not over yet
    methods = [run.header.method for run in read_runs(Path("out"))]
    assert methods == ["gumbel", "no_sharing"]
    assert "Nothing is left" in allotment("run", "two_pairs", "--resume", "out").out


def test_two_sweeps_over_other_values_in_one_folder_can_both_be_resumed(
    allotment: Command,
) -> None:
    sweep = ("sweep", "two_pairs", "--runs", "1", "--method", "gumbel")
    values = ["penalties.budget=0.3,0.5", "penalties.budget=0.7,0.9"]
    for over in values:
        assert allotment(*sweep, "--over", over, "--out", "out", *SHORT).status == 0
    for over in values:
        answer = allotment("sweep", "two_pairs", "--resume", "out", "--over", over)
        assert (answer.status, answer.error) == (0, "")
    assert len(read_runs(Path("out"))) == 4


def test_no_option_on_record_may_have_another_type(allotment: Command) -> None:
    assert allotment(*RUN, "--out", "out", *SHORT).status == 0
    path = Path("out/launch.json")
    options = json.loads(path.read_text())
    for name in options:
        path.write_text(json.dumps(options | {name: [1]}))
        answer = allotment("run", "two_pairs", "--resume", "out")
        assert answer.status == 1
        assert_one_sentence(answer.error, "`out/launch.json` damaged", f"`{name}` should not be")


def test_a_refused_sweep_leaves_the_one_before_it_to_be_resumed(allotment: Command) -> None:
    assert allotment(*RUN, "--out", "out", *SHORT).status == 0
    before = records_in(Path("out"))
    other = ("run", "two_pairs", "--runs", "1", "--method", "no_sharing", "--set", "crop=2")
    assert allotment(*other, "--out", "out").status == 1
    assert records_in(Path("out")) == before


def test_a_sweep_whose_runs_all_fail_says_so(allotment: Command) -> None:
    answer = allotment(*RUN, "--out", "out", "--set", "learning_rate=1e30")
    assert answer.status == 1
    assert_one_sentence(answer.error, "a run that finishes", "Found 2 in `out`")
    assert len(read_runs(Path("out"))) == 2
