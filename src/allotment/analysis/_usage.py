"""How much each layer and each kind of component is used."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._schema import Floats
from ..records import RunRecord

from ._embeddings import embeddings


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Shares of open gates over tasks and runs, by layer and by kind of component."""

    kinds: tuple[str, ...]
    shares: Floats  # [L, K], 0 to 1; NaN where a layer has no component of the kind
    diversity: Floats  # [L], how often a component is open for one of two tasks and not the other


def component_kind(name: str) -> str:
    """Returns the kind that a component's name says, without the mark that tells copies apart.

    >>> [component_kind(name) for name in ("conv3x3 A", "conv3x3 12", "max pool", "A")]
    ['conv3x3', 'conv3x3', 'max pool', 'A']
    """
    return re.sub(r" (\d+|[A-Z])$", "", name)


def usage_by_layer(record: RunRecord) -> Floats:
    """Returns the share of open gates in each modular layer over all tasks, shape ``[L]``."""
    return np.array([gates.mean() for gates in _layers(record, embeddings(record))])


def usage_by_kind(records: Sequence[RunRecord], tasks: Sequence[int] | None = None) -> Usage:
    """Returns how much runs of one network use each kind of component in each layer.

    Over all tasks, or over some ``tasks`` by their index.
    """
    if not records:
        raise ValueError("`records` should hold at least one run. Found none.")
    first = records[0]
    names = _layers(first, np.array([[component_kind(n) for n in first.header.component_names]]))
    kinds = tuple(dict.fromkeys(component_kind(name) for name in first.header.component_names))
    of = slice(None) if tasks is None else list(tasks)
    open_for = [_layers(run, embeddings(run)[of]) for run in records]  # R times L of [T, C]
    shares = np.full((len(names), len(kinds)), np.nan)
    for layer, place in np.ndindex(shares.shape):
        chosen = names[layer][0] == kinds[place]
        if chosen.any():
            shares[layer, place] = np.mean([run[layer][:, chosen] for run in open_for])
    diversity = [
        np.mean([_diversity(run[layer]) for run in open_for]) for layer in range(len(names))
    ]
    return Usage(kinds=kinds, shares=shares, diversity=np.array(diversity))


def _diversity(gates: Floats) -> float:
    """Returns the chance that a component is open for just one of two different tasks."""
    n_tasks = len(gates)
    share = gates.mean(axis=0)  # [C]
    return float((2 * share * (1 - share)).mean()) * n_tasks / max(n_tasks - 1, 1)


def _layers(record: RunRecord, columns: np.ndarray) -> list[np.ndarray]:
    """Returns the columns of each modular layer."""
    return np.split(columns, np.cumsum(record.header.layer_sizes)[:-1], axis=1)
