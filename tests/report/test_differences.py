from dataclasses import replace

from pytest import approx, raises

from allotment.report._results import difference_table
from allotment.report._section import section
from tests.report.expected import TWO_PAIRS, runs


def test_methods_are_compared_over_the_seeds_they_share() -> None:
    # Differences by hand: -0.5, -0.4, -0.6; mean -0.5, sd 0.1, half-width 2.919986 * 0.1 / sqrt(3).
    found = [*runs("gumbel", [0.5, 0.5, 0.5]), *runs("no_sharing", [1.0, 0.9, 1.1, 7.0])]
    table = difference_table(section(found, TWO_PAIRS))
    assert table is not None
    (row,) = table.rows
    assert row[0] == "Gumbel-Matrix less No sharing"
    assert float(row[1]) == approx(-0.5)
    assert row[2] == "-0.67 to -0.33"
    assert row[-1] == "3"


def test_pairs_without_a_learnt_method_are_left_out_where_there_is_one() -> None:
    methods = ("gumbel", "no_sharing", "shared_bottom")
    found = [run for method in methods for run in runs(method, [1.0, 2.0])]
    table = difference_table(section(found, TWO_PAIRS))
    assert table is not None
    assert all("Gumbel-Matrix" in row[0] for row in table.rows)
    assert len(table.rows) == 2


def test_where_there_is_a_baseline_each_method_is_compared_with_it_alone() -> None:
    methods = ("gumbel", "no_sharing", "shared_bottom")
    found = [run for method in methods for run in runs(method, [1.0, 2.0])]
    table = difference_table(section(found, replace(TWO_PAIRS, baseline="no_sharing")))
    assert table is not None
    assert {row[0] for row in table.rows} == {
        "Gumbel-Matrix less No sharing",
        "Shared bottom less No sharing",
    }


def test_pairs_that_are_asked_for_are_compared_besides() -> None:
    methods = ("gumbel", "no_sharing", "shared_bottom")
    found = [run for method in methods for run in runs(method, [1.0, 2.0])]
    spec = replace(TWO_PAIRS, baseline="no_sharing", pairs=(("gumbel", "shared_bottom"),))
    table = difference_table(section(found, spec))
    assert table is not None
    assert [row[0] for row in table.rows][-1] == "Gumbel-Matrix less Shared bottom"
    assert len(table.rows) == 3
    with raises(ValueError, match=r"`pairs` should be one of 'no_sharing', 'gumbel'"):
        replace(spec, pairs=(("gumbel", "unknown"),))


def test_one_seed_gives_no_comparison() -> None:
    found = [*runs("gumbel", [0.5]), *runs("no_sharing", [1.0])]
    assert difference_table(section(found, TWO_PAIRS)) is None


def test_nothing_has_no_sign() -> None:
    # By hand: differences -0.3 and 0.28, so that the half-width is 6.313752 * 0.29.
    found = [*runs("gumbel", [0.5, 1.28]), *runs("no_sharing", [0.8, 1.0])]
    table = difference_table(section(found, TWO_PAIRS))
    assert table is not None
    assert table.rows[0][1] == "+0.0" and table.rows[0][2] == "-1.8 to +1.8"
    # Differences -0.54 and -0.74: 6.313752 * 0.1 to either side of -0.64 ends at -0.009.
    found = [*runs("gumbel", [1.0, 1.0]), *runs("no_sharing", [1.54, 1.74])]
    table = difference_table(section(found, TWO_PAIRS))
    assert table is not None
    assert table.rows[0][2] == "-1.3 to +0.0"
