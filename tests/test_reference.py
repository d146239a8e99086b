"""What `help` and the reference say of public names: an example that runs, and every argument."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

from pytest import importorskip, mark

import allotment as al
from tests.test_layout import ROOT
from tools.imports import Package

# How many public names of a folder have no example, or do not explain every argument. They serve
# other folders of the package more than users. A number may fall, and never rise.
WITHOUT_EXAMPLE: dict[str, int] = {
    "analysis": 13,
    "data": 5,
    "deploy": 3,
    "experiments": 5,
    "experiments.launchers": 1,
    "experiments.structures": 1,
    "modules": 10,
    "paper": 7,
    "paper.networks": 4,
    "records": 48,
    "report": 39,
    "settings": 2,
    "tasks": 6,
    "training": 10,
}
WITHOUT_ARGUMENTS: dict[str, int] = {
    "analysis": 11,
    "data": 2,
    "experiments": 1,
    "experiments.launchers": 1,
    "modules": 6,
    "paper.networks": 14,
    "records": 30,
    "report": 21,
    "tasks": 1,
    "training": 4,
}


@cache
def folders() -> dict[str, list[str]]:
    """Returns the public names of every public folder that can be imported here."""
    modules = Package(ROOT).modules.values()
    public = [m for m in modules if m.is_folder and m.folder and "._" not in m.name]
    return {m.name: m.exports for m in public if m.folder != "cli"}


def documented(folder: str) -> Iterator[tuple[str, Any]]:
    """Yields the classes and functions of a folder; constants and types have no docstring."""
    if folder == "allotment.lightning":
        importorskip("lightning", reason="the folder needs Lightning")
    module = import_module(folder)
    for name in folders()[folder]:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value


def has_example(value: Any, folder: str) -> bool:
    """Returns whether its docstring has an example, or its folder's uses it."""
    example = "\n".join(re.findall(r">>> (.*)", import_module(folder).__doc__ or ""))
    own = value.__doc__ or ""
    return ">>>" in own or re.search(rf"\b{value.__name__}\b", example) is not None


def unexplained(value: Any) -> list[str]:
    """Returns the arguments of a function or a class that its docstring does not explain.

    The fields of a dataclass may stand under "Attributes".
    """
    if inspect.isclass(value) and getattr(value.__init__, "__module__", "") != value.__module__:
        return []  # it has none of its own: an exception, an interface, or a subclass as it is
    text = inspect.getdoc(value) or ""
    headings = "Args|Attributes" if is_dataclass(value) else "Args"
    sections = re.findall(rf"^(?:{headings}):\n((?:    .*\n?|\n(?=    ))+)", text, re.MULTILINE)
    explained = re.findall(r"^    \*{0,2}(\w+): \S", "\n".join(sections), re.MULTILINE)
    return [name for name in inspect.signature(value).parameters if name not in explained]


def is_told(value: Any) -> bool:
    """Returns whether the first sentence of a function is enough: it has one argument at most."""
    return inspect.isfunction(value) and len(inspect.signature(value).parameters) <= 1


def names_at_the_top() -> list[str]:
    """Returns the classes and functions of ``import allotment as al``."""
    found = [name for name in dir(al) if not name.startswith("_") and name != "import_module"]
    values = {name: getattr(al, name) for name in found}
    return [n for n, v in values.items() if getattr(v, "__module__", "").startswith("allotment.")]


@mark.parametrize("name", names_at_the_top())
def test_help_of_a_name_at_the_top_is_whole(name: str) -> None:
    value = getattr(al, name)
    homes = [folder for folder, names in folders().items() if name in names]
    assert any(has_example(value, folder) for folder in homes), f"`al.{name}` has no example."
    assert not unexplained(value), f"help(al.{name}) does not explain {unexplained(value)}."


@mark.parametrize("folder", folders())
def test_names_of_a_folder_have_examples(folder: str) -> None:
    missing = [name for name, value in documented(folder) if not has_example(value, folder)]
    assert len(missing) <= WITHOUT_EXAMPLE.get(folder.partition(".")[2], 0), missing


@mark.parametrize("folder", folders())
def test_names_of_a_folder_explain_their_arguments(folder: str) -> None:
    several = [(name, value) for name, value in documented(folder) if not is_told(value)]
    missing = {name: unexplained(value) for name, value in several if unexplained(value)}
    assert len(missing) <= WITHOUT_ARGUMENTS.get(folder.partition(".")[2], 0), missing
