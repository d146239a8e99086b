from pytest import mark, raises

from allotment.report import Headline, readme_results, with_block
from tests.report.expected import MNIST, TWO_PAIRS, runs


def test_a_headline_is_a_row_with_what_each_way_of_sharing_reached() -> None:
    found = runs("gumbel", [0.2, 0.3, 0.4])
    headline = Headline("two_pairs", "Two pairs", "", "shared_bottom", "gumbel")
    head, _, row = readme_results(found, [TWO_PAIRS, MNIST], [headline]).splitlines()
    assert head == "| Tasks | Measure | Nothing shared | All shared | Learnt gates |"
    measure = "Loss over the last 300 rounds"
    assert row == f"| Two pairs | {measure} | – | not run | 0.30 ± 0.10 sd (n=3) |"


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    page = "# A\n\n<!-- results -->\nold\n<!-- /results -->\n\nend <!-- other -->\n"
    once = with_block(page, "results", "| new |")
    assert once == "# A\n\n<!-- results -->\n| new |\n<!-- /results -->\n\nend <!-- other -->\n"
    assert with_block(once, "results", "| new |") == once


@mark.parametrize(
    "page",
    [
        "",
        "<!-- results -->",
        "<!-- /results --><!-- results -->",
        "<!-- results --><!-- /results --><!-- results --><!-- /results -->",
    ],
)
def test_a_page_without_one_pair_of_marks_is_refused(page: str) -> None:
    with raises(ValueError, match="once each"):
        with_block(page, "results", "")
