"""The batches of one task of a run, fetched one after another."""

import io
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .._streams import stream, torch_stream
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import GeneratedDataset, IndexedExamples, Split, Stream, TaskLabels
from ._run import Run
from ._sampler import Epochs


class IndexedReader:
    """Batches of examples that have positions, in shuffled epochs."""

    def __init__(self, run: Run, index: int, source: Split | IndexedExamples) -> None:
        self._source = source
        self._epochs = Epochs(run.seed, index, len(self._source))
        self._batch_size = run.settings.batch_size
        self._n_read = 0

    def next(self) -> tuple[Any, Any]:
        rows = self._epochs.positions(self._n_read * self._batch_size, self._batch_size)
        self._n_read += 1
        return self._source.fetch(rows.long())

    def state(self) -> dict[str, Tensor]:
        return {"read": torch.tensor(self._n_read)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._n_read = int(tensors["read"])


class GeneratedReader:
    """Batches that are drawn anew; those of ten rounds at a time, as for runs on the device."""

    def __init__(self, run: Run, index: int) -> None:
        self._source: GeneratedDataset = run.tasks[index].train
        self._seed, self._use = run.seed, f"samples/{index}"
        self._batch_size = run.settings.batch_size
        self._n_read = 0
        self._drawn: list[tuple[Tensor, Tensor]] = []

    def next(self) -> tuple[Any, Any]:
        number, place = divmod(self._n_read, ROUNDS_PER_BLOCK)
        if place == 0 or not self._drawn:
            generator = stream(self._seed, self._use, number)
            x, y = self._source.draw(ROUNDS_PER_BLOCK * self._batch_size, generator)
            size = self._batch_size
            self._drawn = list(zip(x.split(size), y.split(size), strict=True))
        self._n_read += 1
        return self._drawn[place]

    def state(self) -> dict[str, Tensor]:
        return {"read": torch.tensor(self._n_read)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._n_read, self._drawn = int(tensors["read"]), []


class LoaderReader:
    """Batches of a loader or another iterable, which is gone through again and again."""

    def __init__(self, run: Run, index: int, source: Stream, *, tells_state: bool) -> None:
        self._task = run.tasks[index]
        self._source = source
        self._tells_state = tells_state
        self._seed, self._use = run.seed, f"loader/{index}"
        self._epoch = -1
        self._iterator: Iterator[tuple[Any, Any]] | None = None

    def next(self) -> tuple[Any, Any]:
        try:
            batch = self._following()
        except ValueError as error:
            raise ValueError(f"Task {self._task.name!r}, train: {error}") from error
        if batch is None:
            once = self._source.is_once and self._epoch > 0
            raise ValueError(
                f"Task {self._task.name!r}: its batches should be given again when they end"
                + (", as a function that returns an iterator is" if once else "")
                + ". Found none"
                + (" after the first time." if once else ".")
            )
        return batch

    def _following(self) -> tuple[Any, Any] | None:
        """Returns the next batch, of a new epoch where one has ended; None where there is none."""
        batch = None if self._iterator is None else next(self._iterator, None)
        if batch is None:
            self._epoch += 1
            # A loader shuffles by torch's generator when its first batch is asked for.
            with torch_stream(self._seed, self._use, self._epoch):
                self._iterator = iter(self._source)
                batch = next(self._iterator, None)
        return batch

    def state(self) -> dict[str, Tensor]:
        found = {"epoch": torch.tensor(self._epoch)}
        if self._tells_state and self._iterator is not None:
            written = io.BytesIO()
            torch.save(self._source.source.state_dict(), written)  # type: ignore[union-attr]
            found["loader"] = torch.frombuffer(bytearray(written.getvalue()), dtype=torch.uint8)
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._epoch, self._iterator = int(tensors["epoch"]), None
        if "loader" in tensors:
            saved = io.BytesIO(tensors["loader"].numpy().tobytes())
            self._source.source.load_state_dict(torch.load(saved, weights_only=True))  # type: ignore[union-attr]
            with torch_stream(self._seed, self._use, self._epoch):
                self._iterator = iter(self._source)
        elif self._epoch >= 0:
            warnings.warn(
                f"Task {self._task.name!r} goes on with a new epoch, and not where it stopped: its "
                "loader cannot tell its state, as torchdata's `StatefulDataLoader` can.",
                stacklevel=2,
            )


class KnownReader:
    """The examples of a task whose labels are known, of batches that tasks share."""

    MOST_WITHOUT = 10_000  # batches one after another that have no label of the task

    def __init__(self, batches: "IndexedReader | LoaderReader", labels: TaskLabels) -> None:
        self._batches = batches
        self._labels = labels

    def next(self) -> tuple[Any, Any]:
        for _ in range(self.MOST_WITHOUT):
            found = self._labels.known(self._batches.next())
            if found is not None:
                return found
        raise ValueError(
            f"Task {self._labels.name!r} should have a known label now and then. "
            f"Found none in {self.MOST_WITHOUT:,} batches."
        )

    def state(self) -> dict[str, Tensor]:
        return self._batches.state()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._batches.load(tensors)


Reader = IndexedReader | GeneratedReader | LoaderReader | KnownReader


def task_reader(run: Run, index: int) -> Reader:
    """Returns what fetches the batches of a task."""
    source = run.tasks[index].train
    if isinstance(source, GeneratedDataset):
        return GeneratedReader(run, index)
    if isinstance(source, TaskLabels):
        # A loader has one state, and here an iterator for each task.
        return KnownReader(_plain_reader(run, index, source.batches, tells_state=False), source)
    return _plain_reader(run, index, source)


def shared_reader(run: Run) -> IndexedReader | LoaderReader:
    """Returns what fetches the batches that all tasks share."""
    labels: TaskLabels = run.tasks[0].train
    return _plain_reader(run, 0, labels.batches)


def _plain_reader(
    run: Run, index: int, source: Split | IndexedExamples | Stream, *, tells_state: bool = True
) -> IndexedReader | LoaderReader:
    if isinstance(source, Stream):
        tells_state = tells_state and source.tells_state
        return LoaderReader(run, index, source, tells_state=tells_state)
    return IndexedReader(run, index, source)
