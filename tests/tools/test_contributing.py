from pathlib import Path

from pytest import raises

from tests.made_up_tree import write_tree
from tools.contributing import direct, drawing, tree, with_parts
from tools.imports import Package

FILES = {
    "__init__.py": '"""The names.\n\nMore.\n"""',
    "_checks.py": '"""Rules for arguments."""',
    "training/__init__.py": '"""The loop."""\nfrom ..modules import Layer',
    "modules/__init__.py": '"""Layers."""',
    "modules/_layer.py": '"""Components side by side."""',
    "modules/heads/__init__.py": '"""Heads."""',
}


def test_an_arrow_that_others_make_a_way_for_is_left_out() -> None:
    imports = {"cli": {"training", "modules"}, "training": {"modules"}, "modules": set[str]()}
    assert direct(imports, "cli") == {"training"}
    assert direct(imports, "training") == {"modules"}
    assert "f_cli --> f_training" in drawing(imports)
    assert "f_cli --> f_modules" not in drawing(imports)


def test_a_circle_is_drawn() -> None:
    imports = {"cli": {"training", "modules"}, "training": {"modules"}, "modules": {"training"}}
    assert direct(imports, "cli") == {"training", "modules"}


def test_the_tree_goes_from_the_inside_out(tmp_path: Path) -> None:
    package = Package(write_tree(tmp_path / "toy", FILES))
    assert tree(package).splitlines() == [
        "toy/           The names",
        "  _checks.py   Rules for arguments",
        "  modules/     Layers",
        "    _layer.py  Components side by side",
        "    heads/     Heads",
        "  training/    The loop",
    ]


def test_a_file_without_a_purpose_is_named(tmp_path: Path) -> None:
    package = Package(write_tree(tmp_path / "toy", FILES | {"modules/_bare.py": "x = 1"}))
    with raises(ValueError, match=r"begin with a docstring. Found none in .*_bare\.py"):
        tree(package)


def test_parts_are_written_between_their_marks(tmp_path: Path) -> None:
    package = Package(write_tree(tmp_path / "toy", FILES))
    page = "a\n<!-- rings -->\n<!-- /rings -->\nb\n<!-- tree -->\nold\n<!-- /tree -->\nc\n"
    made = with_parts(page, package)
    assert made.startswith("a\n<!-- rings -->\n```mermaid\nflowchart TD\n")
    assert "```\n<!-- /rings -->\nb\n<!-- tree -->\n```text\ntoy/ " in made
    assert made.endswith("  The loop\n```\n<!-- /tree -->\nc\n")
    assert with_parts(made, package) == made
    with raises(ValueError, match=r"`<!-- tree -->` and `<!-- /tree -->`, once each"):
        with_parts("<!-- rings --><!-- /rings -->", package)
