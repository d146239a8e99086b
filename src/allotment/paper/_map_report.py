"""What the maps show: sentences to act on, tables, and pictures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from ..analysis import Advantage, Gain, best_on_validation, gain, group_runs
from ..records import RunRecord
from ..report import (
    NOTHING,
    Column,
    GainPanel,
    NamedFigure,
    OwnSection,
    Place,
    advantage_text,
    gain_maps,
    make_table,
)
from ._map import EXAMPLES, POINTS, SIZES, Ways
from ._map_sentences import count_text, pairs_sentences
from ._synthetic import N_TASKS, WIDTH, Point

NOT_RUN = "Not run yet."
PAGE = frozenset({Place.PAGE})
_VERDICTS = {1: "do better than", 0: "are not told from", -1: "do worse than"}
Key = TypeVar("Key")  # a point, or a condition


def gains(ways: Ways, records: Sequence[RunRecord]) -> dict[str, Gain]:
    """Returns what gates gain under each condition that has runs of all fixed patterns and of them.

    Of the learning rates of a way, the runs with the best on validation count.
    """
    by_method: dict[str, dict[str, list[RunRecord]]] = {}
    for (_, condition, method), runs in group_runs(records).items():
        by_method.setdefault(condition, {})[method] = runs
    found = {}
    for condition, runs_of in by_method.items():
        present = {
            way.name: best
            for way in ways.every
            if (best := best_on_validation([runs_of.get(t.name, []) for t in ways.trials(way)]))
        }
        oracle = ways.oracle.name if ways.oracle else ""
        by_hand = (ways.alone.name, ways.shared.name)
        if (cell := gain(present, ways.learnt.name, by_hand, oracle)) is not None:
            found[condition] = cell
    return found


def pairs_section(ways: Ways, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of the synthetic pairs."""
    found = gains(ways, records)
    cells = {POINTS[name]: cell for name, cell in found.items() if name in POINTS}
    if not cells:
        return OwnSection(sentences=(NOT_RUN,))
    usual = {p: cell for p, cell in cells.items() if (p.width, p.n_tasks) == (WIDTH, N_TASKS)}
    panels = _panels(cells)
    columns: list[Column[Point]] = [
        Column("Examples per task", lambda point: count_text(point.n_examples)),
        Column("Relatedness", lambda point: f"{point.rho:g}"),
        *_columns(cells, ways, 1.0),
    ]
    what = "test loss, and gains in percent of it (90 % interval)"
    return OwnSection(
        sentences=tuple(pairs_sentences(cells, ways)),
        tables=tuple(make_table(columns, own, f"{name}: {what}") for name, own in panels.items()),
        brief=make_table(columns, usual, place=Place.TERMINAL),
        figures=tuple(_figures(cells)),
    )


def sizes_section(ways: Ways, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of tasks on real data with fewer examples."""
    found = gains(ways, records)
    cells = {name: found[name] for name in SIZES if name in found}
    if not cells:
        return OwnSection(sentences=(NOT_RUN,))
    labels = {way.name: way.label for way in ways.every}
    counts = {name: "all" if n is None else f"{n:,}" for name, n in SIZES.items()}
    said = [
        f"With {counts[name]} examples per task learnt gates "
        f"{_VERDICTS[cell.over_baseline.sign]} the better of the two, {labels[cell.baseline]}: "
        f"{advantage_text(cell.over_baseline)} percentage points."
        for name, cell in cells.items()
    ]
    places: list[Column[str]] = [Column("Examples per task", lambda name: counts[name])]
    columns = [*places, *_columns(cells, ways, 100.0)]
    return OwnSection(
        sentences=tuple(said),
        tables=(make_table(columns, cells),),
        brief=make_table(columns, cells, place=Place.TERMINAL),
    )


def _columns(found: Mapping[Key, Gain], ways: Ways, factor: float) -> list[Column[Key]]:
    """Returns the columns with results, of which ``factor`` is the unit."""
    labels = {way.name: way.label for way in ways.every}

    def measured(name: str) -> Callable[[Key], str]:
        def cell(key: Key) -> str:
            value = found[key].measures.get(name)
            return NOTHING if value is None else value.scaled(factor).value_text

        return cell

    return [
        *(Column(labels[way.name], measured(way.name), places=PAGE) for way in ways.every),
        Column("Gain over the better", lambda key: advantage_text(found[key].over_baseline)),
        Column(
            "Missing to the oracle",
            lambda key: advantage_text(found[key].behind_oracle),
            optional=True,
        ),
        Column("Seeds", lambda key: str(found[key].over_baseline.n), places=PAGE),
    ]


def _panels(cells: Mapping[Point, Gain]) -> dict[str, list[Point]]:
    """Returns the points that ran, by the title of their panel, the usual ones first."""
    found: dict[str, list[Point]] = {}
    for point in POINTS.values():
        if point in cells:
            title = f"{point.n_tasks} tasks, components of width {point.width}"
            found.setdefault(title, []).append(point)
    return found


def _figures(cells: Mapping[Point, Gain]) -> list[NamedFigure]:
    """Returns the map of gains, and that of what is missing to the oracle."""
    gained = {point: cell.over_baseline for point, cell in cells.items()}
    missing = {p: c.behind_oracle for p, c in cells.items() if c.behind_oracle is not None}
    how = "Numbers are percent of the loss; a dot: the 90 % interval, seed by seed, excludes 0."
    figures = []
    for name, what, label, found in (
        (
            "gain",
            "What learnt gates gain over the better of no sharing and a shared bottom.",
            "gain, % of the loss",
            gained,
        ),
        (
            "oracle",
            "How far learnt gates are behind the oracle pattern; negative where they are ahead.",
            "missing, % of the loss",
            missing,
        ),
    ):
        if found:
            panels = [_panel(title, own, found) for title, own in _panels(cells).items()]
            draw = partial(
                gain_maps, panels, xlabel="relatedness", ylabel="examples per task", label=label
            )
            figures.append(NamedFigure(name=f"map-{name}", caption=f"{what} {how}", draw=draw))
    return figures


def _panel(title: str, points: Sequence[Point], found: Mapping[Point, Advantage]) -> GainPanel:
    rhos = sorted({point.rho for point in points})
    sizes = [n for n in EXAMPLES if any(point.n_examples == n for point in points)]
    at = {(sizes.index(p.n_examples), rhos.index(p.rho)): p for p in points if p in found}
    values = np.full((len(sizes), len(rhos)), np.nan)
    marked = np.zeros(values.shape)
    for spot, point in at.items():
        values[spot] = found[point].mean
        marked[spot] = found[point].sign != 0
    return GainPanel(
        title=title,
        columns=[f"{rho:g}" for rho in rhos],
        rows=[count_text(n) for n in sizes],
        values=values,
        marked=marked,
    )
