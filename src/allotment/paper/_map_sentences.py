"""What the map of pairs shows, in sentences to act on."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..analysis import Gain
from ..report import advantage_text
from ._map import EXAMPLES, OTHER_TASKS, OTHER_WIDTHS, POINTS, Ways
from ._synthetic import N_TASKS, WIDTH, Point


def pairs_sentences(cells: Mapping[Point, Gain], ways: Ways) -> list[str]:
    """Returns when to learn the sharing and when not, and what the points show taken together."""
    usual = {p: cell for p, cell in cells.items() if (p.width, p.n_tasks) == (WIDTH, N_TASKS)}
    labels = {way.name: way.label.lower() for way in ways.every}
    if not usual:
        return [_elsewhere(cells) or "The usual points of the map are not run yet."]
    advice = " ".join(filter(None, (_by_size(usual, labels), _elsewhere(cells))))
    return [advice, _over_points(usual, labels, ways), *_further(cells), *_of_oracle(usual)]


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
            f"learn the sharing with {counts_text(sizes)} examples per task: the loss is "
            f"{_change(cells)} than with the better of no sharing and a shared bottom."
        )
    sizes, cells = where(-1)
    if sizes:
        best = Counter(cell.baseline for cell in cells).most_common(1)[0][0]
        said.append(
            f"do not learn it with {counts_text(sizes)} examples: {labels[best]} is better, and "
            f"the loss of learnt gates is {_change(cells)}."
        )
    sizes, cells = where(0)
    if sizes:
        said.append(
            f"with {counts_text(sizes)} examples it makes little difference: the loss is "
            f"{_change(cells)}."
        )
    first, *others = said
    more = (f"{sentence[:1].upper()}{sentence[1:]}" for sentence in others)
    return " ".join([f"With {N_TASKS} tasks and components of width {WIDTH}, {first}", *more])


def _elsewhere(cells: Mapping[Point, Gain]) -> str:
    """Returns with which other widths and numbers of tasks gates mostly lose; empty: with none."""
    said = []
    for (n_tasks, width), by_size in _by_place(cells).items():
        sizes = [n for n in EXAMPLES if _mostly(by_size.get(n, [])) < 0]
        if sizes:
            change = _change([cell for n in sizes for cell in by_size[n]])
            said.append(
                f"with {n_tasks} tasks, width {width} and {counts_text(sizes)} examples (loss "
                f"{change})"
            )
    return f"Learnt gates mostly lose {', '.join(said)}." if said else ""


def _by_place(
    cells: Mapping[Point, Gain],
) -> dict[tuple[int, int], dict[int | None, list[Gain]]]:
    """Returns the gains by number of tasks and width, other than the usual ones, and by size."""
    found: dict[tuple[int, int], dict[int | None, list[Gain]]] = {}
    for point in POINTS.values():
        place = (point.n_tasks, point.width)
        if point in cells and place != (N_TASKS, WIDTH):
            found.setdefault(place, {}).setdefault(point.n_examples, []).append(cells[point])
    return found


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
        f"Of {len(usual)} points with {N_TASKS} tasks and width {WIDTH}, learnt gates are better "
        f"than the better of {labels[ways.alone.name]} and {labels[ways.shared.name]} in "
        f"{n_each[1]} and worse in {n_each[-1]}; in the other {n_each[0]} the 90 % interval "
        f"holds 0. The largest gain is {advantage_text(usual[best].over_baseline)} % of the loss "
        f"at {best}, the least {advantage_text(usual[worst].over_baseline)} % at {worst}."
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
        is_usual = all(getattr(point, n) == v for n, v in usual.items() if n != name)
        if is_usual:
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


def count_text(n: int | None) -> str:
    return "unlimited" if n is None else f"{n:,}"


def counts_text(sizes: Sequence[int | None]) -> str:
    *some, last = map(count_text, sizes)
    return f"{', '.join(some)} and {last}" if some else last
