from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from pytest import mark

from allotment.analysis import error_curves
from allotment.records import RunRecord, keep, read_kept
from allotment.report import png, svg
from allotment.report._curves import error_figure
from allotment.report._figures import section_figures
from allotment.report._section import section
from tests.records.made_up import a_header, a_record, an_outcome
from tests.report.drawn import allocation_of, gates_of, mds_of, similarity_of, tree_of
from tests.report.suites import ALPHABETS, OMNIGLOT, alphabets_run, clusters_run

SUITES = {"4 tasks": a_record(), "20 tasks": alphabets_run(), "40 tasks": clusters_run()}
FIGURES = [allocation_of, similarity_of, tree_of, mds_of, gates_of]
NAMING = [allocation_of, similarity_of, tree_of, mds_of]


def shown_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that can be seen, with the room it takes in pixels."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    outside = [
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    ]
    return [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_visible()
        and text.get_text().strip()
        and text not in outside
    ]


def rows_of(matrix: np.ndarray) -> RunRecord:
    n_tasks, n_components = matrix.shape
    header = a_header(
        task_names=tuple(f"task {task}" for task in range(n_tasks)),
        families=(),
        layer_sizes=(n_components,),
        component_names=tuple(map(str, range(n_components))),
    )
    return a_record(header, an_outcome(matrix=matrix, probabilities=matrix))


@mark.parametrize("record", SUITES.values(), ids=SUITES)
@mark.parametrize("draw", FIGURES)
def test_no_two_names_meet_and_none_is_cut_off(
    draw: Callable[[RunRecord], Figure], record: RunRecord
) -> None:
    figure = draw(record)
    texts = shown_texts(figure)
    for (name, box), (other, other_box) in combinations(texts, 2):
        inner = Bbox.intersection(box, other_box)
        assert inner is None or min(inner.width, inner.height) < 1.0, (name, other)
    width, height = figure.get_size_inches() * figure.dpi
    for name, box in texts:
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1, name


@mark.parametrize("record", SUITES.values(), ids=SUITES)
@mark.parametrize("draw", NAMING)
def test_every_task_is_named(draw: Callable[[RunRecord], Figure], record: RunRecord) -> None:
    assert set(record.header.task_names) <= {name for name, _ in shown_texts(draw(record))}


@mark.parametrize("draw", NAMING)
@mark.parametrize(
    "rows",
    [np.ones((4, 3)), np.zeros((4, 3)), np.eye(2), np.ones((2, 2)), np.eye(9)],
    ids=["all equal", "nothing used", "two apart", "two equal", "all apart"],
)
def test_odd_embeddings_can_be_drawn(draw: Callable[[RunRecord], Figure], rows: np.ndarray) -> None:
    figure = draw(rows_of(rows))
    assert png(figure).startswith(b"\x89PNG")
    assert svg(figure).startswith("<svg")


def test_the_dashed_line_cuts_the_tree_into_the_clusters() -> None:
    # Three families; the tree joins two of them at 1/3 and all at about 0.8.
    (line,) = [
        line for line in tree_of(clusters_run()).axes[0].get_lines() if line.get_linestyle() == "--"
    ]
    (at, _) = np.asarray(line.get_xdata(), dtype=float)
    assert 0.1 < at < 1 / 3


def test_without_families_like_tasks_stand_together_in_the_similarity() -> None:
    axes = similarity_of(alphabets_run()).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(names) == sorted(ALPHABETS)
    assert abs(names.index("Gujarati") - names.index("Syriac (Estrangelo)")) == 1  # one row
    picture = np.asarray(axes.images[0].get_array())
    assert picture[names.index("Gujarati"), names.index("Syriac (Estrangelo)")] == 1.0


def test_tasks_with_one_embedding_are_one_point() -> None:
    axes = mds_of(clusters_run()).axes[0]
    assert len(axes.collections) == 13  # eleven of CIFAR, one of MNIST, one of Fashion-MNIST


def test_a_method_of_many_tasks_has_all_figures_and_the_gates_of_the_task_asked_for() -> None:
    found = section_figures(section([alphabets_run(seed) for seed in range(3)], OMNIGLOT))
    assert [figure.name.removeprefix("omniglot-") for figure in found] == [
        "loss",
        "error",
        *(f"gumbel-{name}" for name in ("allocation", "similarity", "tree", "mds", "gates")),
    ]
    assert "task Syriac (Estrangelo)" in found[-1].caption
    record = alphabets_run(1)  # the median
    drawn = np.asarray(found[-1].draw().axes[7].get_lines()[5].get_ydata(), dtype=float)
    task = ALPHABETS.index("Syriac (Estrangelo)")
    np.testing.assert_allclose(drawn, record.snapshots.probabilities[:, task, 7 * 7 + 5])


def test_kept_runs_have_the_same_figures(tmp_path: Path) -> None:
    found = [alphabets_run(seed) for seed in range(3)]
    keep(found, tmp_path)
    fresh, kept = (
        section_figures(section(runs, OMNIGLOT)) for runs in (found, read_kept(tmp_path))
    )
    assert [figure.name for figure in kept] == [figure.name for figure in fresh]
    assert kept[-1].caption.endswith("seed 0.")  # the one whose gates are kept over time
    assert len(kept[-1].draw().axes) == 8


def test_gates_over_time_name_each_component_once() -> None:
    texts = [name for name, _ in shown_texts(gates_of(alphabets_run()))]
    for kind in ("conv3x3", "conv1x7-7x1", "average pool", "identity"):
        assert texts.count(kind) == 1
    assert [name for name in texts if name.startswith("layer")] == [
        f"layer {layer}" for layer in range(1, 9)
    ]


def test_errors_show_every_run_and_their_mean() -> None:
    curves = error_curves([alphabets_run(seed) for seed in range(3)])
    axes = error_figure({"": {"Gumbel-Matrix": curves}}).axes[0]
    assert len(axes.get_lines()) == 4
    drawn = np.asarray(axes.get_lines()[-1].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn, 100 * curves.mean)
