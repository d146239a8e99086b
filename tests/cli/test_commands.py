"""From a command to records, pages and kept results."""

import json
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pytest import MonkeyPatch, mark

import allotment as al
from allotment.cli import _demo
from allotment.cli._parser import make_parser
from allotment.data import DATASETS
from allotment.paper import EXPERIMENTS, KINDS, experiment_on
from allotment.records import read_kept, read_runs
from tests.cli.conftest import Command
from tests.experiments.toy import make_small_data

RUN = ("run", "two_pairs", "--runs", "2", "--out", "out")


class Fetched(HTMLParser):
    """Collects whatever a page would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("src", "href", "xlink:href", "srcset")
        links = [value or "" for name, value in attrs if name in names]
        self.links += [link for link in links if not link.startswith(("#", "data:"))]


def test_the_list_names_every_experiment_method_and_data_set(allotment: Command) -> None:
    answer = allotment("list")
    assert answer.status == 0
    # Those of a kind are listed as one.
    names = {f"{kind}_{suite}" for kind, (_, suites) in KINDS.items() for suite in suites}
    for experiment in (each for each in EXPERIMENTS.values() if each.name not in names):
        lines = answer.out.splitlines()
        (first,) = [i for i, line in enumerate(lines) if line.startswith(f"{experiment.name} ")]
        summary, methods, rest = lines[first : first + 3]
        assert experiment.summary in summary
        assert all(method.name in methods for method in experiment.methods)
        assert all(name in rest for name in experiment.data.sets or ("none to download",))
        assert f"runs: {experiment.n_runs} " in rest
    for kind, (text, suites) in KINDS.items():
        words = answer.out[answer.out.index(text) :].split()
        every = {m.name for suite in suites for m in experiment_on(kind, suite).methods}
        assert every | set(suites) <= set(words), kind


def test_a_run_says_what_it_found_and_where_its_records_are(allotment: Command) -> None:
    answer = allotment(*RUN)
    assert (answer.status, answer.error) == (0, "")
    assert "find the two pairs" in answer.out or "found the two pairs" in answer.out
    for label in ("No sharing", "Shared bottom", "Gumbel-Matrix"):
        assert any(line.startswith(label) for line in answer.out.splitlines())
    assert "Records: out" in answer.out
    assert len(read_runs(Path("out"))) == 6


def test_output_that_nobody_watches_comes_line_by_line(allotment: Command) -> None:
    answer = allotment(*RUN, "--method", "gumbel")
    assert "\r" not in answer.out
    assert "\x1b" not in answer.out
    rounds = [line.split()[1] for line in answer.out.splitlines() if line.startswith("  round")]
    assert rounds == ["10/20", "20/20"]
    assert "Gumbel-Matrix (2 runs)" in answer.out


def test_slow_runs_leave_a_line_before_their_next_tenth(
    allotment: Command, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.cli._display.PAUSE", 0.0)
    answer = allotment(*RUN, "--method", "gumbel", "--runs", "1", "--rounds", "200")
    rounds = [line.split()[1] for line in answer.out.splitlines() if line.startswith("  round")]
    assert rounds == [f"{done}/200" for done in range(10, 201, 10)]


def test_options_reach_the_runs(allotment: Command) -> None:
    options = ("--method", "gumbel", "--runs", "1", "--first-seed", "7", "--rounds", "10")
    settings = ("--set", "training.batch_size=8", "--set", "allocation.p_init=0.75")
    assert allotment("run", "two_pairs", *options, *settings).status == 0
    (record,) = read_runs(Path("runs/two_pairs"))
    assert record.header.seed == 7
    assert record.outcome.rounds == 10
    assert record.header.settings["training"]["batch_size"] == 8
    assert record.header.settings["allocation"] == {"kind": "GumbelMatrix", "p_init": 0.75}
    assert al.load("runs/two_pairs/gumbel/seed-007").n_tasks == 4


def test_a_budget_can_be_set(allotment: Command) -> None:
    assert allotment(*RUN, "--method", "gumbel", "--set", "budget=0.5").status == 0
    settings = [run.header.settings["training"] for run in read_runs(Path("out"))]
    assert {training["penalties"]["budget"] for training in settings} == {0.5}


def test_a_plan_is_printed_for_each_run_group_and_nothing_is_trained(
    allotment: Command, tmp_path: Path
) -> None:
    answer = allotment("run", "digits", "--plan", "--runs", "2", "--device", "cpu")
    assert (answer.status, answer.error) == (0, "")
    first, second = answer.out.strip().split("\n\n")
    assert first.startswith("Run group 1: No sharing + Shared bottom (sum) + Shared bottom (mean)")
    assert second.startswith("Run group 2: Gumbel-Matrix + Gumbel-Matrix, budget 0.75 (4 runs)")
    for text in (first, second):
        for part in ("runs on cpu", "vmapped: ", "traced: "):
            assert part in text
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_one_page_that_needs_nothing_beside_itself(allotment: Command) -> None:
    allotment(*RUN)
    answer = allotment("report", "out", "-o", "pages/report.html")
    assert answer.status == 0
    page = Path("pages/report.html").read_text()
    assert str(Path("pages/report.html")) in answer.out
    assert Fetched(page).links == []
    assert page.count("<script") == 2  # its numbers, and what shows them
    assert page.count("<svg") >= 3
    assert EXPERIMENTS["two_pairs"].title in page
    assert len(page) < 1_000_000


def test_a_report_may_be_of_several_folders(allotment: Command) -> None:
    for seed in ("0", "1"):
        allotment("run", "two_pairs", "--runs", "1", "--first-seed", seed, "--out", f"out/{seed}")
    assert allotment("report", "out/0", "out/1", "out/0", "out").status == 0
    assert "6 recorded runs" in Path("report.html").read_text()  # each once


def test_what_is_written_beside_kept_results_stands_on_their_page(allotment: Command) -> None:
    a_repository()
    allotment(*RUN)
    allotment("keep", "out")
    Path("results/two_pairs/remark.md").write_text("Mind the gap.\n")
    allotment("docs")
    assert "\n\nMind the gap.\n\n" in Path("docs/results.md").read_text()
    allotment("report", "out")
    assert "Mind the gap." not in Path("report.html").read_text()


def a_repository() -> None:
    Path("docs").mkdir()
    blocks = {
        "README.md": ("results", "speed", "map", "ranks"),
        "docs/scale.md": ("growth", "launchers", "lightning", "large", "devices"),
        "docs/deploy.md": ("budgets", "trunk", "growth"),
    }
    for page, names in blocks.items():
        marks = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in names)
        Path(page).write_text(f"before\n{marks}after\n")


def test_kept_runs_become_the_results_page_and_its_figures(allotment: Command) -> None:
    a_repository()
    allotment(*RUN)
    answer = allotment("keep", "out")
    assert answer.status == 0
    assert answer.out.splitlines() == [
        f"Kept: results/two_pairs/{method}.json"
        for method in ("gumbel", "no_sharing", "shared_bottom")
    ]
    assert len(read_kept(Path("results"))) == 6
    assert allotment("docs").status == 0
    page = Path("docs/results.md").read_text()
    assert "| Gumbel-Matrix |" in page
    readme = Path("README.md").read_text()
    assert readme.startswith("before\n") and readme.endswith("after\n")
    assert "| Two pairs of equal functions |" in readme
    assert "sd (n=2)" in page
    figures = {path.name for path in Path("docs/figures").iterdir()}
    assert "two_pairs-gumbel-allocation.png" in figures
    assert all(f"(figures/{name})" in page for name in figures)


def test_the_same_kept_runs_give_the_same_page(allotment: Command) -> None:
    a_repository()
    allotment(*RUN, "--method", "no_sharing")
    allotment("keep", "out")
    pages = []
    for _ in range(2):
        allotment("docs")
        pages.append(Path("docs/results.md").read_bytes())
    assert pages[0] == pages[1]


def test_data_that_is_missing_is_listed_so(allotment: Command) -> None:
    answer = allotment("data", "list")
    assert answer.status == 0
    for name in ("mnist", "fashion_mnist", "cifar100", "omniglot", "census"):
        (line,) = [line for line in answer.out.splitlines() if line.startswith(f"{name} ")]
        assert "missing" in line


def test_data_that_is_missing_fails_the_check_and_is_named(allotment: Command) -> None:
    answer = allotment("data", "check")
    assert answer.status == 1
    assert answer.out.count("missing: ") == 5
    answer = allotment("data", "check", "mnist")
    assert answer.status == 1
    assert answer.out.startswith("mnist: missing: The data set `mnist` should be in `")
    assert answer.out.endswith("this gets it: allotment data prepare mnist\n")


def test_data_that_is_damaged_or_sound_is_told_apart(
    allotment: Command, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    make_small_data(tmp_path / "data", monkeypatch, "mnist", "fashion_mnist")
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], checks=()))
    here = ("--data-dir", "data")
    answer = allotment("data", "check", "mnist", *here)
    assert (answer.status, answer.out) == (0, "mnist: sound\n")
    answer = allotment("data", "check", "mnist", "fashion_mnist", *here)
    assert answer.status == 1
    assert answer.out.startswith(
        "mnist: sound\nfashion_mnist: damaged: In `data/fashion_mnist.npz`"
    )


def test_the_version_is_told(allotment: Command) -> None:
    assert allotment("--version").out == f"allotment {al.__version__}\n"


def test_help_loads_no_command() -> None:
    slow = ("rich", "pooch", "sklearn", "allotment.paper", "allotment.cli._run")
    source = f"""
import sys
from allotment.cli import main
try:
    main(["--help"])
except SystemExit:
    assert not set({slow}) & set(sys.modules), set({slow}) & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: allotment")


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """Yields a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


@mark.parametrize("parser", list(parsers(make_parser())), ids=lambda parser: parser.prog)
def test_every_command_and_option_says_what_it_does_and_its_default(
    parser: ArgumentParser, monkeypatch: MonkeyPatch
) -> None:
    assert parser.description
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            assert all(choice.help for choice in action._choices_actions)
            continue
        assert action.help, action
        explained = {"help", "version", "resume"}
        if action.dest not in explained and (not action.required or action.nargs == "*"):
            assert "(default: " in action.help, action
    monkeypatch.setenv("COLUMNS", "80")
    assert all(len(line) <= 80 for line in parser.format_help().splitlines())


def test_names_are_whole_in_a_narrow_terminal(allotment: Command, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "shared_bottom_mean" in allotment("list").out
    folder = "data/" + "x" * 40
    listed = allotment("data", "list", "--data-dir", folder).out
    assert "…" not in listed


def test_the_demo_leaves_a_report_and_never_takes_an_old_folder(
    allotment: Command, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_demo, "SIZES", dict.fromkeys(_demo.SIZES, (1, 10)))
    Path("runs/demo-1").mkdir(parents=True)
    answer = allotment("demo")
    assert (answer.status, answer.error) == (0, "")
    assert "baselines=True" in answer.out  # how to find out whether to use it
    for name in _demo.INTRODUCTIONS:
        assert EXPERIMENTS[name].title in answer.out
    page = Path("runs/demo-2/report.html")
    assert page.is_file()
    assert Fetched(page.read_text()).links == []
    assert str(page.resolve()) in answer.out.replace("\n", "")
    n_methods = sum(len(EXPERIMENTS[name].methods) for name in _demo.INTRODUCTIONS)
    summaries = list(Path("runs/demo-2").rglob("summary.json"))
    assert len(summaries) == n_methods
    assert all(json.loads(path.read_text())["status"] == "finished" for path in summaries)
    assert list(Path("runs/demo-1").iterdir()) == []
