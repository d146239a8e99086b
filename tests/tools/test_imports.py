from pathlib import Path

from pytest import fixture

from tests.made_up_tree import write_tree
from tools.imports import Package

FILES = {
    "__init__.py": '"""Toy."""\nfrom .shop import sell as sell\n__version__ = "1"',
    "_checks.py": '"""Rules. And more."""\ndef check(): ...',
    "shop/__init__.py": '"""Sale."""\nfrom .._checks import check\nfrom ._till import sell as sell',
    "shop/_till.py": "from .._checks import check\nfrom ..goods import apple, pear\n",
    "goods/__init__.py": "from ._fruit import apple as apple\nfrom ._fruit import pear as pear",
    "goods/_fruit.py": "import os\nfrom ._base import Good",
    "goods/_base.py": "def late():\n    from ..shop import sell",
    "_types.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .shop import sell",
}


@fixture
def package(tmp_path: Path) -> Package:
    return Package(write_tree(tmp_path / "toy", FILES))


def test_a_name_is_found_where_it_is_defined(package: Package) -> None:
    assert package.defined_in("toy", "sell") == "toy.shop._till"
    assert package.defined_in("toy.shop", "_till") == "toy.shop._till"
    assert package.defined_in("toy.goods._base", "Good") == "toy.goods._base"


def test_imports_go_through_folders_to_files(package: Package) -> None:
    assert package.imported("toy.shop._till") == {"toy._checks", "toy.goods._fruit"}
    assert package.importers("toy.goods._base") == ["toy.goods._fruit"]


def test_late_imports_are_no_links_of_a_chain(package: Package) -> None:
    assert package.longest_chain() == ["toy.shop._till", "toy.goods._fruit", "toy.goods._base"]
    assert package.imported("toy._types") == set()


def test_folders_import_folders_and_late_imports_count(package: Package) -> None:
    assert package.folder_imports() == {"shop": {"goods"}, "goods": {"shop"}}


def test_exports_are_the_names_that_are_passed_on(package: Package) -> None:
    assert package.modules["toy"].exports == ["sell"]
    assert package.modules["toy.shop"].exports == ["sell"]
    assert package.modules["toy.goods"].exports == ["apple", "pear"]


def test_a_purpose_is_the_first_line_without_its_full_stop(package: Package) -> None:
    assert package.modules["toy.shop"].purpose == "Sale"
    assert package.modules["toy._checks"].purpose == "Rules. And more"
    assert package.modules["toy.goods"].purpose == ""


def test_a_circle_ends(tmp_path: Path) -> None:
    circle = {"a.py": "from .b import x", "b.py": "from .a import y", "__init__.py": ""}
    assert len(Package(write_tree(tmp_path / "toy", circle)).longest_chain()) == 2
