from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from allotment.analysis import Band, loss_band
from allotment.records import RunRecord
from allotment.report import ReportSpec, png, svg, write_figures
from allotment.report._curves import loss_bands
from allotment.report._drawing import line_style
from allotment.report._figures import section_figures
from allotment.report._section import section
from tests.records.made_up import a_header, a_record, an_outcome, loss_run
from tests.report.drawn import allocation_of, gates_of, similarity_of
from tests.report.expected import MNIST, TWO_PAIRS, runs


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.findobj(match=_is_text)}  # type: ignore[attr-defined]


def _is_text(artist: object) -> bool:
    return hasattr(artist, "get_text")


def many_tasks() -> RunRecord:
    """Forty tasks by forty-eight components in three layers."""
    matrix = (np.arange(40)[:, None] % 3 == np.arange(48) % 3).astype(float)
    header = a_header(
        task_names=tuple(f"task {task}" for task in range(40)),
        families=("first",) * 20 + ("second",) * 20,
        layer_sizes=(16, 16, 16),
        component_names=tuple(f"conv {component}" for component in range(48)),
    )
    return a_record(header, an_outcome(rounds=200, matrix=matrix, probabilities=matrix))


@pytest.mark.parametrize("record", [a_record(), many_tasks()], ids=["4 tasks", "40 tasks"])
def test_maps_name_every_task_component_layer_and_family(record: RunRecord) -> None:
    figure = allocation_of(record)
    layers = {f"layer {layer + 1}" for layer in range(len(record.header.layer_sizes))}
    header = record.header
    named = {*header.task_names, *header.component_names, *header.families, *layers}
    assert named <= texts(figure)
    assert set(header.task_names) <= texts(similarity_of(record))
    assert len(svg(figure)) < 500_000


def test_a_map_can_do_without_families() -> None:
    figure = allocation_of(a_record(a_header(families=())))
    assert "a1" in texts(figure)


def test_bands_have_a_panel_for_each_condition_and_one_colour_for_each_method() -> None:
    band = loss_band([loss_run(1.0, seed) for seed in range(3)], window=100)
    panels = {"rho=0": {"A": band, "B": band}, "rho=1": {"B": band}}
    figure = loss_bands(panels)
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("rho=0", "rho=1")
    assert left.get_lines()[1].get_color() == right.get_lines()[0].get_color()
    assert {"A (n=3)", "B (n=3)"} <= texts(figure)


def test_a_band_down_to_nothing_leaves_a_logarithmic_axis_where_the_means_are() -> None:
    mean = np.geomspace(4.0, 0.02, 9)
    rounds = np.arange(9.0)
    band = Band(rounds=rounds, mean=mean, low=mean - 0.0199, high=mean + 1, n_runs=3)
    axes = loss_bands({"": {"A": band}}).axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] == pytest.approx(0.01) and axes.get_ylim()[1] > 5.0


@pytest.mark.parametrize(
    ("names", "n_rows"),
    [
        (["Gumbel-Matrix"], 1),
        ([f"Method {k}" for k in range(7)], 4),  # two beside each other
        ([f"M{k}" for k in range(8)], 2),
        (
            [
                f"A way to train with a name of its own, and a long one, number {k}"
                for k in range(7)
            ],
            7,
        ),
    ],
)
def test_names_below_a_figure_stay_inside_and_leave_the_axes_their_height(
    names: list[str], n_rows: int
) -> None:
    mean = np.ones(9)
    band = Band(rounds=np.arange(9.0), mean=mean, low=mean, high=mean, n_runs=1)
    figure = loss_bands({"": dict.fromkeys(names, band)})
    png(figure)  # lays it out
    whole, key = figure.bbox, figure.legends[0].get_window_extent()
    axes = figure.axes[0].get_window_extent()
    assert key.x0 >= whole.x0 and key.x1 <= whole.x1 and key.y0 >= whole.y0
    assert key.y1 <= axes.y0
    assert axes.height > 1.5 * figure.dpi  # inches
    found = figure.legends[0].get_texts()
    assert [text.get_text().replace("\n", " ") for text in found] == [f"{n} (n=1)" for n in names]
    assert len({round(text.get_window_extent().y1) for text in found}) == n_rows


def test_names_below_a_figure_are_those_of_all_panels_and_each_stands_once() -> None:
    mean = np.ones(9)
    band = Band(rounds=np.arange(9.0), mean=mean, low=mean, high=mean, n_runs=1)
    panels = {"left": {"A": band, "B": band}, "right": {"B": band, "C": band}}
    found = [text.get_text() for text in loss_bands(panels).legends[0].get_texts()]
    assert found == ["A (n=1)", "B (n=1)", "C (n=1)"]


@pytest.mark.parametrize("n_lines", [2, 7, 8, 14, 20])
def test_no_two_lines_look_the_same(n_lines: int) -> None:
    assert len({str(line_style(place, n_lines)) for place in range(n_lines)}) == n_lines


def test_gates_have_a_panel_for_each_layer() -> None:
    record = a_record(a_header(layer_sizes=(1, 3)))
    figure = gates_of(record, task=2)
    assert [len(axes.get_lines()) for axes in figure.axes] == [1, 3]
    drawn = np.asarray(figure.axes[1].get_lines()[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn, record.snapshots.probabilities[:, 2, 1])


def test_the_same_figure_gives_the_same_bytes_and_carries_no_link() -> None:
    first, second = svg(similarity_of(a_record())), svg(similarity_of(a_record()))
    assert first == second
    assert first.startswith("<svg")
    assert 'href="http' not in first
    assert png(similarity_of(a_record())).startswith(b"\x89PNG")


def test_odd_names_are_drawn_as_they_are() -> None:
    record = a_record(a_header(task_names=("$x^", "_hidden", "a & b", "<b>")))
    figure = allocation_of(record)
    assert {"$x^", "_hidden", "a & b", "<b>"} <= texts(figure)
    assert "<b>" not in svg(figure)


def test_pictures_are_written_for_the_document(tmp_path: Path) -> None:
    found = runs("gumbel", [0.3, 0.31, 0.32], recovered=3)
    paths = write_figures(found, [TWO_PAIRS, MNIST], tmp_path / "figures")
    assert [path.name for path in paths] == [
        "two_pairs-loss.png",
        "two_pairs-gumbel-allocation.png",
        "two_pairs-gumbel-similarity.png",
        "two_pairs-gumbel-gates.png",
    ]
    assert all(path.stat().st_size > 1_000 for path in paths)


def test_the_loss_is_drawn_as_it_was_smoothed_and_as_its_caption_says() -> None:
    runs = [loss_run(0.5, seed) for seed in range(2)]
    spec = ReportSpec(experiment="two_pairs", title="x", place="", rows=(), measure="Loss")
    figure = section_figures(section(runs, spec))[0]
    drawn = figure.draw().axes[0].get_lines()[0]
    expected = loss_band(runs, 100)
    assert_allclose(np.asarray(drawn.get_ydata(), dtype=float), expected.mean)
    assert not np.allclose(expected.mean, loss_band(runs, 10).mean)
    assert "100 rounds" in figure.caption


def test_a_short_run_is_smoothed_over_a_tenth_of_it() -> None:
    long = loss_run(0.5, 0)
    short = replace(long, rounds=np.arange(10, 10 * len(long.rounds) + 1, 10))
    part = section([short], TWO_PAIRS)
    assert part.window == len(long.rounds) < 100
    caption = section_figures(part)[0].caption
    assert f"smoothed over {part.window} rounds" in caption
    assert section([long], TWO_PAIRS).window == 100
