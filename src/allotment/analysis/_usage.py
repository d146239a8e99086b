"""How much of a network each task uses, and how much each layer and kind of component is used."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from .._checks import is_list_of
from .._schema import Floats
from ..records import RunRecord
from ._arguments import of_runs
from ._embeddings import embeddings


@of_runs
def used_shares(record: RunRecord) -> Floats:
    """Returns the share of all components that each task uses, 0 to 1, shape ``[T]``.

    Where the allocation is not binary it is the effective number of components in each layer, the
    exponential of the entropy of the task's shares, over the number of components. A task that
    uses k components alike uses k of them by either rule.
    """
    rows = embeddings(record)
    if not record.header.is_binary:
        layers = split_layers(rows, record.header.layer_sizes)
        rows = np.stack([_effective_numbers(layer) for layer in layers], axis=1)  # [T, L]
    shares: Floats = rows.sum(axis=1) / sum(record.header.layer_sizes)
    return shares


def _effective_numbers(weights: Floats) -> Floats:
    """Returns the exponential of the entropy of each row once it sums to 1; 0 for zeros, ``[T]``.

    >>> _effective_numbers(np.array([[0.5, 0.5], [3.0, 0.0], [0.0, 0.0]])).round(6).tolist()
    [2.0, 1.0, 0.0]
    """
    shares = _shares(weights)
    return np.where(shares.any(axis=1), np.exp(entr(shares).sum(axis=1)), 0.0)


def _shares(weights: Floats) -> Floats:
    """Returns the absolute weights with rows that sum to 1; zeros where a row has nothing else."""
    sizes = np.abs(weights)
    totals = sizes.sum(axis=1, keepdims=True)
    return sizes / np.where(totals > 0, totals, 1.0)


def split_layers(columns: np.ndarray, layer_sizes: Sequence[int]) -> list[np.ndarray]:
    """Returns the columns of each modular layer."""
    return np.split(columns, np.cumsum(layer_sizes)[:-1], axis=1)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much tasks use each of ``K`` kinds of component in each of ``L`` layers, over runs.

    Of gates: the share that is open, and how often one is open for just one of two tasks. Where
    the allocation is not binary: the share of a layer's weight that a kind has, and the share of
    it that differs between two tasks.
    """

    kinds: tuple[str, ...]
    shares: Floats  # [L, K], 0 to 1; NaN where a layer has no component of the kind
    diversity: Floats  # [L], 0 to 1


@of_runs
def usage_by_kind(records: Sequence[RunRecord], tasks: Sequence[int] | None = None) -> Usage:
    """Returns how much runs of one network use each kind of component in each layer.

    Over all tasks, or over some ``tasks`` by their index.

    Args:
        records: Runs of one network.
        tasks: Indices of the tasks that count; None: all.
    """
    if not records:
        raise ValueError("`records` should hold at least one run. Found none.")
    header = records[0].header
    _check_indices(tasks, len(header.task_names))
    kinds = tuple(dict.fromkeys(header.component_kinds))
    in_layers = split_layers(np.array([header.component_kinds]), header.layer_sizes)  # L of [1, C]
    used = [_layers(run, tasks) for run in records]  # R times L of [T, C]
    shares = np.full((len(in_layers), len(kinds)), np.nan)
    for layer, place in np.ndindex(shares.shape):
        chosen = in_layers[layer][0] == kinds[place]
        if chosen.any():
            n = 1 if header.is_binary else chosen.sum()  # shares add up, gates do not
            shares[layer, place] = n * np.mean([run[layer][:, chosen] for run in used])
    diversity = np.mean([[_difference(layer) for layer in run] for run in used], axis=0)  # [L]
    if not header.is_binary:
        diversity *= np.array(header.layer_sizes) / 2
    return Usage(kinds=kinds, shares=shares, diversity=diversity)


def _check_indices(tasks: Sequence[int] | None, n_tasks: int) -> None:
    if tasks is None:
        return
    if not is_list_of(tasks, int) or not all(0 <= task < n_tasks for task in tasks):
        raise ValueError(f"`tasks` should be indices of {n_tasks} tasks. Found {tasks!r}.")


def _layers(record: RunRecord, tasks: Sequence[int] | None) -> list[Floats]:
    """Returns the rows of some tasks, or all, in each layer; those that hold shares sum to 1."""
    rows = embeddings(record) if tasks is None else embeddings(record)[list(tasks)]
    layers = split_layers(rows, record.header.layer_sizes)
    return layers if record.header.is_binary else list(map(_shares, layers))


def _difference(rows: Floats) -> float:
    """Returns the mean difference of an entry between two different tasks; 0 for one task."""
    n_tasks = len(rows)
    differences = np.abs(rows[:, None] - rows[None]).mean(axis=2)  # [T, T]
    return float(differences.sum()) / max(n_tasks * (n_tasks - 1), 1)
