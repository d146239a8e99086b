"""Ways of sharing, as settings, and the one place that builds them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..allocation import Allocation, GumbelMatrix, NoSharing, SharedBottom
from ..settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class SharedBottomSettings:
    """Every task uses everything."""

    reduce: str = "sum"


@dataclass(frozen=True, kw_only=True)
class NoSharingSettings:
    """Each task has components of its own."""


@dataclass(frozen=True, kw_only=True)
class GumbelSettings:
    """Gates are learnt."""

    p_init: float = 0.5


Allocate = Callable[[int], Allocation]  # from a number of components
AllocationSettings = SharedBottomSettings | NoSharingSettings | GumbelSettings


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of an experiment: a way of sharing and training, and what the paper printed."""

    name: str
    label: str
    allocation: AllocationSettings
    training: Mapping[str, Any] = field(default_factory=dict)  # where it differs from the others
    paper: dict[str, str] = field(default_factory=dict)  # by condition
    paper_distinct: str | None = None  # number of distinct embeddings as printed

    @property
    def is_learnt(self) -> bool:
        """Whether the allocation is learnt."""
        return isinstance(self.allocation, GumbelSettings)

    def settings(self, common: TrainingSettings) -> TrainingSettings:
        """Returns the settings that the method trains with, given those of its experiment."""
        return common.changed(**self.training)


def build_allocation(settings: AllocationSettings, n_tasks: int, n_components: int) -> Allocation:
    """Returns the allocation that the settings describe."""
    match settings:
        case SharedBottomSettings():
            return SharedBottom(n_tasks, n_components, reduce=settings.reduce)
        case NoSharingSettings():
            return NoSharing(n_tasks, n_components)
        case GumbelSettings():
            return GumbelMatrix(n_tasks, n_components, p_init=settings.p_init)
