"""Each example is a script that runs by itself, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

from pytest import mark

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert EXAMPLES


@mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(path)]
    # Tests run on all cores, and threads that wait for each other would only be in their way.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "An example should print what it found."
