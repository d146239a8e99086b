"""What the runs show, in sentences read from the numbers."""

from collections.abc import Sequence
from itertools import pairwise

from ..analysis import Estimate, KnownFamilies, disjoint, late_change, n_decimals, paired_difference
from ..records import RunRecord
from ._advice import advice_text
from ._allocations import SIMILARITY, budget_text, own_nearest_text, p_values_text
from ._provenance import are_as_declared, lengths
from ._section import MANY, ResultRow, Section, section
from ._spec import ReportSpec
from ._table import NOTHING, interval_text, not_run_text, runs_text, spread_text


def summary_text(records: Sequence[RunRecord], spec: ReportSpec) -> list[str]:
    """Returns sentences on what was found: structure, order of the methods, runs that failed."""
    return section_text(section(records, spec))


def section_text(part: Section) -> list[str]:
    """Returns the sentences of a section."""
    if part.own is not None:
        return list(part.own.sentences)
    if not part.records:
        return ["Not run yet."]
    said = _structures(part)
    for condition in part.conditions:
        said += _comparison(part, condition)
    said += [_other_length(part, row) for row in part.rows]
    for row in part.related:
        said += _relatedness(row)
    said += [_failures(row) for row in part.rows]
    said += [_dead(row) for row in part.rows]
    said.append(not_run_text(row.name for row in part.rows if not row.runs))
    said += advice_text(part)
    return list(filter(None, said))


def _structures(part: Section) -> list[str]:
    """Returns which methods found the structure of the tasks, in one sentence where they are many.

    Of many tasks that is much to ask; what is asked of them comes with their relatedness.
    """
    found = {
        row.name: (row, n)
        for row in part.rows
        if (n := _n_found(row)) is not None and not row.display.task_by_task and row.spec.learnt
    }
    if len(found) <= MANY:
        return [_structure(part, row, n) for row, n in found.values()]
    best_first = sorted(found.values(), key=lambda each: -each[1])
    shares = [f"{row.name} {n} of {len(row.finished)}" for row, n in best_first]
    return [f"Runs that found {part.spec.structure}: {'; '.join(shares)}."]


def _n_found(row: ResultRow) -> int | None:
    return row.summary.n_recovered if row.display.is_binary else row.summary.n_separated


def _structure(part: Section, row: ResultRow, n_found: int) -> str:
    """Returns in how many runs a method found the structure: in its rows, and else as clusters."""
    structure, runs = part.spec.structure, runs_text(len(row.finished))
    how = "" if row.display.is_binary else ", as clusters,"
    n_clustered = row.summary.n_separated or 0
    more = f", and as clusters in {n_clustered}" if n_clustered > n_found else ""
    if n_found:
        return f"{row.name} found {structure}{how} in {n_found} of {runs}{more}."
    return f"{row.name} did not find {structure}{how} in any of {runs}."


Entry = tuple[ResultRow, Estimate]  # a method and its number as it is shown


def _comparison(part: Section, condition: str) -> list[str]:
    """Returns how the methods under one condition rank, the best first, each beside the next."""
    entries = _ranked(part, condition)
    if not entries:
        return []
    split = "in training" if part.is_of_training else "on test"
    where = f"At {condition}, {split}, " if condition else f"{split.capitalize()}, "
    ends, order = ("reaches", "above") if part.higher_is_better else ("ends at", "below")
    best, best_value = entries[0]
    said = [f"{where}{best.spec.label} {ends} {_value_text(best_value, part.spec)}"]
    if len(entries) > MANY:
        return [f"{sentence}." for sentence in (*said, *_beside_the_best(entries))]
    for before, (row, value) in pairwise(entries):
        begin = f"{said.pop()}, {order}" if before[0] is best else "Then comes"
        text = f"{row.spec.label} with {_value_text(value, part.spec)}"
        said.append(f"{begin} {text}; {_verdict(before, (row, value))}")
    return [f"{sentence}." for sentence in said]


def _ranked(part: Section, condition: str) -> list[Entry]:
    """Returns the methods under one condition that have a number, the best first."""
    rows = [row for row in part.rows if row.spec.condition == condition]
    entries = [(row, part.spec.shown(row.summary.measure)) for row in rows]
    known = [entry for entry in entries if entry[1].n]
    return sorted(known, key=lambda entry: entry[1].mean, reverse=part.higher_is_better)


def _beside_the_best(entries: Sequence[Entry]) -> list[str]:
    """Returns which of many methods these runs tell from the best one, and which they do not."""
    best, *others = entries
    equal = "These runs do not tell from it"
    apart = "Behind it, by intervals or seed by seed, each judged alone"
    single = "Without a spread on both sides, and so not judged"
    found: dict[str, list[str]] = {equal: [], apart: [], single: []}
    for row, value in others:
        if min(best[1].n, value.n) < 2:
            found[single].append(row.spec.label)
        else:
            found[apart if _are_apart(best, (row, value)) else equal].append(row.spec.label)
    return [f"{what}: {'; '.join(labels)}" for what, labels in found.items() if labels]


def _are_apart(a: Entry, b: Entry) -> bool:
    low, high = paired_difference(a[0].runs, b[0].runs).interval
    return disjoint(a[1], b[1]) or low > 0 or high < 0


def _value_text(value: Estimate, spec: ReportSpec) -> str:
    """Returns the mean with its interval, or with the remark that there is none."""
    unit = f" {spec.unit}" if spec.unit else ""
    if value.n == 1:
        return f"{value.mean:.3g}{unit} (one run, no spread)"
    mean = f"{value.mean:.{n_decimals(value.half_width)}f}{unit}"
    return f"{mean} (90 % interval {interval_text(value, spec.bounds)}, n={value.n})"


def _verdict(a: Entry, b: Entry) -> str:
    if min(a[1].n, b[1].n) < 2:
        return "without a spread on both sides this decides nothing"
    if disjoint(a[1], b[1]):
        return "the two intervals are disjoint"
    low, high = paired_difference(a[0].runs, b[0].runs).interval
    if low > 0 or high < 0:  # the same data for both leaves less to chance; NaN is neither
        return "the two intervals overlap, but that of the differences seed by seed leaves out 0"
    return "the two intervals overlap, so these runs do not settle the order"


def _other_length(part: Section, row: ResultRow) -> str:
    """Returns how the error of runs of other lengths than declared still changed, or nothing."""
    declared, change = part.spec.rounds, late_change(row.finished).scaled(100)
    if are_as_declared(row.finished, declared) or not change.n:
        return ""
    n_digits, spread = 2, "one run, no spread"
    if change.n > 1:
        (low, high), n_digits = change.interval, n_decimals(change.half_width)
        spread = f"90 % interval {low:+z.{n_digits}f} to {high:+z.{n_digits}f}, n={change.n}"
    return (
        f"{row.name} has {lengths(row.finished)} rounds in place of {declared:,}; from the third "
        "quarter of them to the last the validation error, mean over the checks in each, changed "
        f"by {change.mean:+z.{n_digits}f} percentage points ({spread})."
    )


def _relatedness(row: ResultRow) -> list[str]:
    """Returns which families are near each other, and how much each task uses of the network."""
    known, said = row.relatedness.known, []
    if known is not None and row.display.task_by_task:
        said += _families(known, row)
    if known is not None and len(known.pairs) > 1:
        near, *_, far = known.pairs
        said.append(
            f"the families nearest to each other are {near.first} and {near.second}, with a mean "
            f"similarity of {spread_text(near.similarity, SIMILARITY)}; in {near.n_nearest} of "
            f"{len(row.finished)} runs no other two are as near. The farthest are {far.first} and "
            f"{far.second}, with {spread_text(far.similarity, SIMILARITY)}"
        )
    if row.display.task_by_task:
        said.append(_shares(row))
    return [f"{row.name}: {clause}." for clause in said]


def _families(known: KnownFamilies, row: ResultRow) -> list[str]:
    """Returns what many tasks show of their families, clause by clause."""
    n_runs, said = len(row.finished), []
    if row.display.is_binary:
        uniform = ", ".join(f"{each.name} {each.n_uniform} of {n_runs}" for each in known.families)
        said.append(f"runs in which all tasks of a family have one embedding: {uniform}")
    # What has one row is near to itself and nothing else, and one family has no other.
    varied = [each for each in known.families if each.n_uniform < n_runs and known.pairs]
    said += [
        f"{own_nearest_text(each)} of the {each.name} tasks are nearer to their own family than to "
        "any other"
        for each in varied
        if each.own_nearest.n
    ]
    said += [
        f"in a permutation test of whether {each.name} lies apart, p is {p_values_text(each)}, run "
        "by run"
        for each in varied
        if p_values_text(each) != NOTHING
    ]
    said.append(
        f"cut into {len(known.families)} clusters, the tree of the embeddings gives the families "
        f"in {row.summary.n_separated} of {n_runs} runs"
    )
    return said


def _shares(row: ResultRow) -> str:
    names, found = row.finished[0].header.task_names, row.relatedness
    order = sorted(range(len(names)), key=lambda task: found.shares[task].mean)
    least, most = order[0], order[-1]
    what = "gates open" if row.display.is_binary else "components in use"
    said = (
        f"a task has between {100 * found.shares[least].mean:.0f} % ({names[least]}) and "
        f"{100 * found.shares[most].mean:.0f} % ({names[most]}) of the {what} over runs"
    )
    if found.largest_share < 1:
        said += f", and no task in any run more than {100 * found.largest_share:.3g} %"
    return said + budget_text(found)


def _failures(row: ResultRow) -> str:
    found = row.summary
    parts = [
        f"{n} of {runs_text(found.n_runs)} {what}"
        for n, what in (
            (found.n_failed, "failed and left out of the mean"),
            (found.n_collapsed, "collapsed on some task"),
        )
        if n
    ]
    return f"{row.name}: {', '.join(parts)}." if parts else ""


def _dead(row: ResultRow) -> str:
    """Returns which tasks use nothing of some layer, and so have one output for all inputs."""
    runs = [run.outcome.dead for run in row.finished if run.outcome.dead]
    if not runs:
        return ""
    names = list(dict.fromkeys(name for dead in runs for name in dead))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{row.name}: in {len(runs)} of {runs_text(len(row.finished))} a task uses no component "
        f"of some modular layer, which gives zeros for it ({shown}). `keeps_one=True` of gates "
        "that have it, `disconnect_weight=1.0` or a larger `budget` keep one open. That such tasks "
        "have equal embeddings does not make them alike."
    )
