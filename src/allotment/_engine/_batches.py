"""The batches of steps, from examples that lie on the device or are generated."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..modules import HeadTable, Noise, TaskNetwork
from ..tasks import Task
from ._augmentation import Augmenter
from ._batch import Batch, Block
from ._dataset import KnownLabels, device_dataset
from ._losses import Losses, StreamedLosses
from ._run import Run
from ._sampler import BatchSampler


class Batches(ABC):
    """Where the batches of ``R`` runs come from.

    Attributes:
        shares_inputs: Whether the tasks of a step have the same inputs.
        why_apart: Why runs cannot be one tensor program, nor a step be recorded; empty where they
            may be.
    """

    shares_inputs: bool = False
    why_apart: str = ""

    @abstractmethod
    def make(self, number: int) -> Block:
        """Returns a block of rounds; it is overwritten by the next one."""

    @abstractmethod
    def here(self, block: Block) -> Block:
        """Returns a block where steps read it."""

    @abstractmethod
    def batch(self, block: Block, index: int | Tensor) -> Batch:
        """Returns a step's part of a block; in a joint step ``[R, T, ...]`` each."""

    @abstractmethod
    def losses(
        self, tasks: Sequence[Sequence[Task]], network: TaskNetwork
    ) -> Losses | StreamedLosses:
        """Returns the losses of such batches."""

    def tasks(self, block: Block, n_batches: int) -> Tensor:
        """Returns the tasks of the first batches, ``[S, R]``; -1 for a batch without a label."""
        return block.tasks[:n_batches].clone()

    def blame(self, run: int) -> str:
        """Returns what was wrong with examples that a run was given, in words; or nothing."""
        return ""

    def are_known(self, batch: Batch) -> Tensor | None:
        """Returns which losses of a batch are those of some label, ``[R, K]``; None: all are."""
        return None

    def state(self) -> dict[str, Tensor]:
        """Returns where the batches stand, beyond the number of their block."""
        return {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027  (nothing to go to)
        """Goes to a state."""


class DeviceBatches(Batches):
    """Batches whose examples are looked up on the device by their rows, or generated."""

    def __init__(self, runs: Sequence[Run], network: TaskNetwork, device: torch.device) -> None:
        settings = runs[0].settings
        self._device = device
        self._n_runs, self._n_tasks = len(runs), len(runs[0].tasks)
        self._tasks_per_step = self._n_tasks if settings.is_joint else 1
        self._n_pieces = settings.execution.accumulate
        self._augmenter = Augmenter(settings.augmentation)
        tasks = [task for run in runs for task in run.tasks]
        self._dataset = device_dataset(tasks, device, keep=network.accepted_dtypes)
        self._labels: KnownLabels | None = None
        if settings.schedule == "multi_label":
            assert self._dataset is not None
            self._labels = KnownLabels([run.tasks for run in runs], self._dataset, device)
        self.shares_inputs = self._labels is not None
        self._are_masked = self._labels is not None and not self._labels.are_all
        widths = noise_widths(network) | {"augmentation": self._augmenter.n_draws}
        self._sampler = BatchSampler(runs, self._dataset, widths, self._labels)

    def make(self, number: int) -> Block:
        return self._sampler.make(number)

    def here(self, block: Block) -> Block:
        return block.to(self._device)

    def losses(self, tasks: Sequence[Sequence[Task]], network: TaskNetwork) -> Losses:
        return Losses(tasks, network, self._device, are_masked=self._are_masked)

    def tasks(self, block: Block, n_batches: int) -> Tensor:
        tasks = super().tasks(block, n_batches)
        if self._are_masked:
            assert self._labels is not None and block.rows is not None
            known = self._labels.fetch(block.rows[:n_batches].transpose(0, 1), tasks.T)
            tasks[~known.any(dim=2).T] = -1
        return tasks

    def are_known(self, batch: Batch) -> Tensor | None:
        if not self._are_masked:
            return None
        shares = torch.stack([piece.targets[-1].sum(dim=-1) for piece in (batch, *batch.further)])
        return shares.sum(dim=0) > 0

    def batch(self, block: Block, index: int | Tensor) -> Batch:
        here = _Entry(index, self._n_runs, self._tasks_per_step)
        whole = self._of_part(block, here)
        if block.held_out is not None:
            return whole._replace(further=(self._of_part(block.held_out, here),))
        return whole if self._n_pieces == 1 else whole.in_pieces(self._n_pieces, self.shares_inputs)

    def _of_part(self, block: Block, here: "_Entry") -> Batch:
        """Returns a step's batch, of a block or of the held-out part of one."""
        n_alike = self._n_tasks if self.shares_inputs else 1
        x, y = self._examples(block, here, n_alike)
        noise = {use: here.of(part) for use, part in block.noise.items()}
        if "augmentation" in noise:
            x = self._augmenter(x, noise.pop("augmentation")[::n_alike])
        return Batch(
            here.by_run(here.of(block.tasks)),
            x if self.shares_inputs else here.by_run(x),
            tuple(map(here.by_run, y)),
            Noise(**{use: here.by_run(part) for use, part in noise.items()}),
        )

    def _examples(
        self, block: Block, here: "_Entry", n_alike: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns a step's inputs and targets; behind them, if needed, what each label counts."""
        if self._dataset is None:
            assert block.inputs is not None
            return here.of(block.inputs), tuple(here.of(targets) for targets in block.targets)
        assert block.rows is not None and block.kinds is not None
        rows = here.of(block.rows)
        x, y = self._dataset.fetch(rows, here.of(block.kinds), n_alike=n_alike)
        if not self._are_masked:
            return x, y
        assert self._labels is not None
        known = self._labels.fetch(here.by_run(rows), here.by_run(here.of(block.tasks)))
        shares = known / known.sum(dim=2, keepdim=True).clamp_min(1)  # of the mean over the batch
        return x, (*y, (shares * self._n_pieces).flatten(0, 1))


def noise_widths(network: TaskNetwork) -> dict[str, int]:
    """Returns how many uniform numbers each use in a network takes."""
    heads = network.heads
    n_features = heads.weight.shape[-1] if isinstance(heads, HeadTable) else 0
    allocations = [layer.allocation for layer in network.modular_layers]
    return {
        "gates": sum(a.n_noise for a in allocations if not a.sees_examples),
        "examples": sum(a.n_noise for a in allocations if a.sees_examples),
        "dropout": n_features if network.dropout else 0,
    }


class _Entry(NamedTuple):
    """Which part of a block a step takes."""

    at: int | Tensor  # one on the device stays there
    n_runs: int
    tasks_per_step: int

    def of(self, tensor: Tensor) -> Tensor:
        """Returns a step's part of a tensor, ``[R, ...]``; in a joint step ``[R * T, ...]``."""
        is_joint = self.tasks_per_step > 1
        steps = tensor.unflatten(0, (-1, self.tasks_per_step)) if is_joint else tensor
        found: Tensor = (
            steps[self.at]
            if isinstance(self.at, int)
            else steps.index_select(0, self.at).squeeze(0)
        )
        return found.transpose(0, 1).flatten(0, 1) if is_joint else found

    def by_run(self, part: Tensor) -> Tensor:
        """Returns a part with the tasks of a joint step apart, ``[R, T, ...]``."""
        if self.tasks_per_step == 1:
            return part
        apart: Tensor = part.unflatten(0, (self.n_runs, self.tasks_per_step))
        return apart
