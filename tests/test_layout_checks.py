"""The checks of the layout, tried on small trees that are wrong on purpose."""

from contextlib import nullcontext
from pathlib import Path

from pytest import mark, raises

from tests.made_up_tree import write_tree
from tests.test_layout import (
    assert_folders_say_what_they_are_for,
    assert_imports_follow_the_rings,
    assert_private_folders_stay_private,
)


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
        "from ..._engine import Trainer",
        "def late():\n    from ...training import fit",
        "if TYPE_CHECKING:\n    from ...training import fit",
    ],
)
def test_an_import_against_the_rings_is_seen(line: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"modules/heads/_linear.py": line})
    with raises(AssertionError, match=r"_linear\.py should not import \['\w+'\]"):
        assert_imports_follow_the_rings(root)


@mark.parametrize(
    "line",
    [
        "import torch.training",
        "from torch import training",
        "from . import _base",
        "from .training import fit",
        "from ..training import fit",
        "from ...modules import extract",
        "from ..._checks import check_fraction",
        "from ..._ops import mix",
        "from ... import __version__, _checks",
        "from allotment._checks import check_fraction",
    ],
)
def test_an_import_along_the_rings_passes(line: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"modules/heads/_linear.py": line})
    assert_imports_follow_the_rings(root)


def test_a_private_file_at_the_top_imports_no_folder(tmp_path: Path) -> None:
    files = {"_checks.py": "from .modules import extract", "cli.py": "from .modules import extract"}
    with raises(AssertionError, match=r"_checks\.py should not import"):
        assert_imports_follow_the_rings(write_tree(tmp_path / "allotment", files))


def test_a_folder_without_a_line_in_the_table_is_seen(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "allotment", {"utilities/deep/misc.py": ""})
    with raises(AssertionError, match="`utilities` should have a line"):
        assert_imports_follow_the_rings(root)


@mark.parametrize(
    ("line", "is_seen"),
    [
        ("from .._engine import Trainer as Trainer", True),
        ("from .._engine._trainer import Trainer as Trainer", True),
        ("from .._engine import Trainer", False),  # used, and not passed on
        ("from .._engine import Run as Run", False),
    ],
)
def test_an_export_from_a_private_folder_is_seen(line: str, is_seen: bool, tmp_path: Path) -> None:
    files = {
        "__init__.py": "from .training import Trainer as Trainer" if is_seen else "",
        "training/__init__.py": line,
        "_engine/__init__.py": "from ._trainer import Run as Run\n"
        "from ._trainer import Trainer as Trainer",
        "_engine/_trainer.py": "",
    }
    root = write_tree(tmp_path / "allotment", files)
    with raises(AssertionError, match="should not export `Trainer`") if is_seen else nullcontext():
        assert_private_folders_stay_private(root)


TREE = {
    "__init__.py": '"""Names."""',
    "_checks.py": "",
    "modules/__init__.py": '"""Modules."""',
    "modules/_layer.py": "",
    "modules/heads/__init__.py": '"""Heads."""',
    "modules/heads/_linear.py": "",
}


@mark.parametrize(
    ("change", "message"), [("# Heads.", "have a docstring"), (None, "have an __init__")]
)
def test_a_folder_that_says_nothing_is_seen(
    change: str | None, message: str, tmp_path: Path
) -> None:
    root = write_tree(tmp_path / "allotment", TREE)
    page = root / "modules" / "heads" / "__init__.py"
    page.write_text(change) if change else page.unlink()
    with raises(AssertionError, match=message):
        assert_folders_say_what_they_are_for(root)
