"""The Python blocks of every page run, and pages stay short enough to read."""

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from inspect import isabstract
from pathlib import Path
from textwrap import dedent

from pytest import MonkeyPatch, importorskip, mark, raises
from torch import nn

from allotment import allocation

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
NEEDED = {"lightning": "lightning", "ddp": "lightning"}
NEEDED |= {"onnx": "onnxscript", "tensorboard": "tensorboard"}
# Written by `make docs`, or lists to look something up in.
LONG = {"results", "comparison", "when", "log"}


def run_python_blocks(page: Path, before: Mapping[str, object] | None = None) -> dict[str, object]:
    """Runs the Python blocks of a page in one namespace, after ``before``, and returns it."""
    text = page.read_text()
    namespace = dict(before or {"__name__": "__main__"})
    fence = re.compile(r"^( *)```python\b[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
    for block in fence.finditer(text):
        # As many empty lines as stand before it, so that a traceback gives the line of the page.
        source = "\n" * text[: block.start(2)].count("\n") + dedent(block[2])
        exec(compile(source, str(page), "exec"), namespace)
    return namespace


@cache  # most pages go on from it, and it takes seconds
def _tutorial() -> dict[str, object]:
    return run_python_blocks(DOCS / "tutorial.md")


def tutorial() -> dict[str, object]:
    """Returns what the tutorial leaves, with networks that a page may train further."""
    left = _tutorial()
    return {name: deepcopy(v) if isinstance(v, nn.Module) else v for name, v in left.items()}


def goes_on(page: Path) -> bool:
    """Returns whether a page says that its blocks go on from the tutorial."""
    words = " ".join(page.read_text().split())
    return re.search(r"blocks go on from the \[tutorial\]\(\S*tutorial\.md\)", words) is not None


@mark.xdist_group("pages")  # one process runs the tutorial for all of them
@mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_the_page_run(page: Path, monkeypatch: MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    if page.stem in NEEDED:
        importorskip(NEEDED[page.stem], reason=f"the page needs {NEEDED[page.stem]}")
    run_python_blocks(page, tutorial() if goes_on(page) else None)


@mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_pages_are_short(page: Path) -> None:
    assert page.stem in LONG or len(page.read_text().splitlines()) <= 250


def test_every_way_of_sharing_is_on_the_page_of_methods() -> None:
    text = (DOCS / "methods.md").read_text()
    exported = [each for each in vars(allocation).values() if isinstance(each, type)]
    ways = [each for each in exported if issubclass(each, allocation.Allocation)]
    names = [way.__name__ for way in ways if not isabstract(way)]
    assert len(names) > 20
    assert [name for name in names if f"`{name}" not in text] == []


def test_blocks_of_a_page_share_a_namespace_and_keep_their_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n```bash\nfalse\n```\n- item\n  ```python\n  y = x\n"
        "  assert x == 1\n  ```\n"
    )
    assert run_python_blocks(page)["y"] == 1
    assert run_python_blocks(page, {"z": 2})["z"] == 2
    page.write_text(page.read_text().replace("x == 1", "x == 2"))
    with raises(AssertionError) as failure:
        run_python_blocks(page)
    assert failure.traceback[-1].lineno + 1 == 10
