"""What one run trains."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from ..network import MultiTaskNetwork
from ..tasks import Task, check_names
from ._settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Run:
    """A network, its tasks, and the seed of every draw made while it trains."""

    network: MultiTaskNetwork
    tasks: Sequence[Task]
    seed: int = 0
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        check_names(self.tasks)
        if len(self.tasks) != self.network.n_tasks:
            raise ValueError(
                "`tasks` should be as many as the network has. "
                f"Found {len(self.tasks)} tasks for {self.network.n_tasks}."
            )
        self._check_widths()
        names = [task.name for task in self.tasks]
        if self.network.has_names and names != self.network.task_names:
            raise ValueError(
                "`tasks` should have the names and the order of the network's tasks. "
                f"Found {names} for {self.network.task_names}."
            )

    def _check_widths(self) -> None:
        heads = self.network.heads
        for task, head in zip(
            self.tasks, heads if isinstance(heads, nn.ModuleList) else [], strict=False
        ):
            n_classes = task.n_outputs if task.is_classification else 0
            if isinstance(head, nn.Linear) and head.out_features < n_classes:
                raise ValueError(
                    f"The head of task {task.name!r} should have at least {n_classes} outputs, "
                    f"one for each class. Found {head.out_features}."
                )


def check_alike(runs: Sequence[Run]) -> None:
    """Raises unless runs can go through one program: equal settings but for the budget."""
    if not runs:
        raise ValueError("`runs` should hold at least one run. Found none.")
    common = {run.settings.in_common() for run in runs}
    if len(common) != 1:
        raise ValueError(
            "Runs that train together should have equal settings, but for `budget` and "
            f"`budget_weight`. Found {len(common)} different ones."
        )
