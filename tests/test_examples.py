"""Each example is a script that runs by itself, in a folder of its own."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

from pytest import CaptureFixture, MonkeyPatch, importorskip, mark, param

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
ALONE = "own_loop"  # every day in a process of its own; the others only nightly
NEEDS = {"torchjd_gradients": "torchjd", "optuna_search": "optuna"}  # what a GPU's machine may lack


def test_there_are_examples() -> None:
    assert ALONE in {path.stem for path in EXAMPLES}


@mark.filterwarnings("default")  # as for a script: what packages warn of is not ours
@mark.parametrize(
    "path", [path for path in EXAMPLES if path.stem != ALONE], ids=lambda path: path.stem
)
def test_an_example_runs(
    path: Path, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    importorskip(NEEDS.get(path.stem, "torch"))
    # Here, since a process of its own would spend most of its time on imports.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out, "An example should print what it found."


@mark.parametrize(
    "path",
    [param(path, id=path.stem, marks=[mark.slow] * (path.stem != ALONE)) for path in EXAMPLES],
)
def test_an_example_runs_in_a_process_of_its_own(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(path)]
    # Tests run on all cores, and threads that wait for each other would only be in their way.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "An example should print what it found."
