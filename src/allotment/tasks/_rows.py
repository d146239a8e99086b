"""Which rows of a table are for training, validation and test: given, or drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_share
from .._streams import stream
from ._columns import Column

Rows = NDArray[np.int64]
Held = float | Sequence[int] | NDArray[Any] | Tensor | None


def rows_of_parts(
    n: int, validation: Held, test: Held, seed: int, groups: Column | None
) -> dict[str, Rows]:
    """Returns the rows of each part; those of training are all that the others leave."""
    held = {"test": test, "validation": validation}
    given = {name: _given(name, rows, n) for name, rows in held.items() if _is_given(rows)}
    free = np.ones(n, dtype=bool)
    for rows in given.values():
        if not free[rows].all():
            raise ValueError(
                f"`validation` and `test` should have no row in common. Found row "
                f"{rows[~free[rows]][0]} in both."
            )
        free[rows] = False
    shares = {name: share for name, share in held.items() if name not in given}
    drawn = _drawn(np.flatnonzero(free), n, shares, seed, groups)
    parts = {**given, **drawn}
    if not len(parts["train"]):
        raise ValueError(f"`validation` and `test` should leave rows for training. Found {n} held.")
    return {name: rows for name, rows in parts.items() if len(rows)}


def _is_given(rows: Held) -> bool:
    return not isinstance(rows, int | float | np.number) and rows is not None


def _given(name: str, rows: Any, n: int) -> Rows:
    found = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not np.isin(found, np.arange(n)).all():
        raise ValueError(
            f"`{name}` should be a share of the rows, row numbers from 0 to {n - 1}, or a mask of "
            f"{n} truth values. Found an array of shape {list(found.shape)} and type {found.dtype}"
            + (f" from {found.min()} to {found.max()}." if found.dtype.kind in "iu" else ".")
        )
    return np.unique(found).astype(np.int64)


def _drawn(
    free: Rows, n: int, shares: Mapping[str, Any], seed: int, groups: Column | None
) -> dict[str, Rows]:
    """Returns shares of ``n`` rows, drawn from those that are free, and the rest for training."""
    member = np.arange(n) if groups is None else _members(groups)
    order = torch.randperm(int(member.max()) + 1, generator=stream(seed, "table")).numpy()
    free = free[np.argsort(order[member[free]], kind="stable")]  # groups one after another
    ends, found = 0, {}
    starts = np.flatnonzero(np.diff(member[free], prepend=-1))  # where a group begins
    for name, share in _checked_shares(shares, n, len(free)).items():
        wanted = ends + round(share * n)
        end = int(starts[np.abs(starts - wanted).argmin()]) if len(starts) and wanted else ends
        if len(starts) and wanted > ends == end:
            raise ValueError(
                f"`{name}` should be a share that groups of rows can make up. Found "
                f"`{name} = {share}` for {len(starts)} groups; larger shares, or None, would do."
            )
        found[name], ends = np.sort(free[ends:end]), end
    return {**found, "train": np.sort(free[ends:])}


def _checked_shares(shares: Mapping[str, Any], n: int, n_free: int) -> dict[str, float]:
    """Returns shares of ``n`` rows, 0 for None; raises unless they leave some of the free rows."""
    found = {name: 0.0 if share is None else share for name, share in shares.items()}
    for name, share in found.items():
        check_share(name, share)
    if any(found.values()) and sum(found.values()) * n >= n_free:
        said = ", ".join(f"`{name} = {share}`" for name, share in shares.items())
        raise ValueError(
            f"`validation` and `test` should leave rows for training. Found {said} for {n_free} "
            "rows."
        )
    return found


def _members(groups: Column) -> Rows:
    """Returns the number of each row's group, ``[N]``, in the order of their first rows."""
    values = groups.values.tolist()
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return np.array([places[value] for value in values])
