"""Pages of the site that do not lie in docs/: README, CONTRIBUTING, examples, the API.

MkDocs calls `on_config`, `on_files` and `on_page_markdown`; `make site` runs it.
"""

import ast
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.imports import Module, Package

REPOSITORY = Path(__file__).parents[1]

# The file of the repository that each page of the site shows; all others lie in docs/.
ELSEWHERE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_NUMBERS = re.compile(r"(?<=\d) (±|sd|to) (?=[(+−\-\d])")  # which stay in one piece
_MERMAID = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the examples and the API to the navigation."""
    nav: list[dict[str, list[Any]]] = config.nav or []
    for section in nav:
        if "API" in section:
            section["API"] = list(api_pages())
        if "Recipes" in section:
            section["Recipes"].append({"Examples": [page for page, _ in sorted(_examples())]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that other files of the repository, or the source, make."""
    made = {page: (REPOSITORY / path).read_text("utf-8") for page, path in ELSEWHERE.items()}
    made |= {page: example_page(path) for page, path in _examples()}
    made |= api_pages()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links into the repository to the page of the site, and draws without a script."""
    markdown = _MERMAID.sub(lambda found: rings_table(found[1]), markdown)
    markdown = _NUMBERS.sub("\u00a0\\1\u00a0", markdown)
    return with_links(markdown, page.file.src_uri)


def with_links(markdown: str, page: str) -> str:
    """Returns a page whose links to files of the repository lead to pages of the site.

    What the site does not have, such as the licence, is left as a text without a link.

    >>> with_links("[the guide](docs/data.md#tables), [licence](LICENSE)", "index.md")
    '[the guide](data.md#tables), licence'
    >>> with_links("[changes](../CHANGELOG.md)", "data.md")
    '[changes](changelog.md)'
    """
    source = PurePosixPath(ELSEWHERE.get(page, f"docs/{page}"))
    pages = {path: name for name, path in [*ELSEWHERE.items(), *_examples()]}

    def led(found: re.Match[str]) -> str:
        path = os.path.normpath(source.parent / found[1])
        target = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not (REPOSITORY / path).exists():
            return found[0]  # MkDocs knows better, or tells that there is no such page
        if not target:
            return "](NOWHERE)"
        here = os.path.relpath(target, PurePosixPath(page).parent)
        return f"]({here}{found[2] or ''})"

    return re.sub(r"\[([^\[\]]*)\]\(NOWHERE\)", r"\1", _LINK.sub(led, markdown))


def rings_table(drawing: str) -> str:
    """Returns a Mermaid graph of the folders as a table, which needs no script to be drawn."""
    ring, rows, arrows = "", [], re.findall(r"f_(\w+) --> f_(\w+)", drawing)
    for line in drawing.splitlines():
        ring = line.split()[1] if "subgraph" in line else ring
        if name := re.search(r'\["(\w+)"\]', line):
            targets = ", ".join(f"`{end}`" for start, end in arrows if start == name[1])
            rows.append(f"| {ring} | `{name[1]}` | {targets} |")
    return "\n".join(["| Ring | Folder | Imports |", "| --- | --- | --- |", *rows])


def _examples() -> list[tuple[str, str]]:
    """Returns the page of each example, with its path in the repository."""
    paths = sorted((REPOSITORY / "examples").glob("*.py"))
    return [(f"examples/{path.stem}.md", f"examples/{path.name}") for path in paths]


def example_page(path: str) -> str:
    """Returns an example as a page: what its docstring says, and the program below."""
    text = (REPOSITORY / path).read_text("utf-8")
    tree = ast.parse(text)
    said = ast.get_docstring(tree) or ""
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip()
    title = Path(path).stem.replace("_", " ").capitalize()
    return f"# {title}\n\n{said}\n\n```py title={path!r}\n{code}\n```\n"


def api_pages() -> dict[str, str]:
    """Returns a page for the package and one for each of its public folders, by page."""
    package = Package(REPOSITORY / "src" / "allotment")
    folders = [m for m in package.modules.values() if m.is_folder and "._" not in m.name]
    top, *others = sorted(folders, key=lambda module: module.name)
    shown = [module for module in others if module.exports and module.folder != "cli"]
    pages = {"api/index.md": _top_page(top, package)}
    return pages | {f"api/{m.name.partition('.')[2]}.md": _folder_page(m) for m in shown}


def _top_page(top: Module, package: Package) -> str:
    """Returns the names that ``import allotment as al`` gives, each with a link and its purpose."""
    rows = []
    for each in sorted((i for i in top.imports if i.is_passed_on), key=lambda i: i.name.lower()):
        home = f"{each.source}.{each.name}"
        is_folder = home in package.modules
        name = f"[`al.{each.name}`]" + (f"({each.name}.md)" if is_folder else f"[{home}]")
        source = package.modules[package.defined_in(each.source, each.name)]
        rows.append(f"| {name} | {_purpose(source, each.name)} |")
    table = "\n".join(["| Name | What it is |", "| --- | --- |", *rows])
    return f"# allotment\n\nThe names of `import allotment as al`.\n\n{table}\n"


def _purpose(module: Module, name: str) -> str:
    """Returns the first line of what a name is documented as; of a folder, its own."""
    for node in module.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return module.purpose + "."


def _folder_page(module: Module) -> str:
    title = f"# {module.name}\n\n::: {module.name}\n    options:\n      members: []\n"
    title += "      show_root_heading: false\n      show_root_toc_entry: false\n"
    names = "\n".join(f"::: {module.name}.{name}\n" for name in module.exports)
    return f"{title}\n{names}"
