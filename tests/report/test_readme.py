from dataclasses import replace

from pytest import mark, raises

from allotment.report import readme_results, with_block
from tests.report.expected import MNIST, TWO_PAIRS, runs


def test_each_experiment_has_a_short_table_with_its_empty_rows() -> None:
    text = readme_results(runs("gumbel", [0.2, 0.3, 0.4], recovered=2), [TWO_PAIRS, MNIST])
    assert "**Two pairs of tasks** (Appendix)" in text
    assert "| Method | Paper | Ours: loss over the last 300 rounds | Found the two pairs |" in text
    assert "| Gumbel-Matrix | – | 0.30 ± 0.10 sd (n=3) | 2 of 3 |" in text
    assert "| Shared bottom | 95.7 ± 0.5 | not run |" in text


def test_runs_that_are_too_short_are_said_to_be() -> None:
    found = runs("gumbel", [0.2, 0.3])
    n_rounds = found[0].outcome.rounds
    as_declared = readme_results(found, [replace(TWO_PAIRS, rounds=n_rounds)])
    assert "**Two pairs of tasks** (Appendix)\n" in as_declared
    longer = readme_results(found, [replace(TWO_PAIRS, rounds=5_000)])
    assert f"so far with runs each of {n_rounds:,} rounds, where the experiment has 5,000" in longer


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
