"""What the repository's shape promises: imports, the printed tree, docstrings, pages that run.

CONTRIBUTING.md holds a line ``## The tree`` and, after it, one fenced block: two spaces for each
level, a folder as ``name/  purpose``, a file as ``name.py  purpose``, at least two spaces before
the purpose. It starts with ``allotment/``. A folder's line stands for its ``__init__.py``::

    allotment/             the public names
      _checks.py           rules for arguments, one sentence each
      cli.py               the command line
      network/             components, allocations, and the layers that join them
        _layer.py          components side by side, combined by an allocation
        allocation/        who uses what
          _gumbel.py       gates that are learnt
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from textwrap import dedent

from pytest import MonkeyPatch, mark

from allotment import FitResult, Outcome, Progress, Run, Task, TrainingSettings
from allotment._schema import Evaluation, Point, RunHeader, TrainingState

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "allotment"

PUBLIC_VALUES: list[type] = [
    *(Task, Run, TrainingSettings, FitResult, Progress),
    *(Evaluation, Outcome, Point, RunHeader, TrainingState),
]

MAY_IMPORT: dict[str, set[str]] = {
    "data": set(),
    "tasks": {"data"},
    "network": set(),  # sizes and noise come in as arguments
    "training": {"tasks", "network"},
    "records": set(),  # the values it writes are plain dataclasses in a top-level file
    "analysis": {"records"},
    "report": {"records", "analysis"},
    "experiments": {"data", "tasks", "network", "training", "records", "analysis", "report"},
    "cli": {"data", "training", "records", "report", "experiments"},
}


def folders(root: Path) -> list[str]:
    """Returns the names of the folders right under ``root`` that hold Python files."""
    return sorted({file.relative_to(root).parts[0] for file in root.glob("*/**/*.py")})


def imported_modules(file: Path, root: Path) -> Iterator[list[str]]:
    """Yields what ``file`` imports from the package at ``root``, as its parts below the package.

    ``from ..network import extract`` is ``["network", "extract"]``; the package itself is ``[]``.
    """
    here = [root.name, *file.parent.relative_to(root).parts]
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        yield from (name[1:] for name in names if name[0] == root.name)


def imported_folders(file: Path, root: Path) -> set[str]:
    """Returns the first part below the package of all that ``file`` imports from it.

    Private top-level files and names such as ``__version__`` are open to all and left out. The bare
    package, which holds everything, is returned under its own name.
    """
    firsts = {parts[0] if parts else root.name for parts in imported_modules(file, root)}
    return {first for first in firsts if not first.startswith("_")}


def assert_imports_follow_the_data(root: Path) -> None:
    """Asserts that every file under ``root`` imports only what ``MAY_IMPORT`` grants its folder."""
    for folder in folders(root):
        assert folder in MAY_IMPORT, f"`{folder}` should have a line in MAY_IMPORT."
        for file in (root / folder).rglob("*.py"):
            strangers = imported_folders(file, root) - MAY_IMPORT[folder] - {folder}
            assert not strangers, f"{file} should not import {sorted(strangers)}."
    for file in root.glob("_[!_]*.py"):
        strangers = imported_folders(file, root)
        assert not strangers, f"{file} is open to all and should not import {sorted(strangers)}."


def read_tree(page: str) -> dict[str, str]:
    """Returns the purpose of each file in the page's tree, by its path below the package."""
    block = re.search(r"^## The tree$.*?^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert block, "The page should have a fenced block after the line `## The tree`."
    purposes: dict[str, str] = {}
    above: list[str] = []
    for line in filter(str.strip, block[1].splitlines()):
        entry = re.fullmatch(r"((?:  )*)(\w+(?:/|\.py)) {2,}(\S.*)", line)
        assert entry, f"A line of the tree should read `name.py  purpose`. Found `{line}`."
        indent, name, purpose = entry.groups()
        level = len(indent) // 2
        assert level <= len(above), f"A line of the tree should stand below its folder: `{line}`."
        above = above[:level]
        if name.endswith("/"):
            above.append(name)
            name = "__init__.py"
        path = "".join(above) + name
        assert path not in purposes, f"The tree should name each file once. Found `{path}` twice."
        purposes[path] = purpose
    return purposes


def assert_tree_is_complete(page: str, root: Path) -> None:
    """Asserts that the page's tree names the files under ``root`` and no others."""
    listed = set(read_tree(page))
    real = {file.relative_to(root.parent).as_posix() for file in root.rglob("*.py")}
    assert not real - listed, f"The tree should name {sorted(real - listed)}."
    assert not listed - real, f"The tree names what is not there: {sorted(listed - real)}."


def assert_folders_say_what_they_are_for(root: Path) -> None:
    """Asserts that every folder of Python files has an ``__init__.py`` with a docstring."""
    for folder in {file.parent for file in root.rglob("*.py")}:
        page = folder / "__init__.py"
        assert page.exists(), f"{folder} should have an __init__.py."
        assert ast.get_docstring(ast.parse(page.read_text())), f"{page} should have a docstring."


def run_python_blocks(page: Path) -> int:
    """Runs the Python blocks of a page in one namespace; returns how many there are."""
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": "__main__"}
    fence = re.compile(r"^( *)```python\b[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
    blocks = list(fence.finditer(text))
    for block in blocks:
        # As many empty lines as stand before it, so that a traceback gives the line of the page.
        source = "\n" * text[: block.start(2)].count("\n") + dedent(block[2])
        exec(compile(source, str(page), "exec"), namespace)
    return len(blocks)


def pages() -> list[Path]:
    """Returns the pages whose Python blocks are run."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def test_imports_follow_the_data() -> None:
    assert_imports_follow_the_data(ROOT)


def test_the_tree_that_is_printed_is_the_real_one() -> None:
    assert_tree_is_complete((REPOSITORY / "CONTRIBUTING.md").read_text(), ROOT)


def test_every_folder_says_what_it_is_for() -> None:
    assert_folders_say_what_they_are_for(ROOT)


@mark.parametrize("value", PUBLIC_VALUES, ids=lambda value: value.__name__)
def test_every_field_is_explained_where_help_shows_it(value: type) -> None:
    _, _, attributes = (value.__doc__ or "").partition("Attributes:\n")
    explained = re.findall(r"^ {8}(\w+): \S", attributes, re.MULTILINE)
    assert explained == [field.name for field in fields(value)]


@mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_examples_of_the_page_run(page: Path, monkeypatch: MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run_python_blocks(page)
