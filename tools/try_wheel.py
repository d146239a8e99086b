"""Builds wheel and sdist, and tries the wheel where nothing of this repository is.

`make wheel` runs it. It makes an empty environment in a temporary folder, installs the wheel there
with the tested versions, and does what a newcomer does first: the README's first program, a run of
two methods, a report. The files are left in dist/.
"""

import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
COMMANDS = (
    ("--version",),
    ("run", "two_pairs", "--runs", "1", "--rounds", "60", "--out", "runs"),
    ("report", "runs", "-o", "report.html"),
)


def main() -> int:
    """Builds and tries; ends at the first command that fails."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        python = _environment(here / "build")
        _run([python, "-m", "pip", "install", "-q", "build"], here)
        _run([python, "-m", "build", "-o", REPOSITORY / "dist", REPOSITORY], here)
        wheel = built("whl")
        print(f"Built {wheel.name} and {built('tar.gz').name} in {_since(started)}.")
        python = _environment(here / "empty")
        constraints = REPOSITORY / "constraints.txt"
        _run([python, "-m", "pip", "install", "-q", "-c", constraints, wheel], here)
        print(f"Installed it in an empty environment by {_since(started)}.")
        (here / "readme.py").write_text(first_program((REPOSITORY / "README.md").read_text()))
        _run([python, "readme.py"], here)
        for words in COMMANDS:
            _run([python.parent / "allotment", *words], here)
        if not (here / "report.html").stat().st_size:
            raise SystemExit("`allotment report` should write a page. Found an empty one.")
    print(f"The wheel works. It took {_since(started)} in all.")
    return 0


def first_program(page: str) -> str:
    r"""Returns the first Python block of a page.

    >>> first_program("Text.\n```python\nx = 1\n```\n```python\ny = 2\n```")
    'x = 1\n'
    """
    found = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError("The page should have a Python block. Found none.")
    return found[1]


def built(ending: str) -> Path:
    """Returns the newest file in dist/ with this ending."""
    files = (REPOSITORY / "dist").glob(f"allotment-*.{ending}")
    return max(files, key=lambda path: path.stat().st_mtime)


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def _run(command: Sequence[str | Path], here: Path) -> None:
    """Runs a command outside of the repository, which it therefore cannot import from."""
    print("$", *(Path(word).name if Path(word).is_absolute() else word for word in command))
    done = subprocess.run([str(word) for word in command], cwd=here, check=False)
    if done.returncode:
        raise SystemExit(f"A command should end with status 0. Found {done.returncode}.")


def _since(started: float) -> str:
    return f"{time.perf_counter() - started:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
