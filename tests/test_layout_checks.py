"""The checks of the layout, tried on small trees that are wrong on purpose."""

from pathlib import Path

from pytest import mark, raises

from tests.test_layout import assert_folders_say_what_they_are_for, assert_imports_follow_the_data, assert_tree_is_complete, read_tree, run_python_blocks


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Writes ``files``, given by their paths, under ``root`` and returns it."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@mark.parametrize(
    "line",
    [
        "import allotment",
        "import allotment.training.loop as loop",
        "from allotment import training",
        "from allotment import Task",
        "from allotment.training import fit",
        "from allotment.training.loop import fit",
        "from ... import training",
        "from ...training import fit",
        "from ...cli import main",
        "def late():\n    from ...training import fit",
        "if TYPE_CHECKING:\n    from ...training import fit",
    ],
)
def test_an_import_against_the_data_is_seen(line: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"network/allocation/_gumbel.py": line})
    with raises(AssertionError, match=r"_gumbel\.py should not import \['\w+'\]"):
        assert_imports_follow_the_data(root)


@mark.parametrize(
    "line",
    [
        "import torch.training",
        "from torch import training",
        "from . import _base",
        "from .training import fit",
        "from ..training import fit",
        "from ...network import extract",
        "from ..._checks import check_fraction",
        "from ... import __version__, _checks",
        "from allotment._checks import check_fraction",
    ],
)
def test_an_import_along_the_data_passes(line: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"network/allocation/_gumbel.py": line})
    assert_imports_follow_the_data(root)


def test_a_private_file_at_the_top_imports_no_folder(tmp_path: Path) -> None:
    files = {"_checks.py": "from .network import extract", "cli.py": "from .network import extract"}
    with raises(AssertionError, match=r"_checks\.py is open to all"):
        assert_imports_follow_the_data(write_tree(tmp_path / "allotment", files))


def test_a_folder_without_a_line_in_the_table_is_seen(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"utilities/deep/misc.py": ""})
    with raises(AssertionError, match="`utilities` should have a line"):
        assert_imports_follow_the_data(root)


PAGE = """# Contributing

## The tree

Files, and what each is for.

```text
allotment/        the public names
  _checks.py      rules for arguments
  network/        components and allocations
    allocation/   who uses what
      _fixed.py   gates that stay as they are
    _layer.py     components side by side
```
"""

TREE = {
    "__init__.py": '"""Names."""',
    "_checks.py": "",
    "network/__init__.py": '"""Network."""',
    "network/_layer.py": "",
    "network/allocation/__init__.py": '"""Allocation."""',
    "network/allocation/_fixed.py": "",
}


def test_a_complete_tree_passes(tmp_path: Path) -> None:
    assert_tree_is_complete(PAGE, write_tree(tmp_path / "allotment", TREE))


def test_a_tree_that_differs_is_seen(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", TREE | {"network/_head.py": ""})
    with raises(AssertionError, match=r"should name \['allotment/network/_head.py'\]"):
        assert_tree_is_complete(PAGE, root)
    (root / "network" / "_head.py").unlink()
    (root / "network" / "_layer.py").unlink()
    with raises(AssertionError, match=r"not there: \['allotment/network/_layer.py'\]"):
        assert_tree_is_complete(PAGE, root)


@mark.parametrize(
    ("old", "new", "message"),
    [
        ("## The tree", "## Files", "after the line `## The tree`"),
        ("  _checks.py      rules for arguments", "  _checks.py", "`name.py  purpose`"),
        ("  _checks.py  ", "   _checks.py  ", "`name.py  purpose`"),
        ("  _checks.py  ", "    _checks.py  ", "below its folder"),
        ("_layer.py ", "_layer.py  x\n    _layer.py ", "each file once"),
    ],
)
def test_a_tree_that_cannot_be_read_is_refused(old: str, new: str, message: str) -> None:
    with raises(AssertionError, match=message):
        read_tree(PAGE.replace(old, new))


@mark.parametrize(
    ("change", "message"), [("# Allocation.", "have a docstring"), (None, "have an __init__")]
)
def test_a_folder_that_says_nothing_is_seen(
    change: str | None, message: str, tmp_path: Path
) -> None:
    root = write_tree(tmp_path / "allotment", TREE)
    page = root / "network" / "allocation" / "__init__.py"
    page.write_text(change) if change else page.unlink()
    with raises(AssertionError, match=message):
        assert_folders_say_what_they_are_for(root)


def test_blocks_of_a_page_share_a_namespace_and_keep_their_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n```bash\nfalse\n```\n- item\n  ```python\n  assert x == 1\n  ```\n"
    )
    assert run_python_blocks(page) == 2
    page.write_text(page.read_text().replace("x == 1", "x == 2"))
    with raises(AssertionError) as failure:
        run_python_blocks(page)
    assert failure.traceback[-1].lineno + 1 == 9
