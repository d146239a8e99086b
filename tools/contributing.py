"""Writes the parts of CONTRIBUTING.md that the source decides: the drawing and the tree.

The README gets what the kept test records say.
`make docs` runs it. ``python -m tools.contributing --check`` says whether they are up to date.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.gpu_tests import with_records
from tools.imports import Module, Package

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "allotment"
PAGE, README = REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "README.md"

RINGS: dict[str, tuple[str, ...]] = {
    "core": ("_ops", "allocation", "modules"),
    "training": ("tasks", "settings", "_engine", "training", "sklearn"),
    "evidence": (
        *("records", "lightning", "analysis", "report", "data", "experiments", "paper"),
        *("deploy", "cli"),
    ),
}


def with_parts(page: str, package: Package) -> str:
    """Returns the page with its drawing and its tree made anew."""
    page = _between(page, "rings", f"```mermaid\n{drawing(package.folder_imports())}\n```")
    return _between(page, "tree", f"```text\n{tree(package)}\n```")


def drawing(imports: Mapping[str, set[str]]) -> str:
    """Returns the folders in their rings as a Mermaid graph, with an arrow to what each imports.

    An arrow that others already make a way for is left out.

    >>> print(drawing({"training": {"modules", "allocation"}, "modules": {"allocation"},
    ...                "allocation": set()}))
    flowchart TD
      subgraph training
        f_training["training"]
      end
      subgraph core
        f_modules["modules"]
        f_allocation["allocation"]
      end
      f_modules --> f_allocation
      f_training --> f_modules
    """
    lines = ["flowchart TD"]
    for ring, folders in reversed(RINGS.items()):
        inside = [
            f'    f_{folder}["{folder}"]' for folder in reversed(folders) if folder in imports
        ]
        lines += [f"  subgraph {ring}", *inside, "  end"] if inside else []
    for folder in sorted(imports, key=_place):
        arrows = sorted(direct(imports, folder), key=_place)
        lines += [f"  f_{folder} --> f_{target}" for target in arrows]
    return "\n".join(lines)


def direct(imports: Mapping[str, set[str]], folder: str) -> set[str]:
    """Returns what a folder imports and does not reach through anything else it imports.

    Where two of its imports reach each other, both stay: a circle is to be seen.
    """
    ways = {target: reached(imports, target) for target in imports[folder]}
    return {
        target
        for target in ways
        if not any(target in ways[other] and other not in ways[target] for other in ways)
    }


def reached(imports: Mapping[str, set[str]], folder: str) -> set[str]:
    """Returns all that a folder imports, and what that imports in turn."""
    found: set[str] = set()
    waiting = [folder]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def tree(package: Package) -> str:
    """Returns every file with its purpose, the first line of its docstring, folders inside out."""
    lines = list(_lines(package, package.root, 0))
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name:{width}}{purpose}" for name, purpose in lines)


def _lines(package: Package, folder: Path, level: int) -> Iterator[tuple[str, str]]:
    by_path = {module.path: module for module in package.modules.values()}
    if folder / "__init__.py" in by_path:
        yield _line(by_path[folder / "__init__.py"], f"{folder.name}/", level)
    for path in sorted(folder.glob("*.py")):
        if path in by_path and path.name != "__init__.py":
            yield _line(by_path[path], path.name, level + 1)
    below = [path for path in folder.iterdir() if any(path.glob("*.py"))]
    for path in sorted(below, key=lambda path: (_place(path.name), path.name)):
        yield from _lines(package, path, level + 1)


def _line(module: Module, name: str, level: int) -> tuple[str, str]:
    if not module.purpose:
        raise ValueError(f"A file should begin with a docstring. Found none in {module.path}.")
    return "  " * level + name, module.purpose


def _place(folder: str) -> int:
    """Returns where a folder stands from the inside out; those in no ring come last."""
    order = [name for ring in RINGS.values() for name in ring]
    return order.index(folder) if folder in order else len(order)


def _between(page: str, name: str, content: str) -> str:
    """Returns the page with ``content`` between ``<!-- name -->`` and ``<!-- /name -->``."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    if page.count(opening) != 1 or page.count(closing) != 1:
        raise ValueError(f"The page should hold `{opening}` and `{closing}`, once each.")
    before, _, rest = page.partition(opening)
    return f"{before}{opening}\n{content}\n{closing}{rest.partition(closing)[2]}"


def main() -> int:
    """Writes the page, or with ``--check`` compares it."""
    old = PAGE.read_text(encoding="utf-8")
    new = with_parts(old, Package(ROOT))
    if "--check" in sys.argv[1:]:
        print("up to date" if new == old else "CONTRIBUTING.md is old: run `make docs`.")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    print(f"Wrote {PAGE}.")
    README.write_text(with_records(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {README}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
