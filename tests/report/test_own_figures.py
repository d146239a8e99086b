from collections.abc import Callable, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from pytest import mark, raises

import allotment as al
from allotment._schema import Floats
from allotment.report import (
    allocation_map,
    mds_map,
    png,
    probabilities_over_time,
    similarity_map,
    task_tree,
)

ROWS = [[1, 0, 1], [1, 0, 1], [0, 1, 1]]
NAMES = ["size", "weight", "kind"]
OF_ROWS = [allocation_map, similarity_map, task_tree, mds_map]


def labels(figure: Figure, axis: str) -> list[str]:
    ticks = getattr(figure.axes[0], f"get_{axis}ticklabels")()
    return [label.get_text() for label in ticks]


@mark.parametrize("draw", OF_ROWS)
@mark.parametrize("convert", [list, np.array, torch.tensor], ids=["list", "array", "tensor"])
def test_pictures_are_drawn_from_plain_rows_and_names(
    draw: Callable[..., Figure], convert: Callable[[Sequence[Sequence[int]]], object]
) -> None:
    assert png(draw(convert(ROWS), NAMES)).startswith(b"\x89PNG")


def test_a_network_of_ones_own_has_all_that_its_map_shows() -> None:
    layers = [
        al.ModularLayer(
            [torch.nn.Linear(4, 4), torch.nn.Identity()], al.FixedMatrix(rows, reduce="sum")
        )
        for rows in ([[1, 0], [1, 1]], [[0, 1], [1, 1]])
    ]
    network = al.MultiTaskNetwork(None, layers, task_names=["size", "kind"])
    figure = al.report.allocation_map(
        al.task_embeddings(network),
        network.task_names,
        component_names=network.component_names,
        layer_sizes=network.layer_sizes,
    )
    assert labels(figure, "y") == ["size", "kind"]
    assert labels(figure, "x") == ["linear", "identity"] * 2


def test_components_without_names_are_numbered_in_each_layer() -> None:
    assert labels(allocation_map(ROWS, NAMES), "x") == ["1", "2", "3"]
    assert labels(allocation_map(ROWS, NAMES, layer_sizes=[1, 2]), "x") == ["1", "1", "2"]


def test_gates_over_time_are_drawn_as_they_were() -> None:
    gates = [[0.5, 0.5, 0.5], [0.6, 0.2, 0.9]]
    figure = probabilities_over_time([10, 20], gates, layer_sizes=[2, 1])
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 1]
    drawn = np.asarray(figure.axes[1].get_lines()[0].get_ydata(), dtype=float)
    np.testing.assert_array_equal(drawn, [0.5, 0.9])


@mark.parametrize("draw", OF_ROWS)
def test_shares_of_components_can_be_drawn(draw: Callable[..., Figure]) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(3), size=3)
    assert png(draw(shares, NAMES)).startswith(b"\x89PNG")


def cell_colours(figure: Figure) -> Floats:
    png(figure)  # lays it out
    return np.array(figure.axes[0].collections[0].get_facecolor(), dtype=float)


def test_shares_are_shades_and_the_largest_has_the_full_colour() -> None:
    gates, shares = (allocation_map(rows, ["a"]) for rows in ([[1, 0, 0]], [[0.5, 0.25, 0.0]]))
    opened, _, shut = cell_colours(gates)
    most, half, nothing = cell_colours(shares)
    np.testing.assert_allclose([most, nothing], [opened, shut])
    np.testing.assert_allclose(half, (opened + shut) / 2, atol=0.01)
    assert [len(figure.axes) for figure in (gates, shares)] == [1, 2]  # only shades need a bar


@mark.parametrize("draw", OF_ROWS)
@mark.parametrize(
    ("rows", "names", "message"),
    [
        ([[float("nan"), 1.0]], ["a"], r"finite entries. Found shape \[1, 2\] with entries that"),
        ([1, 0], ["a"], r"shape \[T, C\] .* Found shape \[2\]"),
        (ROWS, NAMES[:2], "`task_names` should be one for each task. Found 2 for 3 tasks"),
    ],
)
def test_rows_and_names_that_do_not_fit_are_refused(
    draw: Callable[..., Figure], rows: object, names: list[str], message: str
) -> None:
    with raises(ValueError, match=message):
        draw(rows, names)


@mark.parametrize("draw", OF_ROWS)
def test_families_are_one_for_each_task(draw: Callable[..., Figure]) -> None:
    draw(ROWS, NAMES, families=["a", "a", "b"])
    with raises(ValueError, match=r"`families` should be one for each task. Found 2 for 3 tasks"):
        draw(ROWS, NAMES, families=["a", "b"])


@mark.parametrize(
    ("sizes", "names", "message"),
    [
        ([2, 2], [], r"`layer_sizes` should be positive and sum to 3.* Found \[2, 2\]"),
        ([3, 0], [], r"`layer_sizes` should be positive and sum to 3.* Found \[3, 0\]"),
        ([], ["A"], "`component_names` should be one for each component. Found 1 for 3"),
    ],
)
def test_layers_that_do_not_fit_are_refused(
    sizes: list[int], names: list[str], message: str
) -> None:
    with raises(ValueError, match=message):
        allocation_map(ROWS, NAMES, layer_sizes=sizes, component_names=names)
    with raises(ValueError, match=message):
        probabilities_over_time([1], [[0.5] * 3], layer_sizes=sizes, component_names=names)


def test_gates_of_other_rounds_are_refused() -> None:
    with raises(ValueError, match=r"shape \[m, C\] for m rounds. Found shape \[1, 2\]"):
        probabilities_over_time([10, 20], [[0.5, 0.5]])


def test_a_tree_needs_two_tasks() -> None:
    with raises(ValueError, match=r"at least 2 tasks. Found 1"):
        task_tree([[1, 0]], ["a"])
