"""Measures the house: how deep, how tangled, how large. Run it by `make metrics`.

A measure beyond its limit is a place to look, and the exit status is 0 all the same. The limits
that are met are held by `tests/tools/test_metrics.py`.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tools.imports import Module, Package

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "allotment"
MAX_COMPLEXITY = 10

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While),
    *(ast.ExceptHandler, ast.Assert, ast.match_case),
)


@dataclass(frozen=True)
class Measure:
    """One number about the package.

    Attributes:
        name: What is measured.
        value: What was found.
        most: The limit; None where there is none.
        least: A lower limit, where there is one.
        places: Where to look, one line each.
    """

    name: str
    value: float
    most: float | None = None
    least: float | None = None
    places: tuple[str, ...] = ()

    @property
    def is_met(self) -> bool:
        """Whether the value keeps its limits."""
        low, high = self.least, self.most
        return (low is None or self.value >= low) and (high is None or self.value <= high)

    @property
    def limit(self) -> str:
        """The limit in words."""
        if self.most is None:
            return ""
        return (
            f"at most {self.most:,g}" if self.least is None else f"{self.least:g} to {self.most:g}"
        )


def complexity(function: ast.AST) -> int:
    """Returns the ways through a function (McCabe), those inside it left to themselves."""
    n, nodes = 1, list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        n += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            n += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            n += 1 + len(node.ifs)
        nodes += ast.iter_child_nodes(node)
    return n


def complex_functions(modules: Sequence[Module]) -> list[tuple[int, str]]:
    """Returns the complexity and the place of functions above the limit, the worst first."""
    return sorted(
        (
            (found, f"{module.name}.{node.name}")
            for module in modules
            for node in ast.walk(module.tree)
            if isinstance(node, _FUNCTIONS) and (found := complexity(node)) > MAX_COMPLEXITY
        ),
        reverse=True,
    )


def static_measures(package: Package) -> list[Measure]:
    """Returns what the source alone shows."""
    modules = list(package.modules.values())
    chain = package.longest_chain()
    single = [n for n in package.files if len(package.importers(n)) == 1]
    functions = complex_functions(modules)
    lengths = {module.name: module.n_lines for module in modules}
    longest = max(lengths, key=lambda name: lengths[name])
    top = package.modules[package.root.name]
    folders = [m for m in modules if m.is_folder and m is not top and "._" not in m.name]
    return [
        Measure("longest import chain", len(chain), 12, places=tuple(chain)),
        Measure(
            "modules with one importer, %",
            round(100 * len(single) / max(1, len(package.files))),
            20,
            places=tuple(f"{name} <- {package.importers(name)[0]}" for name in single),
        ),
        Measure(
            f"functions above complexity {MAX_COMPLEXITY}",
            len(functions),
            8,
            places=tuple(f"{found:3} {place}" for found, place in functions),
        ),
        Measure("median file length, lines", median(lengths.values()), 150, 60),
        Measure("longest file, lines", lengths[longest], 300, places=(longest,)),
        Measure("lines of the package", sum(lengths.values()), 15_736),
        Measure("names at the top", len(top.exports), 52),
        Measure(
            "names exported in the folders",
            sum(len(m.exports) for m in folders),
            places=tuple(f"{len(m.exports):3} {m.name}" for m in folders),
        ),
    ]


def running_measures() -> list[Measure]:
    """Returns what one small `fit` shows."""
    from tools.one_fit import one_fit  # here, since it imports torch

    seen = one_fit()
    name = "frames from `fit` to a component"
    return [
        Measure(f"{name}, eager", len(seen.eager), 14, places=seen.eager),
        Measure(f"{name}, recorded", len(seen.recorded), 14, places=seen.recorded),
        Measure("files entered by one `fit`", len(seen.files), 25, places=seen.files),
    ]


def show(measures: Sequence[Measure], console: Console) -> None:
    """Prints the measures as a table, and below it where to look for those beyond their limits."""
    table = Table("measure", "found", "limit", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for each in measures:
        table.add_row(each.name, f"{each.value:,g}", each.limit, "" if each.is_met else "look")
    console.print(table)
    for each in measures:
        if not each.is_met and each.places:
            console.print(
                f"\n{each.name}:", *each.places, sep="\n  ", highlight=False, markup=False
            )


def main() -> None:
    """Measures this repository."""
    show(static_measures(Package(ROOT)) + running_measures(), Console(soft_wrap=True))


if __name__ == "__main__":
    main()
