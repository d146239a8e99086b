import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from allotment.records import keep, read_kept
from allotment.report import html_page, markdown_results, write_figures
from tests.records.made_up import ENVIRONMENT, a_record, loss_run
from tests.report.expected import MNIST, TWO_PAIRS, runs

RUNS = [
    *runs("gumbel", [0.3, 0.31, 0.32], recovered=3),
    *runs("no_sharing", [0.5, 0.55, 0.6]),
]


class Links(HTMLParser):
    """Collects whatever a page would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("src", "href", "xlink:href", "srcset", "data")
        self.found += [value or "" for name, value in attrs if name in names]


def test_the_page_needs_nothing_beside_itself() -> None:
    page = html_page(RUNS, [TWO_PAIRS, MNIST])
    outside = [link for link in Links(page).found if not link.startswith(("#", "data:"))]
    assert outside == []
    assert "url(http" not in page
    assert "@import" not in page
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(", page)


def test_the_only_script_is_the_page_s_own_and_the_policy_names_it() -> None:
    page = html_page(RUNS, [TWO_PAIRS])
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json" id="data">',
        "<script data-page>",
    ]
    script = page.partition("<script data-page>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in page


def test_every_row_and_every_word_is_on_the_page() -> None:
    page = html_page(RUNS, [TWO_PAIRS, MNIST])
    for spec in (TWO_PAIRS, MNIST):
        assert spec.title in page
        assert all(f"<td>{row.label}</td>" in page for row in spec.rows)
    assert page.count("<td>not run</td>") == 3
    assert "Gumbel-Matrix found the two pairs in 3 of 3 runs." in page


def test_the_page_says_where_its_numbers_come_from() -> None:
    page = html_page(RUNS, [TWO_PAIRS])
    for text in ("<code>allotment run two_pairs</code>", "a made-up device", "0123456"):
        assert text in page
    assert "6 with 2 of the 3 methods" in page


def test_the_page_is_called_after_its_experiments() -> None:
    assert f"<title>{TWO_PAIRS.title}</title>" in html_page(RUNS, [TWO_PAIRS])
    assert f"<h1>{TWO_PAIRS.title}, {MNIST.title}</h1>" in html_page(RUNS, [TWO_PAIRS, MNIST])
    several = [loss_run(1.0, 0, experiment=name) for name in "abcd"]
    assert "<title>4 experiments</title>" in html_page(several, [])


def test_what_a_heading_means_stands_below_its_table() -> None:
    note = "One row a family: runs in which all tasks of a family use the same components"
    assert note in html_page(RUNS, [TWO_PAIRS])
    assert note in markdown_results(RUNS, [TWO_PAIRS])
    assert "Collapsed: runs" not in html_page(RUNS, [TWO_PAIRS])  # which has no such column


def test_the_page_tells_where_runs_went_on() -> None:
    resumed = (replace(ENVIRONMENT, device="another device"), ENVIRONMENT)
    run = a_record(environment=replace(ENVIRONMENT, resumed=resumed))
    page = html_page([run], [TWO_PAIRS])
    assert "a made-up device, then another device" in page
    assert page.count("0123456") == 1  # one commit throughout


def test_runs_of_several_launches_are_counted_and_mixed_settings_are_told() -> None:
    other = loss_run(0.3, 7, command="allotment run two_pairs --set a=1", settings={"a": 1})
    page = html_page([*RUNS, other], [TWO_PAIRS])
    assert "<code>allotment run two_pairs</code> (6 runs)" in page
    assert "<code>allotment run two_pairs --set a=1</code> (1 run)" in page
    assert "Runs of one row differ in their settings." in page


def test_names_are_escaped() -> None:
    page = html_page([loss_run(1.0, 0, method="<b>bold</b>", experiment="a<script>")], [])
    assert "<b>bold" not in page
    assert "<script>" not in page


def test_an_experiment_nobody_expected_has_a_section() -> None:
    page = html_page([loss_run(1.0, 0, experiment="mine")], [])
    assert re.search(r'<section id="mine">\s*<h2>mine', page)


def test_an_empty_report_is_a_page_too() -> None:
    assert "0 recorded runs" in html_page([], [])


def test_the_document_refers_to_the_pictures_that_are_written(tmp_path: Path) -> None:
    text = markdown_results(RUNS, [TWO_PAIRS, MNIST])
    named = re.findall(r"\]\(figures/([^)]+)\)", text)
    written = write_figures(RUNS, [TWO_PAIRS, MNIST], tmp_path)
    assert named == [path.name for path in written]


def test_the_document_can_be_made_from_kept_runs(tmp_path: Path) -> None:
    keep(RUNS, tmp_path)
    text = markdown_results(read_kept(tmp_path), [TWO_PAIRS, MNIST])
    assert "| Gumbel-Matrix | – | 0.310 ± 0.010 sd (n=3) | 0.293 to 0.327 |" in text
    assert "| Shared bottom | fails | not run |" in text
    assert "Command: `allotment run two_pairs`" in text
    assert "Device: a made-up device" in text
    assert "Commit: 0123456" in text
