"""What one run trains."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .._checks import check_whole, described, is_list_of
from ..network import MultiTaskNetwork
from ..tasks import Task, check_names
from ._settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Run:
    """A network, its tasks, and the seed of every draw made while it trains.

    Attributes:
        network: Where training starts; `train` leaves it as it is.
        tasks: In the order of the network's.
        seed: Of the order of tasks and examples, the gates and all else that is drawn.
        settings: How to train.
    """

    network: MultiTaskNetwork
    tasks: Sequence[Task]
    seed: int = 0
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        self._check_kinds()
        check_names(self.tasks)
        if len(self.tasks) != self.network.n_tasks:
            raise ValueError(
                "`tasks` should be as many as the network has. "
                f"Found {len(self.tasks)} tasks for {self.network.n_tasks}."
            )
        names = [task.name for task in self.tasks]
        if self.network.has_names and names != self.network.task_names:
            raise ValueError(
                "`tasks` should have the names and the order of the network's tasks. "
                f"Found {names} for {self.network.task_names}."
            )
        self._check_validation()

    def _check_kinds(self) -> None:
        if not isinstance(self.network, MultiTaskNetwork):
            many = isinstance(self.network, list | tuple)
            raise TypeError(
                f"`network` should be one MultiTaskNetwork. Found {described(self.network)}."
                + (" Several train together as `train([Run(...), ...])`." if many else "")
            )
        if not is_list_of(self.tasks, Task):
            raise TypeError(f"`tasks` should be a list of Task. Found {described(self.tasks)}.")
        check_whole("seed", self.seed)
        if not isinstance(self.settings, TrainingSettings):
            raise TypeError(
                f"`settings` should be TrainingSettings. Found {described(self.settings)}."
            )

    def _check_validation(self) -> None:
        every = self.settings.evaluate_every
        lacking = [task.name for task in self.tasks if task.split("validation") is None]
        if every is not None and lacking:
            raise ValueError(
                "`evaluate_every` should be given for tasks with a validation split. "
                f"Found `evaluate_every = {every}` and task {lacking[0]!r}, which has none."
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
