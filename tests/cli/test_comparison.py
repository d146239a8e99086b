"""All ways of sharing on a suite, from the command to the kept rates."""

from dataclasses import replace
from pathlib import Path

from pytest import MonkeyPatch, fixture, mark

from allotment.cli._parser import _SUITES
from allotment.experiments import RateSearch
from allotment.paper import EXPERIMENTS, SUITES
from allotment.records import read_kept, read_kept_rates, read_rates, read_runs
from tests.cli.conftest import Command

RUN = ("run", "comparison", "--suite", "two_pairs", "--method", "gumbel", "--runs", "1")


@fixture
def searching(allotment: Command, monkeypatch: MonkeyPatch) -> Command:
    """The command line, with a small search before the runs on two pairs."""
    name = "comparison_two_pairs"
    search = RateSearch(factors=(1.0, 3.0), n_runs=1)
    monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], search=search))
    return allotment


def test_a_comparison_is_searched_run_resumed_and_kept(searching: Command) -> None:
    answer = searching(*RUN, "--out", "out")
    assert (answer.status, answer.error) == (0, "")
    assert "Gumbel-Matrix, rates x 3 (2 runs)" in answer.out
    assert list(read_rates(Path("out"))) == ["gumbel"]
    (record,) = read_runs(Path("out"))
    assert record.header.experiment == "comparison_two_pairs"
    assert record.outcome.n_used is not None and len(record.outcome.n_used) == 4
    assert "Nothing is left" in searching(*RUN, "--resume", "out").out
    again = searching("run", "comparison_two_pairs", "--resume", "out")
    assert again.status == 0 and "Nothing is left" in again.out
    kept = searching("keep", "out")
    assert kept.out.splitlines()[-1] == "Kept: results/rates/comparison_two_pairs.json"
    assert list(read_kept_rates(Path("results"), "comparison_two_pairs")) == ["gumbel"]
    assert len(read_kept(Path("results"))) == 1  # rates are no runs


def test_the_time_may_be_up_in_the_search(searching: Command) -> None:
    stopped = searching(*RUN, "--out", "out", "--minutes", "0.00001")
    assert stopped.status == 0 and "To resume: allotment run comparison_two_pairs" in stopped.out
    assert read_rates(Path("out")) == {}
    assert searching("run", "comparison", "--suite", "two_pairs", "--resume", "out").status == 0
    assert len(read_runs(Path("out"))) == 1


@mark.parametrize(
    ("arguments", "message"),
    [
        (["comparison"], "`suite` should be one of 'two_pairs', 'digits'"),
        (["comparison", "--suite", "census_"], "Did you mean 'census'?"),
        (["digits", "--suite", "digits"], "`suite` should come with `comparison`"),
    ],
)
def test_which_suite_has_to_be_said(arguments: list[str], message: str, allotment: Command) -> None:
    answer = allotment("run", *arguments)
    assert answer.status == 1 and message in answer.error


def test_the_help_names_the_suites() -> None:
    assert _SUITES == SUITES
