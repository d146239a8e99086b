"""The interface of allocations that mix components into several streams."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ._base import Allocation


class StreamAllocation(Allocation, ABC):
    """Mixes the components of a layer into streams, each of which the next layer reads.

    It is for a `ColumnLayer`, where components of the next layer read streams of their own. What
    a stream is, the method says: a task's, or what goes to one component. At the last layer
    nothing is read further, and `weights` has a task's row, as everywhere.

    >>> from allotment.allocation import SNR, CrossStitch, StreamAllocation
    >>> issubclass(CrossStitch, StreamAllocation), issubclass(SNR, StreamAllocation)
    (True, True)

    Attributes:
        n_streams: ``S``, streams that the next layer reads; 0 where it is for a last layer alone.

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        counts_batches: Whether ``n_batches`` counts the training batches that have passed.
    """

    n_streams: int = 0

    @abstractmethod
    def stream_weights(self, streams: Sequence[Any], *, noise: Tensor | None = None) -> Tensor:
        """Returns the final weight of each component in each stream, ``[S, C]``.

        Where it sees examples: ``[S, B, C]``. ``streams`` are the layer's inputs, ``[B, ...]``
        each: one for all streams at the first layer, else one each. ``noise`` is as in `weights`.
        """
