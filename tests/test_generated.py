from pathlib import Path

from pytest import mark

from allotment.cli._pages import generated_pages
from tools.contributing import with_parts
from tools.imports import Package

REPOSITORY = Path(__file__).parents[1]


@mark.parametrize("page", ["docs/results.md", "docs/comparison.md", "README.md"])
def test_a_page_made_from_the_kept_results_is_up_to_date(page: str) -> None:
    path = REPOSITORY / page
    expected = generated_pages(REPOSITORY)[path]
    assert path.read_text(encoding="utf-8") == expected, f"{page} is old: run `make docs`."


def test_the_drawing_and_the_tree_are_up_to_date() -> None:
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    made = with_parts(page, Package(REPOSITORY / "src" / "allotment"))
    assert page == made, "CONTRIBUTING.md is old: run `make docs`."
