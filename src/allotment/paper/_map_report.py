"""What the maps show: sentences to act on, tables, and pictures."""

from collections import Counter
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
from ._map import EXAMPLES, OTHER_TASKS, OTHER_WIDTHS, POINTS, SIZES, Ways
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
    labels = {way.name: way.label.lower() for way in ways.every}
    advice = (_by_size(usual, labels), _over_points(usual, labels, ways))
    panels = _panels(cells)
    columns: list[Column[Point]] = [
        Column("Examples per task", lambda point: _count(point.n_examples)),
        Column("Relatedness", lambda point: f"{point.rho:g}"),
        *_columns(cells, ways, 1.0),
    ]
    what = "test loss, and gains in percent of it (90 % interval)"
    return OwnSection(
        sentences=(*advice, *_further(cells), *_of_oracle(usual)),
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


def _by_size(usual: Mapping[Point, Gain], labels: Mapping[str, str]) -> str:
    """Returns where to learn the sharing, by the number of examples."""
    rows = {n: [c for p, c in usual.items() if p.n_examples == n] for n in EXAMPLES}

    def where(sign: int) -> tuple[list[int | None], list[Gain]]:
        """Returns the numbers of examples with which most cells have a sign, and those cells."""
        sizes = [n for n, cells in rows.items() if cells and _mostly(cells) == sign]
        return sizes, [cell for n in sizes for cell in rows[n]]

    said = []
    sizes, cells = where(1)
    if sizes:
        said.append(
            f"Learn the sharing with {_counts(sizes)} examples per task: the loss is "
            f"{_change(cells)} than with the better of no sharing and a shared bottom."
        )
    sizes, cells = where(-1)
    if sizes:
        best = Counter(cell.baseline for cell in cells).most_common(1)[0][0]
        said.append(
            f"Do not learn it with {_counts(sizes)} examples: {labels[best]} is better, and the "
            f"loss of learnt gates is {_change(cells)}."
        )
    sizes, cells = where(0)
    if sizes:
        said.append(
            f"With {_counts(sizes)} examples it makes little difference: the loss is "
            f"{_change(cells)}."
        )
    return " ".join(said)


def _change(cells: Sequence[Gain]) -> str:
    """Returns between what the loss changes over some cells."""
    means = [cell.over_baseline.mean for cell in cells]
    low, high = min(means), max(means)
    if low >= 0:
        return f"{_span(low, high)} % lower"
    if high <= 0:
        return f"{_span(-high, -low)} % higher"
    return f"{-low:.0f} % higher to {high:.0f} % lower"


def _span(low: float, high: float) -> str:
    """Returns two whole numbers, or one where they are equal."""
    return " to ".join(dict.fromkeys(f"{value:z.0f}" for value in (low, high)))


def _over_points(usual: Mapping[Point, Gain], labels: Mapping[str, str], ways: Ways) -> str:
    """Returns at how many points it pays, and the most that is gained and lost."""
    n_each = Counter(cell.over_baseline.sign for cell in usual.values())
    worst = min(usual, key=lambda point: usual[point].over_baseline.mean)
    best = max(usual, key=lambda point: usual[point].over_baseline.mean)
    return (
        f"Of {len(usual)} points, learnt gates are better than the better of "
        f"{labels[ways.alone.name]} and {labels[ways.shared.name]} in {n_each[1]} and worse in "
        f"{n_each[-1]}; in the other {n_each[0]} the 90 % interval holds 0. The largest gain is "
        f"{advantage_text(usual[best].over_baseline)} % of the loss at {best}, the least "
        f"{advantage_text(usual[worst].over_baseline)} % at {worst}."
    )


def _mostly(cells: Sequence[Gain]) -> int:
    """Returns what more than half of the cells show: 1 a gain, -1 a loss; 0 where neither does."""
    signs = Counter(cell.over_baseline.sign for cell in cells)
    return next((sign for sign in (1, -1) if 2 * signs[sign] > len(cells)), 0)


def _further(cells: Mapping[Point, Gain]) -> list[str]:
    """Returns what capacity and the number of tasks change."""
    said = []
    for what, name, values in (
        ("components of width", "width", sorted((WIDTH, *OTHER_WIDTHS))),
        ("tasks in number", "n_tasks", sorted((N_TASKS, *OTHER_TASKS))),
    ):
        shared = _shared_points(cells, name, values)
        if not shared:
            continue
        means = [
            f"{value}: {np.mean([own[value].over_baseline.mean for own in shared]):+.1f} %"
            for value in values
        ]
        said.append(f"Mean gain over {len(shared)} points by {what} {', '.join(means)}.")
    return said


def _shared_points(
    cells: Mapping[Point, Gain], name: str, values: Sequence[int]
) -> list[dict[int, Gain]]:
    """Returns the points of the first two axes at which all values of a further one ran."""
    usual = {"width": WIDTH, "n_tasks": N_TASKS}
    found: dict[tuple[float, int | None], dict[int, Gain]] = {}
    for point, cell in cells.items():
        if all(getattr(point, n) == v for n, v in usual.items() if n != name):
            found.setdefault((point.rho, point.n_examples), {})[getattr(point, name)] = cell
    return [own for own in found.values() if set(own) == set(values)]


def _of_oracle(usual: Mapping[Point, Gain]) -> list[str]:
    """Returns what is missing to the pattern that only the maker of the tasks knows."""
    missing = [c.behind_oracle for c in usual.values() if c.behind_oracle is not None]
    if not missing:
        return []
    n_each = Counter(each.sign for each in missing)
    most = max(missing, key=lambda each: each.mean)
    return [
        f"The oracle pattern, which knows the pairs, does better than learnt gates in {n_each[1]} "
        f"of {len(missing)} points and worse in {n_each[-1]}; its loss is at best lower by "
        f"{advantage_text(most)} % of theirs. It is no bound: where tasks of a pair have little in "
        "common, sharing inside pairs is no help."
    ]


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
            "What learnt gates lack to the oracle pattern; negative where it does worse.",
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
        rows=[_count(n) for n in sizes],
        values=values,
        marked=marked,
    )


def _count(n: int | None) -> str:
    return "unlimited" if n is None else f"{n:,}"


def _counts(sizes: Sequence[int | None]) -> str:
    *some, last = map(_count, sizes)
    return f"{', '.join(some)} and {last}" if some else last
