from pathlib import Path

from pytest import mark

from allotment.cli._pages import generated_pages

REPOSITORY = Path(__file__).parents[1]


@mark.parametrize("page", ["docs/results.md", "README.md"])
def test_a_page_made_from_the_kept_results_is_up_to_date(page: str) -> None:
    path = REPOSITORY / page
    expected = generated_pages(REPOSITORY)[path]
    assert path.read_text(encoding="utf-8") == expected, f"{page} is old: run `make docs`."
