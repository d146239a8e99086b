"""The sentences, tables and pictures of maps, from made-up runs."""

from collections.abc import Callable

import numpy as np
from pytest import mark

from allotment._schema import Evaluation
from allotment.paper import MAP_PAGE, MAPS, map_summary
from allotment.paper._map import CENSUS_WAYS, PAIRS_WAYS, POINTS, Ways
from allotment.paper._map_report import gains
from allotment.paper._synthetic import Point
from allotment.records import RunRecord
from allotment.report import OwnSection, brief_table, html_page, markdown_page, png
from tests.records.made_up import a_header, a_record, an_outcome

Losses = Callable[[Point, str], float]


def cell(condition: str, ways: Ways, losses: dict[str, float], **header: str) -> list[RunRecord]:
    """Returns runs of three seeds of each method; the second rate does better on test alone."""
    found = []
    for way in ways.every:
        for place, trial in enumerate(ways.trials(way)):
            for seed in range(3):
                value = (losses[way.name] + 0.01 * seed) * (1 - 0.5 * place)
                test, check = (
                    Evaluation(
                        split=split,
                        losses=np.full(4, loss),
                        accuracies=None,
                        metrics={"AUC": np.full(4, score)},
                    )
                    for split, loss, score in (
                        ("test", value, value),
                        ("validation", 1.0 + place, 0.9 - 0.4 * place),
                    )
                )
                named = {"experiment": "map", "measure": "test_loss"} | header
                own = a_header(condition=condition, method=trial.name, seed=seed, **named)
                found.append(a_record(own, an_outcome(test=test, validation=check)))
    return found


def a_map(learnt: Callable[[Point], float], *, n_tasks: int = 16) -> list[RunRecord]:
    """Returns the map on which gates have these losses, no sharing 2, and the others 3 and 1."""
    records = []
    for name, point in POINTS.items():
        if point.rho in (0.0, 0.4, 1.0) and point.n_tasks <= n_tasks:
            losses = {"no_sharing": 2.0, "shared_bottom_mean": 3.0, "oracle": 1.0}
            records += cell(name, PAIRS_WAYS, losses | {"gumbel": learnt(point)})
    return records


def section(records: list[RunRecord]) -> OwnSection:
    own = MAPS[0].report.own
    assert own is not None
    return own(records)


def pays_from(least: int, rho: float) -> Callable[[Point], float]:
    return lambda point: 1.0 if point.rho >= rho and (point.n_examples or 10**9) >= least else 2.5


@mark.parametrize(
    ("learnt", "advice"),
    [
        (
            pays_from(1_000, 0.4),  # at two of three points
            "learn the sharing with 1,000, 5,000 and unlimited examples per task: the loss is 25 % "
            "higher to 50 % lower than with the better of no sharing and a shared bottom. Do not "
            "learn it with 50 and 200 examples: no sharing is better, and the loss of learnt gates "
            "is 25 % higher.",
        ),
        (
            pays_from(0, 0.0),
            "learn the sharing with 50, 200, 1,000, 5,000 and unlimited examples per task: the "
            "loss is 50 % lower than with the better of no sharing and a shared bottom.",
        ),
        (
            lambda point: 1.0 if point.rho == 0.4 and point.n_examples == 50 else 2.0,
            "with 50, 200, 1,000, 5,000 and unlimited examples it makes little difference: the "
            "loss is 0 to 50 % lower.",
        ),
        (
            lambda point: 3.0 if point.n_examples is None else 2.0,
            "do not learn it with unlimited examples: no sharing is better, and the loss of learnt "
            "gates is 50 % higher. With 50, 200, 1,000 and 5,000 examples it makes little "
            "difference: the loss is 0 % lower.",
        ),
    ],
)
def test_the_first_sentence_says_where_to_learn_the_sharing(
    learnt: Callable[[Point], float], advice: str
) -> None:
    usual = [run for run in a_map(learnt, n_tasks=4) if "width" not in run.header.condition]
    where = "With 4 tasks and components of width 16, "
    assert section(usual).sentences[0] == where + advice


@mark.parametrize(("loss", "begin"), [(4.0, "Learnt gates mostly lose"), (1.0, "The usual points")])
def test_a_map_of_other_widths_alone_is_told(loss: float, begin: str) -> None:
    wide = [run for run in a_map(lambda point: loss) if "width=4" in run.header.condition]
    (said,) = section(wide).sentences
    assert said.startswith(begin)


def test_the_other_widths_and_numbers_of_tasks_at_which_gates_lose_are_named() -> None:
    def learnt(point: Point) -> float:
        if point.width == 4 and point.rho < 1:
            return 4.0 if point.n_examples == 5_000 else 2.5
        return 3.0 if (point.n_tasks, point.n_examples) == (16, 5_000) else 1.0

    said = section(a_map(learnt)).sentences[0]
    assert said.endswith(
        "shared bottom. Learnt gates mostly lose with 4 tasks, width 4 and 1,000 and 5,000 "
        "examples (loss 100 % higher to 50 % lower), with 16 tasks, width 16 and 5,000 examples "
        "(loss 50 % higher)."
    )


def test_points_are_counted_and_further_axes_compared() -> None:
    said = section(a_map(pays_from(1_000, 0.4))).sentences
    assert "Of 15 points" in said[1]
    assert "shared bottom (mean) in 6 and worse in 9; in the other 0" in said[1]
    assert said[2] == (
        "Mean gain over 6 points by components of width 4: +24.9 %, 16: +24.9 %, 64: +24.9 %."
    )
    assert said[3].startswith("Mean gain over 6 points by tasks in number 4: +24.9 %, 8:")
    assert "better than learnt gates in 9 of 15 points and worse in 0" in said[4]


def test_rates_are_chosen_on_validation_and_never_on_test() -> None:
    found = gains(PAIRS_WAYS, a_map(pays_from(0, 0.0)))
    assert {cell.measures["no_sharing"].mean for cell in found.values()} == {2.01}


def test_a_table_for_each_panel_with_all_ways_and_their_gain() -> None:
    tables = section(a_map(pays_from(0, 0.0))).tables
    assert [len(table.rows) for table in tables] == [15, 6, 6, 6, 6]
    assert tables[0].caption.startswith("4 tasks, components of width 16: test loss")
    row = dict(zip(tables[0].head, tables[0].rows[0], strict=True))
    assert (row["Examples per task"], row["Relatedness"]) == ("50", "0")
    assert row["No sharing"] == "2.010 ± 0.010 sd"
    assert row["Gain over the better"] == "+49.75 (+49.75 to +49.75)"
    assert row["Missing to the oracle"] == "+0.00 (+0.00 to +0.00)"
    assert row["Seeds"] == "3"


def test_a_terminal_has_the_gains_of_the_usual_points_alone() -> None:
    records = a_map(pays_from(0, 0.0))
    table = brief_table(records, MAPS[0].report_spec(records))
    assert len(table.rows) == 15
    assert table.head == (
        *("Examples per task", "Relatedness", "Gain over the better", "Missing to the oracle"),
    )


def test_two_maps_are_drawn_with_their_panels() -> None:
    gained, missing = section(a_map(pays_from(1_000, 0.4))).figures
    assert (gained.name, missing.name) == ("map-gain", "map-oracle")
    figure = gained.draw()
    assert [axes.get_title() for axes in figure.axes[:-1]] == [
        "4 tasks, components of width 16",
        "4 tasks, components of width 4",
        "4 tasks, components of width 64",
        "8 tasks, components of width 16",
        "16 tasks, components of width 16",
    ]
    assert png(figure).startswith(b"\x89PNG")


def test_pages_say_what_is_not_run_and_show_no_empty_rows() -> None:
    specs = [experiment.report_spec() for experiment in MAPS]
    page = markdown_page(*MAP_PAGE, [], specs)
    assert page.count("Not run yet.") == len(MAPS)
    assert "|" not in page
    assert "not run yet" in map_summary([])


def test_pages_show_the_map_in_place_of_hundreds_of_rows() -> None:
    records = a_map(pays_from(0, 0.4), n_tasks=4)
    spec = MAPS[0].report_spec(records)
    page = html_page(records, [spec])
    assert "learn the sharing" in page
    assert page.count("<figure") == 2
    assert "learning rate 0.01" not in page
    summary = map_summary(records)
    assert summary.startswith("With 4 tasks and components of width 16, learn the sharing")
    assert "](docs/figures/map-gain.png)" in summary


def test_real_data_are_told_by_the_number_of_examples() -> None:
    scores = {"single_task": 0.8, "shared_bottom_mean": 0.7, "gumbel": 0.85}
    names = {"experiment": "map_census", "measure": "score"}
    records = [
        run for name in ("n=100", "n=all") for run in cell(name, CENSUS_WAYS, scores, **names)
    ]
    own = MAPS[1].report.own
    assert own is not None
    found = own(records)
    assert found.sentences[0] == (
        "With 100 examples per task learnt gates do better than the better of the two, Single "
        "task: +5.00 (+5.00 to +5.00) percentage points."
    )
    assert found.sentences[1].startswith("With all examples per task")
    (table,) = found.tables
    assert table.head[:4] == (
        "Examples per task",
        "Single task",
        "Shared bottom (mean)",
        "Gumbel-Matrix",
    )
    assert "Missing to the oracle" not in table.head
    assert [row[0] for row in table.rows] == ["100", "all"]
