"""A run as it is read back."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .._schema import Evaluation, Floats, Outcome, RunHeader

from ._environment import Environment


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """The gates' probabilities at some rounds of a run."""

    rounds: NDArray[Any]  # [m]
    probabilities: Floats  # [m, T, C]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A completed run: one that reached its end, or one that failed and says so."""

    header: RunHeader
    environment: Environment
    rounds: NDArray[Any]  # [n], rounds finished at each point
    losses: Floats  # [n, T], each task's mean training loss since the point before
    share_active: Floats  # [n], 0 to 1
    validation: tuple[tuple[int, Evaluation], ...]  # (round, what was seen there)
    snapshots: Snapshots
    outcome: Outcome  # without the weights, which `read_weights` gives

    @property
    def finished(self) -> bool:
        """Whether the run reached its end with finite numbers."""
        return self.outcome.status == "finished"
