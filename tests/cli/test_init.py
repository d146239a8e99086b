"""A project of one's own, written by `allotment init`, runs as it is."""

import csv
import subprocess
import sys
from pathlib import Path

from pytest import fixture, importorskip, mark

import allotment as al
from allotment.experiments import read_experiment
from tests.cli.conftest import Command
from tests.cli.test_bad_input import assert_one_sentence

REPOSITORY = Path(__file__).parents[2]
SHORT = ("--runs", "1", "--rounds", "20", "--set", "evaluate_every=10")


@fixture
def flats(allotment: Command, tmp_path: Path) -> Path:
    """A project of this name, in the folder that commands run in."""
    answer = allotment("init", "flats")
    assert (answer.status, answer.error) == (0, "")
    assert answer.out.splitlines()[-1] == "To train it: allotment run flats/experiment.py"
    return tmp_path / "flats"


def test_a_project_is_an_experiment_a_table_and_the_commands(flats: Path) -> None:
    found = sorted(path.name for path in flats.iterdir())
    assert found == ["README.md", "data.csv", "experiment.py"]
    readme = (flats / "README.md").read_text()
    assert "allotment run flats/experiment.py" in readme and "my_project" not in readme
    experiment = read_experiment(flats / "experiment.py").experiment
    assert experiment.name == "flats"
    assert [m.name for m in experiment.methods] == ["no_sharing", "shared_bottom", "gumbel"]


def test_the_table_is_the_same_each_time_and_has_gaps(flats: Path, allotment: Command) -> None:
    allotment("init", "again")
    assert (flats / "data.csv").read_bytes() == Path("again/data.csv").read_bytes()
    with (flats / "data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    n_missing = {name: sum(row[name] == "" for row in rows) for name in rows[0]}
    assert {name for name, n in n_missing.items() if n} == {
        *("year_built", "rent", "sold_quickly", "energy_class"),
    }


def test_a_project_runs_as_it_is_and_its_networks_come_back(
    flats: Path, allotment: Command
) -> None:
    answer = allotment("run", "flats/experiment.py", *SHORT)
    assert (answer.status, answer.error) == (0, "")
    assert "Test loss" in answer.out and "Gumbel-Matrix" in answer.out
    network = al.load("runs/flats/gumbel/seed-000", experiment="flats/experiment.py")
    assert len(network.task_names) == 5 and network.task_names[0] == "price"
    assert allotment("report", "runs/flats").status == 0
    page = Path("report.html").read_text()
    for said in ("Test loss, by task", "Test accuracy, %, by task", "Validation loss during"):
        assert said in page
    assert "Gumbel-Matrix" in page  # its label, which no record of a run holds


@mark.parametrize("command", [("check",), ("format", "--check")])
def test_the_experiment_keeps_the_rules_of_our_own_code(
    command: tuple[str, ...], flats: Path
) -> None:
    importorskip("ruff", reason="ruff is not on a machine that only runs tests")
    config = ["--config", str(REPOSITORY / "pyproject.toml"), "--no-cache"]
    path = str(flats / "experiment.py")
    ruff = [sys.executable, "-m", "ruff", *command, *config, path]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_folder_with_something_in_it_is_left_alone(flats: Path, allotment: Command) -> None:
    (flats / "README.md").write_text("mine")
    answer = allotment("init", "flats")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`NAME` should be a new or empty folder", "`flats`")
    assert (flats / "README.md").read_text() == "mine"


def test_an_empty_folder_is_filled(allotment: Command, tmp_path: Path) -> None:
    (tmp_path / "deep" / "my flats").mkdir(parents=True)
    assert allotment("init", "deep/my flats").status == 0
    assert read_experiment("deep/my flats/experiment.py").experiment.name == "my_flats"


def test_a_project_is_not_called_like_an_experiment_that_is_there(allotment: Command) -> None:
    answer = allotment("init", "mnist")
    assert answer.status == 1
    assert_one_sentence(answer.error, "names that `allotment list` shows", "`mnist`")
    assert not Path("mnist").exists()


def test_a_name_with_a_space_is_quoted_in_commands(allotment: Command, tmp_path: Path) -> None:
    answer = allotment("init", "my flats/x")
    assert answer.out.splitlines()[-1] == "To train it: allotment run 'my flats/x/experiment.py'"
    readme = (tmp_path / "my flats" / "x" / "README.md").read_text()
    assert "allotment run 'my flats/x/experiment.py' --resume" in readme
    assert 'experiment="my flats/x/experiment.py")' in readme
