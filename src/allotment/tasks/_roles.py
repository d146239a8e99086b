"""What the columns of a table are: inputs, targets, and the groups of rows."""

import warnings
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, NamedTuple

from .._checks import check_choice, described, is_list_of
from ._columns import Column, chosen, columns_of
from ._preprocessing import Kind, TablePreprocessing, TargetColumn
from ._split import UNKNOWN

Columns = dict[str, Column]
_FEW = 20  # whole numbers that lie so close together may be meant as classes


class Roles(NamedTuple):
    """What the columns of a table are.

    Attributes:
        inputs: By name.
        targets: By name.
        groups: Of the rows, if any.
    """

    inputs: Columns
    targets: Columns
    groups: Column | None


def roles_of(
    inputs: Any, targets: Any, groups: Any, unknown: Any, old: TablePreprocessing | None
) -> Roles:
    """Returns what columns are; inputs are read as the earlier preprocessing did, if any."""
    known = old.unknown if old is not None and unknown is None else unknown
    x = columns_of(inputs, prefix="x", unknown=known)
    y = _targets(x, targets, known)
    if isinstance(unknown, Mapping):
        check_names_are_there("unknown", list(unknown), [*x, *y])
    x = {name: column for name, column in x.items() if column not in y.values()}
    together = _groups(x, groups)
    x = {name: column for name, column in x.items() if column is not together}
    if not x:
        raise ValueError("`inputs` should have a column that is no target. Found none.")
    if old is not None:
        _check_are_no_inputs(y, old)
        x = columns_of(inputs, prefix="x", unknown=old.unknown)
    return Roles(x, y, together)


def _targets(x: Columns, targets: Any, unknown: Any) -> Columns:
    names = [targets] if isinstance(targets, str) else targets
    if isinstance(names, list | tuple) and not names:
        raise ValueError(
            "`targets` should be names of columns, one at least, or another table. Found none."
        )
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return {name: chosen(x, name, "A target") for name in names}
    y = columns_of(targets, prefix="y", unknown=unknown)
    n, n_targets = n_rows(x), n_rows(y)
    if n != n_targets:
        raise ValueError(
            "`inputs` and `targets` should have equal lengths. "
            f"Found {n} rows and {n_targets} of target {next(iter(y))!r}."
        )
    return y


def _groups(x: Columns, groups: Any) -> Column | None:
    if isinstance(groups, str):
        found = chosen(x, groups, "`groups`")
    elif groups is not None:
        found = columns_of({"groups": groups}, prefix="")["groups"]
    else:
        return None
    if len(found.values) != n_rows(x) or not found.is_known.all():
        raise ValueError(
            f"`groups` should have a known value for each of {n_rows(x)} rows. "
            f"Found {int(found.is_known.sum())} of {len(found.values)}."
        )
    return found


def n_rows(columns: Columns) -> int:
    return len(next(iter(columns.values())).values)


def kinds_of(
    targets: Columns, given: Mapping[str, Kind], known: Mapping[str, TargetColumn]
) -> dict[str, Kind]:
    """Returns what targets are: as is given, as they were known to be, or as their values say."""
    check_names_are_there("kinds", list(given), list(targets))
    settled = [name for name in given if name in known]
    if settled:
        raise ValueError(
            "`kinds` should leave out targets of `preprocessing`, which says what they are. "
            f"Found {settled}."
        )
    found = {name: _kind(column, known.get(name)) for name, column in targets.items()}
    for name, column in targets.items():
        if name not in given and name not in known and found[name] == "regression":
            _warn_of_classes(name, column)
    return found | dict(given)


def _warn_of_classes(name: str, column: Column) -> None:
    """Warns of floating-point numbers that may be classes: whole, close together, repeated."""
    numbers = column.known()
    values = sorted(set(numbers))
    is_repeated = 1 < len(values) <= len(numbers) // 2
    if is_repeated and values[-1] - values[0] < _FEW and all(v.is_integer() for v in values):
        shown = ", ".join(map(str, values[:3])) + ", ..." * (len(values) > 3)
        warnings.warn(
            f"Target {name!r} is taken for a regression, since its {len(values)} values ({shown}) "
            f"are floating-point numbers. `kinds={{{name!r}: 'classification'}}` makes classes of "
            f"them; with 'regression' they stay numbers, and nothing is said.",
            stacklevel=4,
        )


def warn_of_constants(train: Columns, named: Collection[str]) -> None:
    """Warns of targets of which training has one value alone, but of those that were named."""
    for name, column in train.items():
        values = column.known()
        if name not in named and len(values) > 1 and len(set(values)) == 1:
            warnings.warn(
                f"Target {name!r} should have different values in training. Found {values[0]!r} in "
                f"all of {len(values)} rows: there is nothing to learn.",
                stacklevel=3,
            )


def _kind(column: Column, known: TargetColumn | None) -> Kind:
    is_regression = column.kind == "real" if known is None else known.classes is None
    return "regression" if is_regression else "classification"


def with_known_labels(column: Column, kind: Kind) -> Column:
    """Returns a column in which labels of -100 are not known, as they are everywhere."""
    if kind == "regression":
        return column
    is_known = column.is_known & (column.values != UNKNOWN)
    return Column(column.values, is_known, column.kind)


def check_serves_again(old: object, categorical: Collection[str]) -> None:
    """Raises unless a preprocessing can serve another table."""
    if not isinstance(old, TablePreprocessing):
        raise TypeError(
            "`preprocessing` should be that of a table, such as `tasks.preprocessing` of what "
            f"`tasks_from_table` returned. Found {described(old)}."
        )
    if categorical:
        raise ValueError(
            "`categorical` should be left out beside `preprocessing`, which says what is a "
            f"category. Found {list(categorical)}."
        )


def _check_are_no_inputs(targets: Columns, old: TablePreprocessing) -> None:
    for way in old.inputs:
        if way.name in targets:
            raise ValueError(
                f"Targets should be no inputs of `preprocessing`. Found {way.name!r} among both."
            )


def check_names_are_there(what: str, names: Collection[str], known: Sequence[str]) -> None:
    """Raises unless all names are among those that are known."""
    is_set = isinstance(names, Set | Mapping)  # such as has no order, and needs none
    if isinstance(names, str) or not is_list_of(list(names) if is_set else names, str):
        raise TypeError(f"`{what}` should be names of columns. Found {described(names)}.")
    for name in names:
        check_choice(what, name, known)
