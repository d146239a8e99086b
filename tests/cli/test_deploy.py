"""Runs put to use from the command line: exports, predictions, and one sentence for bad input."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytest import MonkeyPatch, fixture, mark

import allotment as al
from allotment.cli import main
from allotment.paper import EXPERIMENTS, read_table
from tests.cli.conftest import Command
from tests.experiments.toy import toy

RUN = "runs/flats/gumbel/seed-000"
OWN = ("--experiment", "flats/experiment.py")


@fixture(scope="module")
def project(tmp_path_factory: Any) -> Path:
    """Trains a project of one's own, and digits, for a few rounds."""
    folder: Path = tmp_path_factory.mktemp("project")
    with MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(EXPERIMENTS, "digits", toy("digits", rounds=10, evaluate_every=None))
        few = ("--method", "gumbel", "--runs", "1", "--rounds", "10")
        assert main(["init", "flats"]) == 0
        assert main(["run", "flats/experiment.py", "--set", "evaluate_every=none", *few]) == 0
        assert main(["run", "digits", *few]) == 0
    return folder


@fixture
def here(allotment: Command, project: Path, monkeypatch: MonkeyPatch) -> Command:
    monkeypatch.chdir(project)
    return allotment


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_in_and_a_table_out(here: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "found.csv"
    tasks = ("--task", "price", "--task", "energy_class")
    answer = here("predict", RUN, *tasks, "flats/data.csv", "-o", str(out), *OWN)
    assert answer.status == 0, answer.error
    found = rows_of(out)
    given = rows_of(Path("flats/data.csv"))
    assert list(found[0]) == ["price", "energy_class", *(f"energy_class={c}" for c in "ABCD")]
    assert len(found) == len(given)
    network = al.load(RUN, experiment=OWN[1])
    table = read_table(RUN)
    assert table is not None
    columns: dict[str, Any] = {name: [row[name] for row in given] for name in given[0]}
    for name in ("size", "year_built", "distance", "outer_walls"):
        columns[name] = [float(text) if text else None for text in columns[name]]
    x = table.transform(columns)
    wanted = table.decode("price", al.predict(network, x, "price"))
    np.testing.assert_allclose([float(row["price"]) for row in found], wanted, rtol=1e-6)
    classes = table.decode("energy_class", al.predict(network, x, "energy_class"))
    assert [row["energy_class"] for row in found] == classes.tolist()
    shares = np.array([[float(row[f"energy_class={c}"]) for c in "ABCD"] for row in found])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
    assert (np.array(list("ABCD"))[shares.argmax(axis=1)] == classes).all()


def test_targets_and_cells_may_be_missing(here: Command, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    text = "district,size,year_built,distance,outer_walls\nhill,100,1950,2.5,2\nmoon,,1950,2.5,2\n"
    rows.write_text(text)
    answer = here("predict", RUN, "--task", "rent", str(rows), "-o", str(tmp_path / "o.npz"), *OWN)
    assert answer.status == 0, answer.error
    with np.load(tmp_path / "o.npz") as arrays:
        assert arrays["rent"].shape == (2,) and np.isfinite(arrays["rent"]).all()


def test_arrays_in_and_classes_out(here: Command, tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((7, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", images)
    out = tmp_path / "y.csv"
    run = "runs/digits/gumbel/seed-000"
    answer = here("predict", run, "--task", "digits", str(tmp_path / "x.npz"), "-o", str(out))
    assert answer.status == 0, answer.error
    wanted = al.predict(al.load(run), images, "digits").argmax(dim=1)
    assert [int(row["digits"]) for row in rows_of(out)] == wanted.tolist()
    assert list(rows_of(out)[0])[1] == "digits=0"


def test_an_export_says_how_near_it_is(here: Command, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "price.pt2"
    answer = here("export", RUN, "--task", "price", "--task", "rent", "-o", str(path), *OWN)
    assert answer.status == 0, answer.error
    assert f"Wrote {path}: price, rent." in answer.out
    assert "district (place among its categories, int64 [N])" in answer.out
    near = r"Largest difference from the network: \d.\de-\d\d, "
    assert re.search(near + "on 64 examples and 64 random inputs, by torch", answer.out)
    assert path.is_file()


def test_a_card_of_a_task(here: Command, tmp_path: Path) -> None:
    path = tmp_path / "cards" / "price.md"
    answer = here("card", RUN, "--task", "price", "-o", str(path), *OWN)
    assert answer.status == 0, answer.error
    assert "## What it shares, and with whom" in path.read_text()
    answer = here("card", RUN, "--task", "price", "--task", "rent", "-o", str(path), *OWN)
    assert answer.error == "allotment: A card should be of one task. Found ['price', 'rent'].\n"


def test_a_sweep_draws_what_each_value_reaches_and_costs(allotment: Command) -> None:
    few = ("--runs", "2", "--rounds", "10")
    answer = allotment("sweep", "two_pairs", "--over", "penalties.budget=0.5,1.0", *few)
    assert answer.status == 0, answer.error
    assert "To be chosen" in answer.out
    out = Path("runs/two_pairs_sweep")
    assert "<svg" in (out / "tradeoff.svg").read_text() and (out / "tradeoff.png").is_file()
    assert sorted(path.name for path in out.glob("gumbel_*")) == [
        "gumbel_budget=0.5",
        "gumbel_budget=1.0",
    ]
    assert allotment("report", str(out), "-o", "page.html").status == 0
    page = Path("page.html").read_text()
    assert "What is reached for what it costs" in page and "nobody should choose" in page
    resumed = allotment("sweep", "two_pairs", "--resume", str(out))
    assert resumed.status == 0 and "Nothing is left to do" in resumed.out, resumed.error
    assert allotment("sweep", "two_pairs").error.startswith("allotment: `over` should be a setting")


BAD_TEXT = "district,size,year_built,distance,outer_walls\nhill,big,1950,2.5,2\n"


@mark.parametrize(
    ("arguments", "sentence"),
    [
        (("export", "nowhere", "--task", "price"), "`run` should be the folder of a finished run"),
        (("export", "flats", "--task", "price"), "should have a `summary.json`. Found none"),
        (("export", RUN, "--task", "prize", *OWN), "`task` should be one of ['price', 'rent', "),
        (("export", RUN, "--task", "price"), "with --experiment FILE. Found a run of 'flats'"),
        (("export", RUN, "--task", "price", *OWN), "should end in .onnx or .pt2. Found `out.csv`"),
        (("predict", RUN, "--task", "price", "flats/README.md", *OWN), "end in .csv or .npz."),
        (("predict", RUN, "--task", "price", "none.csv", *OWN), "Found `none.csv`: No such file"),
        (("predict", RUN, "--task", "price", "bad.csv", *OWN), "'size' should hold numbers. Found"),
        (("predict", RUN, "--task", "price", "short.csv", *OWN), "2 values in each row"),
        (("predict", RUN, "--task", "price", "few.csv", *OWN), "Found ['a', 'b'], without 'size',"),
        (("predict", RUN, "--task", "price", "no.npz", *OWN), "should be an npz file of arrays"),
        (("predict", RUN, "--task", "price", "objects.npz", *OWN), "should be an npz file of arr"),
        (
            ("predict", "runs/digits/gumbel/seed-000", "--task", "digits", "other.npz"),
            "`inputs` should be such as the network takes for task 'digits'. Found inputs",
        ),
        (
            ("predict", "runs/digits/gumbel/seed-000", "--task", "digits", "narrow.npz"),
            "takes for task 'digits'. Found inputs of shape [B, 1, 8, 7] (float32): The head of",
        ),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: tuple[str, ...], sentence: str, here: Command, tmp_path: Path
) -> None:
    Path("bad.csv").write_text(BAD_TEXT)
    Path("short.csv").write_text("size,year_built\n1,2\n3\n")
    Path("few.csv").write_text("a,b\n1,2\n")
    Path("no.npz").write_text("no archive")
    np.savez("other.npz", np.zeros((3, 5), dtype=np.float32))
    np.savez("narrow.npz", np.zeros((3, 1, 8, 7), dtype=np.float32))
    np.savez("objects.npz", np.array([{"a": 1}], dtype=object))
    answer = here(*arguments, "-o", str(tmp_path / "out.csv"))
    assert answer.status == 1
    assert sentence in answer.error and answer.error.count("\n") == 1, answer.error
    assert not list(tmp_path.glob("out.*"))


def test_nothing_is_loaded_through_pickle(
    here: Command, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    original = torch.load

    def load(*arguments: Any, **options: Any) -> Any:
        assert options.get("weights_only") is True, "torch.load without weights_only=True"
        return original(*arguments, **options)

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something was unpickled")

    # Whatever torch imports for an export may derive from the class that is replaced below.
    assert here("export", RUN, "--task", "price", "-o", str(tmp_path / "x.pt2"), *OWN).status == 0
    monkeypatch.setattr(torch, "load", load)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    path = tmp_path / "price.pt2"
    assert here("export", RUN, "--task", "price", "-o", str(path), *OWN).status == 0
    out = tmp_path / "found.csv"
    assert (
        here("predict", RUN, "--task", "price", "flats/data.csv", "-o", str(out), *OWN).status == 0
    )
