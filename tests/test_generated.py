from pathlib import Path

from allotment.cli._pages import generated_pages
from tools.contributing import with_parts
from tools.gpu_tests import with_records
from tools.imports import Package

REPOSITORY = Path(__file__).parents[1]


def test_pages_made_from_the_kept_results_are_up_to_date() -> None:
    made = generated_pages(REPOSITORY)  # all at once: reading the results takes most of the time
    pages = (
        "docs/results.md",
        "docs/comparison.md",
        "docs/when.md",
        "docs/scale.md",
        "docs/deploy.md",
        "README.md",
    )
    for page in pages:
        path = REPOSITORY / page
        assert path.read_text(encoding="utf-8") == made[path], f"{page} is old: run `make docs`."


def test_the_drawing_and_the_tree_are_up_to_date() -> None:
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    made = with_parts(page, Package(REPOSITORY / "src" / "allotment"))
    assert page == made, "CONTRIBUTING.md is old: run `make docs`."


def test_the_readme_tells_what_the_kept_test_records_say() -> None:
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "tests passed" in page
    assert page == with_records(page), "README.md is old: run `make docs`."
