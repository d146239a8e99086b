"""What is gained for what it costs: which points nobody should choose."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._schema import Floats
from ..records import RunRecord
from ._usage import used_shares


def pareto(
    costs: ArrayLike, values: ArrayLike, *, higher_is_better: bool = True
) -> NDArray[np.bool_]:
    """Returns which points are not dominated, shape ``[N]``.

    A point is dominated where another costs no more and is no worse, and is better in one of the
    two. Points with NaN are never chosen, and dominate none.

    >>> pareto([1.0, 2.0, 3.0, 3.0], [0.7, 0.9, 0.8, 0.9]).tolist()
    [True, True, False, False]

    Args:
        costs: Of each point, ``[N]``; lower is better.
        values: What each point reaches, ``[N]``.
        higher_is_better: Whether a larger value is better, as for accuracy.
    """
    cost, value = np.asarray(costs, dtype=float), np.asarray(values, dtype=float)
    if cost.ndim != 1 or cost.shape != value.shape:
        raise ValueError(
            "`costs` and `values` should be of one shape [N]. "
            f"Found {list(cost.shape)} and {list(value.shape)}."
        )
    gain = value if higher_is_better else -value
    # [i, j]: whether j is at least as good as i in both, and better in one. NaN compares to no.
    no_worse = (cost <= cost[:, None]) & (gain >= gain[:, None])
    better = (cost < cost[:, None]) | (gain > gain[:, None])
    is_known = ~(np.isnan(cost) | np.isnan(value))
    chosen: NDArray[np.bool_] = is_known & ~(no_worse & better).any(axis=1)
    return chosen


def used_parameters(record: RunRecord) -> Floats:
    """Returns the share of the network's parameters in the network of each task, ``[T]``.

    Where that was not recorded, or depends on the example, it is the share of components.
    """
    n_used, n = record.outcome.n_used, record.header.n_parameters
    return used_shares(record) if n_used is None or not n else n_used / n
