"""Where the batches of a training come from: each task by itself, or one batch for all tasks."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._engine import Epochs, IndexedReader, Reader, Run, shared_reader, task_reader
from ..tasks import IndexedExamples, Split, as_inputs, as_targets, preprocess
from ._batch import Place, Process, StepBatch, TaskBatch, batch_size, part_of


class TaskReaders:
    """The batches of each task by itself, in the order that `fit` has."""

    def __init__(self, run: Run, process: Process) -> None:
        self._process = process
        self._readers: list[Reader] = []
        self._are_cut: list[bool] = []  # whether a reader fetches this process's part alone
        for index, task in enumerate(run.tasks):
            source = task.train
            is_cut = isinstance(source, Split | IndexedExamples)
            cut = IndexedReader(run, index, _PartOf(source, process)) if is_cut else None
            self._readers.append(cut or task_reader(run, index))
            self._are_cut.append(is_cut)
        self._batch_size = run.settings.batch_size

    def next(self, step: int, tasks: Sequence[int]) -> StepBatch:
        """Returns the next batch of each of these tasks."""
        return StepBatch(step, [self._of_task(task) for task in tasks])

    def _of_task(self, task: int) -> TaskBatch:
        x, y = self._readers[task].next()
        x, y = as_inputs(x), as_targets(y)
        if self._are_cut[task]:
            return TaskBatch(task, x, y, self._process.place(self._batch_size))
        return part_of(task, x, y, self._process)

    def state(self) -> list[dict[str, Tensor]]:
        """Returns where each task's batches stand."""
        return [reader.state() for reader in self._readers]

    def load(self, states: Sequence[dict[str, Tensor]]) -> None:
        """Goes to where the batches stood."""
        for reader, state in zip(self._readers, states, strict=True):
            reader.load(state)


class SharedReader:
    """Batches that all tasks share, each with the labels that it knows."""

    def __init__(self, run: Run, process: Process) -> None:
        self._process = process
        self._sources = [task.train for task in run.tasks]
        self._arrays = _SharedArrays(run) if isinstance(self._sources[0], Split) else None
        self._stream = None if self._arrays else shared_reader(run)

    def next(self, step: int, tasks: Sequence[int]) -> StepBatch:
        """Returns the next batch, with a part for each of these tasks."""
        if self._arrays is not None:
            x, found = self._arrays.next()
        else:
            assert self._stream is not None
            x, of_all = self._stream.next()
            found = [source.targets(of_all) for source in self._sources]
        place = self._process.place(batch_size(found[0][1]))
        parts = [self._labels(task, *found[task], place) for task in tasks]
        return StepBatch(step, parts, as_inputs(_at_least_one(place).of(x)))

    def _labels(self, task: int, y: Tensor, is_known: Tensor, place: Place) -> TaskBatch:
        """Returns a task's labels; what they count is a share of the whole batch's mean."""
        n, own = int(is_known.sum()), _at_least_one(place)
        y = own.of(as_targets(y))
        if n == place.total:
            weight = (place.stop - place.start) * self._process.n_processes / place.total
            return TaskBatch(task, None, y, own, weight)
        counts = is_known * (self._process.n_processes / max(n, 1))
        counts[: place.start] = 0.0
        counts[place.stop :] = 0.0  # also for a process that has no example of its own
        return TaskBatch(task, None, y, own, counts=own.of(counts), is_known=n > 0)

    def state(self) -> list[dict[str, Tensor]]:
        """Returns where the batches stand."""
        return [(self._arrays or self._stream).state()]  # type: ignore[union-attr]

    def load(self, states: Sequence[dict[str, Tensor]]) -> None:
        """Goes to where the batches stood."""
        (self._arrays or self._stream).load(states[0])  # type: ignore[union-attr]


class _PartOf(IndexedExamples):
    """Examples by position, of which a process fetches its part of each batch."""

    def __init__(self, source: Any, process: Process) -> None:
        self._source = source
        self._process = process

    def __len__(self) -> int:
        return len(self._source)

    def fetch(self, rows: Tensor) -> tuple[Any, Tensor]:
        found: tuple[Any, Tensor] = self._source.fetch(self._process.place(len(rows)).of(rows))
        return found


class _SharedArrays:
    """One array of inputs for all tasks, in the order that `fit` goes through it."""

    def __init__(self, run: Run) -> None:
        self._splits: list[Split] = [task.train for task in run.tasks]
        n = len(self._splits[0].inputs)
        self._known = torch.zeros(len(self._splits), n, dtype=torch.bool)
        for known, split in zip(self._known, self._splits, strict=True):
            known[slice(None) if split.rows is None else split.rows] = True
        self._rows = self._known.any(dim=0).nonzero().squeeze(1)
        self._epochs = Epochs(run.seed, 0, len(self._rows))
        self._batch_size = run.settings.batch_size
        self._n_read = 0

    def next(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Returns inputs, and for each task its targets and which are known."""
        first = self._n_read * self._batch_size
        rows = self._rows[self._epochs.positions(first, self._batch_size).long()]
        self._n_read += 1
        split = self._splits[0]
        x = preprocess(split.inputs[rows], split.permutation, split.scale)
        found = [
            (own.targets[rows], known[rows])
            for own, known in zip(self._splits, self._known, strict=True)
        ]
        return x, found

    def state(self) -> dict[str, Tensor]:
        return {"read": torch.tensor(self._n_read)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self._n_read = int(tensors["read"])


def _at_least_one(place: Place) -> Place:
    """Returns the place of a part, or of the first example where it has none."""
    return place if place.stop > place.start else Place(0, 1, place.total)
