from pytest import importorskip, mark

importorskip("mkdocs", reason="the site needs mkdocs-material")
importorskip("griffe", reason="the site needs mkdocstrings")

from tests.test_reference import names_at_the_top
from tools.site_docstrings import with_blocks
from tools.site_pages import api_pages, example_page, rings_table, with_links


def test_examples_of_docstrings_are_fenced_up_to_the_next_empty_line() -> None:
    text = "Adds.\n\n>>> 1 + 1\n2\n  3\n\nArgs:\n    x: As in\n\n        >>> x\n        3\n"
    fenced = "Adds.\n\n```pycon\n>>> 1 + 1\n2\n  3\n```\n\nArgs:\n    x: As in\n\n"
    fenced += "        ```pycon\n        >>> x\n        3\n        ```\n"
    assert with_blocks(text) == fenced


@mark.parametrize(
    ("page", "text", "led"),
    [
        ("index.md", "[a](docs/data.md#tables)", "[a](data.md#tables)"),
        ("index.md", "![a](docs/figures/tutorial-gates.png)", "![a](figures/tutorial-gates.png)"),
        ("data.md", "[a](../CONTRIBUTING.md#the-tree)", "[a](contributing.md#the-tree)"),
        ("recipes/ddp.md", "[a](../../examples/own_loop.py)", "[a](../examples/own_loop.md)"),
        ("index.md", "the [licence](LICENSE) here", "the licence here"),
        ("index.md", "[a](https://torchjd.org), [b](#b)", "[a](https://torchjd.org), [b](#b)"),
        ("data.md", "layers[0](x)", "layers[0](x)"),
    ],
)
def test_links_into_the_repository_lead_to_pages(page: str, text: str, led: str) -> None:
    assert with_links(text, page) == led


def test_the_rings_are_a_table() -> None:
    drawing = 'subgraph core\n f_a["a"]\n f__b["_b"]\nend\nf_a --> f__b\n'
    assert rings_table(drawing).splitlines()[2:] == ["| core | `a` | `_b` |", "| core | `_b` |  |"]


def test_an_example_is_a_page_with_its_purpose_above_the_program() -> None:
    page = example_page("examples/own_loop.py")
    assert page.startswith("# Own loop\n\nA training loop of one's own")
    assert page.count("A training loop of one's own") == 1 and "\nimport torch\n" in page


def test_every_name_at_the_top_is_in_the_reference() -> None:
    pages = api_pages()
    everything = "\n".join(pages.values())
    for name in names_at_the_top():
        assert f"[`al.{name}`][" in pages["api/index.md"]
        assert f".{name}\n" in everything  # with its own entry in the page of its folder
    assert "[`al.analysis`](analysis.md)" in pages["api/index.md"]
