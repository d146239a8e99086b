"""Maps of gains: what is drawn where."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pytest import raises

from allotment.report import GainPanel, gain_maps

VALUES = np.array([[10.0, -4.0, np.nan], [0.2, 3.0, 20.0]])


def a_panel(**changes: Any) -> GainPanel:
    values: dict[str, Any] = {
        "title": "usual",
        "columns": ["0", "0.5", "1"],
        "rows": ["50", "200"],
        "values": VALUES,
        "marked": np.array([[1, 0, 0], [0, 0, 1]]),
    }
    return GainPanel(**values | changes)


def numbers_of_bar(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[-1].get_yticklabels()]


def test_a_cell_has_its_number_and_a_dot_where_it_is_marked() -> None:
    figure = gain_maps([a_panel()], xlabel="relatedness", ylabel="examples", label="gain, %")
    axes, bar = figure.axes
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts == {(0, 0): "+10", (1, 0): "-4", (0, 1): "0", (1, 1): "+3", (2, 1): "+20"}
    dots = {tuple(np.asarray(line.get_xydata())[0].round().astype(int)) for line in axes.lines}
    assert dots == {(0, 0), (2, 1)}
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == (
        "relatedness",
        "examples",
        "gain, %",
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["50", "200"]


def test_colours_are_the_same_in_all_panels_and_nothing_is_in_the_middle() -> None:
    others = [a_panel(title=title, values=VALUES / 4) for title in "bcd"]
    figure = gain_maps([a_panel(), *others], xlabel="x", ylabel="y", label="")
    *panels, _ = figure.axes
    assert [axes.get_title() for axes in panels] == ["usual", "b", "c", "d"]
    assert {axes.images[0].get_clim() for axes in panels} == {(-20.0, 20.0)}
    assert numbers_of_bar(figure) == ["-10", "-3", "-1", "0", "1", "3", "10"]
    places = [spec for axes in panels if (spec := axes.get_subplotspec())]
    assert [len(spec.colspan) for spec in places] == [2, 1, 1, 1]


def test_a_gain_of_some_percent_is_seen_beside_a_loss_of_a_hundred() -> None:
    values = np.array([[-120.0, 4.0, 0.0]])
    panel = a_panel(rows=["50"], values=values, marked=np.zeros((1, 3)))
    picture = gain_maps([panel], xlabel="x", ylabel="y", label="").axes[0].images[0]
    shares = 2 * np.asarray(picture.norm(values[0])) - 1  # of the strongest colour
    np.testing.assert_allclose(shares[[0, 2]], [-1, 0], atol=1e-9)
    assert shares[1] > 0.25


def test_values_have_a_place_for_each_row_and_column() -> None:
    with raises(ValueError, match=r"should be of shape \[2, 3\].*Found \[2, 3\] and \[3, 2\]"):
        a_panel(marked=np.zeros((3, 2)))
