"""What one run trains."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from torch import nn

from .._checks import check_whole, described, is_list_of
from ..modules import TaskNetwork, as_network
from ..settings import TrainingSettings
from ..tasks import Task, check_names


@dataclass(frozen=True, eq=False)
class Run:
    """A network, its tasks, and the seed of every draw made while it trains.

    Attributes:
        model: Where training starts, a network or any module with modular layers in it; `train`
            leaves it as it is.
        tasks: One for each of the network's; where it has names, found by their names.
        seed: Of the order of tasks and examples, the gates and all else that is drawn.
        settings: How to train.
    """

    model: nn.Module
    tasks: Sequence[Task]
    seed: int = 0
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if not is_list_of(self.tasks, Task):
            raise TypeError(f"`tasks` should be a list of Task. Found {described(self.tasks)}.")
        check_names(self.tasks)
        check_whole("seed", self.seed)
        if not isinstance(self.settings, TrainingSettings):
            raise TypeError(
                f"`settings` should be TrainingSettings. Found {described(self.settings)}."
            )
        self._put_in_order()
        self._check_validation()

    @property
    def network(self) -> TaskNetwork:
        """The model as a network."""
        return as_network(self.model, [task.name for task in self.tasks])

    def _put_in_order(self) -> None:
        """Puts the tasks in the order of the network's."""
        network = self.network
        if len(self.tasks) != network.n_tasks:
            raise ValueError(
                "`tasks` should be as many as the network has. "
                f"Found {len(self.tasks)} tasks for {network.n_tasks}."
            )
        by_name = {task.name: task for task in self.tasks}
        if not network.has_names or list(by_name) == network.task_names:
            return
        if set(by_name) != set(network.task_names):
            raise ValueError(
                "`tasks` should have the names of the network's tasks. "
                f"Found {list(by_name)} for {network.task_names}."
            )
        object.__setattr__(self, "tasks", [by_name[name] for name in network.task_names])

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
    common = list(dict.fromkeys(run.settings.in_common() for run in runs))
    if len(common) > 1:
        a, b = common[:2]
        name = next(f.name for f in fields(a) if getattr(a, f.name) != getattr(b, f.name))
        raise ValueError(
            "Runs that train together should have equal settings, but for `budget` and "
            f"`budget_weight`. Found {len(common)} different ones: `{name}` is "
            f"{getattr(a, name)!r} in one and {getattr(b, name)!r} in another."
        )
