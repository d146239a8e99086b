"""The package as its imports draw it: modules, what they import, what folders export.

Everything is read from the source; nothing is imported. A name that a folder passes on counts as an
import of the file that defines it, so an ``__init__.py`` is no link of a chain.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        source: The module it is imported from, as a full name.
        name: Its name there.
        alias: Its name here.
        is_passed_on: Whether it is written ``Name as Name``, which makes it one of this file's.
        is_late: Whether it is imported inside a function, or for a type checker alone.
    """

    source: str
    name: str
    alias: str
    is_passed_on: bool
    is_late: bool

    @property
    def first(self) -> str:
        """The first name below the package: of a folder, a file, or whatever is at the top."""
        package, *below = self.source.split(".")
        return [*below, self.name][0] or package


@dataclass(frozen=True)
class Module:
    """One file of the package.

    Attributes:
        name: Its full name, such as "allotment.modules._layer"; a folder's for an ``__init__.py``.
        path: Where it lies.
        tree: Its source, parsed.
        n_lines: Its length.
        imports: The names it imports from the package.
    """

    name: str
    path: Path
    tree: ast.Module
    n_lines: int
    imports: tuple[Import, ...]

    @property
    def is_folder(self) -> bool:
        """Whether it is an ``__init__.py``."""
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        """The folder right under the package that it lies in; empty at the top."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 2 or (len(parts) == 2 and self.is_folder) else ""

    @property
    def purpose(self) -> str:
        """The first line of its docstring, without the full stop; empty where it has none."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[0].rstrip(".")

    @property
    def exports(self) -> list[str]:
        """The public names that an ``__init__.py`` has: those it passes on, and its own."""
        own = [n.name for n in self.tree.body if isinstance(n, (*_FUNCTIONS, ast.ClassDef))]
        passed_on = [each.alias for each in self.imports if each.is_passed_on]
        return sorted({name for name in [*passed_on, *own] if not name.startswith("_")})


class Package:
    """All modules of the package at ``root``, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = {
            m.name: m for m in (_read(path, root) for path in sorted(root.rglob("*.py")))
        }
        self.files = {name: m for name, m in self.modules.items() if not m.is_folder}

    def defined_in(self, source: str, name: str) -> str:
        """Returns the module that a name comes from, through all folders that pass it on."""
        module = self.modules.get(source)
        if module is not None and module.is_folder:
            for each in module.imports:
                if each.alias == name and (each.source, each.name) != (source, name):
                    return self.defined_in(each.source, each.name)
        return f"{source}.{name}" if f"{source}.{name}" in self.modules else source

    @cache  # noqa: B019  (a package is read once and lives as long as the script)
    def imported(self, name: str) -> frozenset[str]:
        """Returns the modules that a file needs to be imported itself."""
        needed = (i for i in self.modules[name].imports if not i.is_late)
        found = {self.defined_in(each.source, each.name) for each in needed}
        return frozenset(found & self.modules.keys() - {name})

    def importers(self, name: str) -> list[str]:
        """Returns the files that need a module."""
        return [other for other in self.files if name in self.imported(other)]

    def longest_chain(self) -> list[str]:
        """Returns the longest row of files in which each imports the next."""
        known: dict[str, list[str]] = {}

        def chain(name: str, above: tuple[str, ...] = ()) -> list[str]:
            if name in above:
                return []
            if name not in known:
                rest = (chain(other, (*above, name)) for other in sorted(self._links(name)))
                known[name] = [name, *max(rest, key=len, default=[])]
            return known[name]

        return max((chain(name) for name in self.files), key=len, default=[])

    def _links(self, name: str) -> frozenset[str]:
        return frozenset() if self.modules[name].is_folder else self.imported(name)

    def folder_imports(self) -> dict[str, set[str]]:
        """Returns for each folder right under the package the folders it imports, late ones too."""
        folders: dict[str, set[str]] = {m.folder: set() for m in self.modules.values() if m.folder}
        for module in self.modules.values():
            for each in module.imports:
                if module.folder and each.first in folders and each.first != module.folder:
                    folders[module.folder].add(each.first)
        return folders


def _read(path: Path, root: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(root.parent).with_suffix("").parts
    here = list(parts[:-1])
    name = ".".join(here if parts[-1] == "__init__" else parts)
    tree = ast.parse(text)
    imports = tuple(_imports(tree, here, root.name))
    return Module(name, path, tree, text.count("\n"), imports)


def _imports(tree: ast.Module, here: list[str], package: str) -> Iterator[Import]:
    """Yields the names imported from the package into a file of the folder ``here``."""
    late = {id(inner) for node in ast.walk(tree) if _is_late(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):  # `import a.b` is the name `b` of `a`
            found = [(alias, *_split(alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found = [(alias, source, alias.name) for alias in node.names]
        else:
            continue
        for alias, source, name in found:
            if source.split(".")[0] == package:
                is_passed_on = alias.asname == name
                yield Import(source, name, alias.asname or name, is_passed_on, id(node) in late)


def _split(dotted: str) -> tuple[str, str]:
    source, _, name = dotted.rpartition(".")
    return (source, name) if source else (dotted, "")


def _is_late(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, _FUNCTIONS)
