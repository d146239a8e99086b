"""Experiments in files of one's own, on the command line."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pytest import fixture, mark, raises

import allotment as al
from allotment.records import read_run
from tests.cli.conftest import Command
from tests.cli.test_bad_input import assert_one_sentence, files

OWN = """
from pathlib import Path

import torch
from torch import nn

import allotment as al
from allotment.experiments import Experiment, Method, using

N = int(Path(__file__).with_name("n.txt").read_text())  # data beside the file
torch.manual_seed(0)


def network(allocate, outputs):
    layer = al.ModularLayer([nn.Linear(4, 4) for _ in range(2)], allocate(2))
    heads = {name: nn.Linear(4, n) for name, n in outputs.items()}
    return al.MultiTaskNetwork(None, [layer], heads)


def examples():
    x = torch.randn(N, 4)
    return x, x[:, :1] ** 2


OWN = Experiment(
    name="own",
    tasks=[al.Task(name, examples()) for name in "ab"],
    network=network,
    methods=[
        Method(name="shared", label="Shared by all", allocation=using(al.SharedBottom)),
        Method(name="gumbel", allocation=using(al.GumbelMatrix)),
    ],
    training=al.TrainingSettings(rounds=20),
)
"""
RUN = ("run", "project/own.py")


@fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A file with an experiment, in `project` of the folder that commands run in."""
    path = tmp_path / "project" / "own.py"
    path.parent.mkdir()
    path.write_text(OWN)
    path.with_name("n.txt").write_text("30")
    before = list(sys.path)
    yield path
    sys.path[:] = before


def test_a_file_is_run_like_an_experiment_that_is_there(own: Path, allotment: Command) -> None:
    answer = allotment(*RUN, "--runs", "2", "--first-seed", "3", "--method", "gumbel")
    assert (answer.status, answer.error) == (0, "")
    assert "Records: runs/own" in answer.out and "n=2" in answer.out
    assert sorted(path.name for path in Path("runs/own/gumbel").iterdir()) == [
        *("seed-003", "seed-004"),
    ]
    plan = allotment(*RUN, "--plan", "--set", "batch_size=8", "--device", "cpu")
    assert plan.status == 0 and "2 runs on cpu" not in plan.out and "1 run on cpu" in plan.out


def test_runs_say_where_their_experiment_came_from(own: Path, allotment: Command) -> None:
    allotment(*RUN, "--method", "gumbel")
    assert Path("runs/own/experiment.py").read_text() == OWN
    environment = read_run(Path("runs/own/gumbel/seed-000")).environment
    assert environment.source.startswith(f"{own} (SHA-256 ")
    source = json.loads(Path("runs/own/launch.json").read_text())["source"]
    assert source["path"] == str(own) and len(source["sha256"]) == 64
    allotment("report", "runs/own")
    assert f"{own} (SHA-256 " in Path("report.html").read_text()


def test_a_copy_is_never_overwritten(own: Path, allotment: Command) -> None:
    allotment(*RUN, "--method", "gumbel")
    own.write_text(OWN.replace("rounds=20", "rounds=10"))
    assert allotment(*RUN, "--method", "shared").status == 0
    assert Path("runs/own/experiment.py").read_text() == OWN
    assert "rounds=10" in Path("runs/own/experiment-2.py").read_text()


def test_pages_need_neither_the_file_nor_its_copy(own: Path, allotment: Command) -> None:
    allotment(*RUN)
    shutil.rmtree(own.parent)
    Path("runs/own/experiment.py").write_text("raise SystemExit('this code should not run')")
    for folder in ("runs", "runs/own", "runs/own/shared/seed-000"):
        assert allotment("report", folder).status == 0
        page = Path("report.html").read_text()
        assert "Shared by all" in page and "Loss over the last 20 rounds" in page
    assert allotment("embeddings", "runs/own").status == 0
    assert allotment("keep", "runs/own", "--results", "kept").status == 0
    assert files(Path("kept/own")) == ["gumbel.json", "shared.json"]


def test_a_network_is_loaded_by_naming_what_runs(own: Path, allotment: Command) -> None:
    allotment(*RUN, "--method", "gumbel")
    folder = "runs/own/gumbel/seed-000"
    with raises(ValueError, match=r"a copy of its file, which naming it would run, is `.*`\.$"):
        al.load(folder)
    gates = read_run(Path(folder)).outcome.matrix
    for experiment in (own, "project/own.py", "project/own.py:OWN", "runs/own/experiment.py"):
        np.testing.assert_array_equal(al.load(folder, experiment=experiment).matrix(), gates)


def test_the_copy_runs_where_the_original_was_while_that_is_there(
    own: Path, allotment: Command
) -> None:
    allotment(*RUN, "--method", "gumbel")
    folder, copy = "runs/own/gumbel/seed-000", "runs/own/experiment.py"
    own.unlink()
    al.load(folder, experiment=copy)  # the data are still there
    shutil.rmtree(own.parent)
    with raises(ValueError, match=r"experiment\.py` should run .* FileNotFoundError in line 10: "):
        al.load(folder, experiment=copy)
    Path("runs/own/n.txt").write_text("30")
    al.load(folder, experiment=copy)


def test_a_sweep_that_was_stopped_goes_on(own: Path, allotment: Command) -> None:
    answer = allotment(*RUN, "--out", "out", "--minutes", "1e-9")
    assert answer.out.splitlines()[-1] == (
        "Stopped (time limit). To resume: allotment run project/own.py --resume out"
    )
    moved = own.with_name("moved.py")
    own.rename(moved)
    answer = allotment("run", "project/moved.py", "--resume", "out")
    assert (answer.status, answer.error) == (0, "")
    assert "Resuming after round 10." in answer.out and "may differ" not in answer.out
    assert "Shared by all" in answer.out


def test_a_sweep_goes_on_with_the_file_it_began_with(own: Path, allotment: Command) -> None:
    allotment(*RUN, "--out", "out", "--minutes", "1e-9")
    own.write_text(OWN + "# a remark\n")
    answer = allotment(*RUN, "--resume", "out")
    assert answer.status == 1
    command = "allotment run out/experiment.py --resume out"
    assert_one_sentence(answer.error, "`project/own.py` should be as it was when", command)
    assert allotment(*command.split()[1:]).status == 0
    source = json.loads(Path("out/launch.json").read_text())["source"]
    assert source["path"] == str(own)  # still where it came from
    answer = allotment("run", "two_pairs", "--resume", "out")
    assert_one_sentence(answer.error, "`experiment` should be", "'own'. Found 'two_pairs'")


def test_several_experiments_are_told_apart_by_name(own: Path, allotment: Command) -> None:
    second = "\nfrom dataclasses import replace\nSECOND = replace(OWN, name='second')\n"
    own.write_text(OWN + second)
    answer = allotment(*RUN)
    assert_one_sentence(answer.error, "should define one Experiment", "Found OWN and SECOND")
    answer = allotment("run", "project/own.py:SECND")
    assert_one_sentence(answer.error, "Found 'SECND'", "Did you mean 'SECOND'?")
    answer = allotment("run", "project/own.py:SECOND", "--minutes", "1e-9")
    assert answer.out.endswith("allotment run project/own.py:SECOND --resume runs/second\n")
    assert allotment("run", "project/own.py:SECOND", "--resume", "runs/second").status == 0


def test_a_module_beside_the_file_is_imported(own: Path, allotment: Command) -> None:
    own.with_name("beside_own.py").write_text("ROUNDS = 10\n")
    later = "def network(allocate, outputs):\n    import beside_own"
    own.write_text(OWN.replace("def network(allocate, outputs):", later))
    assert allotment(*RUN, "--method", "shared").status == 0


ERRORS = [
    ("x = 1", ("should define one Experiment at its top level", "Found none")),
    ("import torch\nx = (1,\n", ("Found SyntaxError in line 2: '(' was never closed",)),
    ("x = 1\n\ny = x / 0\n", ("Found ZeroDivisionError in line 3: division by zero",)),
    ("import sys\nsys.exit(3)", ("Found SystemExit in line 2: 3",)),
    ("import nothing_of_this_name", ("Found ModuleNotFoundError in line 1: No module named",)),
    (OWN.replace("rounds=20", "rounds=0"), ("Found ValueError in line 33: `rounds` should be",)),
    (OWN.replace("allocate(2))", "allocate(2)[0])"), ("Found TypeError in line 15: ",)),
    (OWN.replace("return al.Multi", "return {}['no'], al.Multi"), ("KeyError in line 17: 'no'",)),
    (OWN.replace('name="own"', 'name="mnist"'), ("another name than those that `allotment list`",)),
]


@mark.parametrize(("content", "parts"), ERRORS)
def test_a_mistake_in_a_file_is_told_in_one_sentence(
    content: str, parts: tuple[str, ...], own: Path, allotment: Command
) -> None:
    own.write_text(content)
    answer = allotment(*RUN)
    assert answer.status == 1
    assert_one_sentence(answer.error, "`project/own.py`", *parts)
    assert not Path("runs").exists()


@mark.parametrize(
    ("name", "parts"),
    [
        ("project/other.py", ("in a file that can be read", "`project/other.py`: No such file")),
        ("folder.py", ("`folder.py`: Is a directory",)),
        ("named", ("Found the folder `named`. Did you mean 'named/experiment.py'?",)),
        ("project", ("`experiment` should be one of", "'project'")),
    ],
)
def test_what_is_no_file_is_told(
    name: str, parts: tuple[str, ...], own: Path, allotment: Command, tmp_path: Path
) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "experiment.py").write_text(OWN)
    answer = allotment("run", name)
    assert answer.status == 1
    assert_one_sentence(answer.error, *parts)
