"""The batches of tasks as Lightning takes them: each process has its part of every batch."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from lightning import LightningDataModule
from torch import Tensor

from .._checks import check_whole, described, is_list_of
from .._engine import Run, TaskOrder
from ..settings import ROUNDS_PER_BLOCK, TrainingSettings
from ..tasks import HeldOut, Stream, Task, TaskLabels, as_inputs, as_targets
from ._batch import EvaluationBatch, Process, StepBatch, batch_size
from ._module import MultiTaskModule
from ._readers import SharedReader, TaskReaders

N_AT_ONCE = 1_024  # held-out examples of a batch


class MultiTaskData(LightningDataModule):
    """Gives a `MultiTaskModule` the batches that `fit` would train its network on.

    The order of tasks and of examples is a function of the seed and the round. Of a batch each
    process takes its part, so that ``N`` processes take the steps of one: ``batch_size`` is that of
    the whole batch. Examples with positions are fetched by the process that needs them. A loader's
    batches are cut: every process goes through the loader, which should give all of them the same
    batches. A task's loss should be a mean over examples.

    An epoch of Lightning's has ``evaluate_every`` rounds, or all of them; after each is the
    validation. Checkpoints of Lightning's hold where the batches stand.

    >>> import torch
    >>> import allotment as al
    >>> from allotment.lightning import MultiTaskData
    >>> x = torch.randn(9, 8)
    >>> tasks, settings = [al.Task("sum", (x, x.sum(1)))], al.TrainingSettings(rounds=10)
    >>> data = MultiTaskData(tasks, settings, seed=0)

    Args:
        tasks: Those of the module.
        settings: Those of the module.
        seed: Of the order of tasks and examples; that of the module.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        settings: TrainingSettings = TrainingSettings(),
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not is_list_of(tasks, Task):
            raise TypeError(f"`tasks` should be a list of Task. Found {described(tasks)}.")
        if not isinstance(settings, TrainingSettings):
            raise TypeError(f"`settings` should be TrainingSettings. Found {described(settings)}.")
        check_whole("seed", seed)
        self.tasks = list(tasks)
        self.settings = settings
        self.seed = seed
        self._run: Run | None = None

    def setup(self, stage: str) -> None:
        """Puts the tasks in the order of the module's network, and finds this process's part."""
        if self.trainer is None:
            raise ValueError("A MultiTaskData should be set up by a Trainer. Found none.")
        module = self.trainer.lightning_module
        if not isinstance(module, MultiTaskModule):
            raise TypeError(
                f"A MultiTaskData should train a MultiTaskModule. Found {described(module)}."
            )
        differing = [
            name
            for name, own in vars(self.settings).items()
            if own != getattr(module.settings, name)
        ]
        if differing:
            raise ValueError(
                "`settings` should be those of the module. Found others in "
                f"`{'`, `'.join(differing)}`."
            )
        if self.seed != module.seed:
            raise ValueError(
                f"`seed` should be that of the module, {module.seed}. Found {self.seed}."
            )
        self._run = Run(module.network, self.tasks, self.seed, self.settings)
        n_processes = self.trainer.world_size
        are_cut = [not isinstance(_batches(task.train), Stream) for task in self.tasks]
        if any(are_cut) and self.settings.batch_size % n_processes:
            raise ValueError(
                "`batch_size` should be a multiple of the number of processes. "
                f"Found {self.settings.batch_size} for {n_processes}."
            )
        self._process = Process(self.trainer.global_rank, n_processes)

    def train_dataloader(self) -> "TrainLoader":
        assert self._run is not None
        return TrainLoader(self._run, self._process)

    def val_dataloader(self) -> "EvaluationLoader":
        return self._held_out("validation")

    def test_dataloader(self) -> "EvaluationLoader":
        return self._held_out("test")

    def on_exception(self, exception: BaseException) -> None:
        """Lets the module give its network back; modules are not told by Lightning."""
        if self.trainer is not None and isinstance(self.trainer.lightning_module, MultiTaskModule):
            self.trainer.lightning_module.on_train_end()

    def _held_out(self, split: Literal["validation", "test"]) -> "EvaluationLoader":
        assert self._run is not None
        sources = {n: task.held_out(split) for n, task in enumerate(self._run.tasks)}
        known = {n: source for n, source in sources.items() if source is not None}
        return EvaluationLoader(known, self._process)


class TrainLoader:
    """The steps of a training, an epoch of Lightning's at a time; it tells where it stands."""

    def __init__(self, run: Run, process: Process) -> None:
        settings, n_tasks = run.settings, len(run.tasks)
        self._per_step = n_tasks if settings.is_joint else 1
        self._per_block = ROUNDS_PER_BLOCK * n_tasks
        per_round = n_tasks // self._per_step
        self._n_steps = settings.rounds * per_round
        self._per_epoch = min(settings.evaluate_every or settings.rounds, settings.rounds)
        self._per_epoch *= per_round
        self._order = TaskOrder(run)
        self._block: tuple[int, list[int]] | None = None  # its number, and its tasks
        is_shared = settings.schedule == "multi_label"
        self._reader = (SharedReader if is_shared else TaskReaders)(run, process)
        self._step = 0

    def __len__(self) -> int:
        return self._per_epoch

    def __iter__(self) -> Iterator[StepBatch]:
        end = min((self._step // self._per_epoch + 1) * self._per_epoch, self._n_steps)
        while self._step < end:
            batch = self._reader.next(self._step, self._tasks(self._step * self._per_step))
            self._step += 1
            yield batch

    def _tasks(self, first: int) -> list[int]:
        """Returns the tasks of a step, given the number of its first task batch."""
        number, place = divmod(first, self._per_block)
        if self._block is None or self._block[0] != number:
            self._block = (number, self._order.block(number).tolist())
        return self._block[1][place : place + self._per_step]

    def state_dict(self) -> dict[str, Any]:
        """Returns where the batches stand; Lightning keeps it in its checkpoints."""
        return {"step": self._step, "readers": self._reader.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to where the batches stood."""
        self._step = state_dict["step"]
        self._reader.load(state_dict["readers"])


class EvaluationLoader:
    """A process's part of the held-out examples, task after task."""

    def __init__(self, sources: dict[int, HeldOut], process: Process) -> None:
        self._sources = sources
        self._process = process

    def __iter__(self) -> Iterator[EvaluationBatch]:
        for task, source in self._sources.items():
            for x, y in self._parts(source):
                yield EvaluationBatch(task, as_inputs(x), as_targets(y))

    def _parts(self, source: HeldOut) -> Iterator[tuple[Any, Tensor]]:
        if not isinstance(source, Stream | TaskLabels):
            own = self._process.place(len(source)).of(torch.arange(len(source)))
            yield from (source.fetch(rows) for rows in own.split(N_AT_ONCE) if len(rows))
            return
        for x, y in source:
            place = self._process.place(batch_size(y))
            if place.stop > place.start:
                yield place.of(x), place.of(y)


def _batches(source: Any) -> Any:
    """Returns where batches come from, also where several tasks share them."""
    return source.batches if isinstance(source, TaskLabels) else source
