"""Batches that are fetched one by one: from loaders, from datasets, or of arrays that differ."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .._checks import described
from .._streams import stream, torch_stream
from ..modules import Noise
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import (
    GeneratedDataset,
    IndexedExamples,
    Split,
    Stream,
    Task,
    as_inputs,
    as_targets,
    on_device,
)
from ._augmentation import Augmenter
from ._batch import Batch
from ._batches import Batches, noise_widths
from ._dataset import why_fetched
from ._run import Run
from ._sampler import PER_BATCH, Block, Epochs, TaskOrder, uniform

if TYPE_CHECKING:
    from ..modules import TaskNetwork


class StreamedBatches(Batches):
    """Fetches the batches of ``R`` runs, step after step.

    The order of tasks, the gates' draws and the order of examples that have positions are those of
    runs whose examples lie on the device.
    """

    def __init__(self, runs: Sequence[Run], network: "TaskNetwork", device: torch.device) -> None:
        self._why = why_fetched([task for run in runs for task in run.tasks])
        self._refuse_what_needs_arrays(runs[0])
        self._runs = runs
        self._widths = {use: width for use, width in noise_widths(network).items() if width}
        self._device = device
        self._is_joint = runs[0].settings.is_joint
        self._n_pieces = runs[0].settings.execution.accumulate
        self._orders = [TaskOrder(run) for run in runs]
        self._readers = [[_reader(run, index) for index in range(len(run.tasks))] for run in runs]
        self._last: tuple[tuple[int, int], Batch] | None = None
        self._number = 0

    def _refuse_what_needs_arrays(self, run: Run) -> None:
        if Augmenter(run.settings.augmentation).n_draws:
            raise ValueError(
                "`augmentation` should be left out where batches are fetched one by one, since "
                f"{self._why}; a dataset augments by itself. Found it set."
            )
        share = run.settings.optimization.allocation_held_out
        if share:
            raise ValueError(
                "`allocation_held_out` should be 0 where batches are fetched one by one, since "
                f"{self._why}. Found {share}."
            )

    def make(self, number: int) -> Block:
        self._number = number
        tasks = torch.stack([order.block(number) for order in self._orders], dim=1)
        width = self._widths.get(PER_BATCH)
        noise = {}
        if width:
            empty = torch.empty(len(tasks), width)
            draws = [uniform(empty, stream(run.seed, PER_BATCH, number)) for run in self._runs]
            noise[PER_BATCH] = torch.stack(draws, dim=1)
        return Block(tasks=tasks, noise=noise)

    def here(self, block: Block) -> Block:
        return block  # each batch is brought to the device by itself

    def losses(self, tasks: Sequence[Sequence[Task]], network: "TaskNetwork") -> "StreamedLosses":
        return StreamedLosses(tasks, self._why)

    def batch(self, block: Block, index: int | Tensor) -> Batch:
        """Returns a step's batch; it is fetched once, however often it is asked for."""
        key = (self._number, int(index))
        if self._last is None or self._last[0] != key:
            make = self._of_all_tasks if self._is_joint else self._fetched
            first, *further = [make(block, int(index), piece) for piece in range(self._n_pieces)]
            self._last = (key, first._replace(further=tuple(further)))
        return self._last[1]

    def _of_all_tasks(self, block: Block, index: int, piece: int) -> Batch:
        """Returns a batch of every task for each run: lists of lists."""
        n_tasks = len(self._runs[0].tasks)
        steps = range(index * n_tasks, (index + 1) * n_tasks)
        parts = [self._fetched(block, step, piece) for step in steps]
        noise = zip(*(part.noise for part in parts), strict=True)
        return Batch(
            torch.stack([part.tasks for part in parts], dim=1),
            _by_run([part.inputs for part in parts]),  # type: ignore[arg-type]
            (_by_run([part.targets[0] for part in parts]),),  # type: ignore[arg-type]
            Noise(*(None if own[0] is None else _by_run(own) for own in noise)),  # type: ignore[arg-type]
        )

    def _fetched(self, block: Block, step: int, piece: int) -> Batch:
        """Returns the next batch of a task for each run."""
        tasks = block.tasks[step]
        pairs = [self._readers[r][task].next() for r, task in enumerate(tasks.tolist())]
        inputs = [as_inputs(on_device(x, self._device)) for x, _ in pairs]
        targets = [as_targets(on_device(y, self._device)) for _, y in pairs]
        gates = block.noise.get(PER_BATCH)
        draws: dict[str, Any] = {}
        for use, width in self._widths.items():
            if use == PER_BATCH and gates is not None:
                draws[use] = list(gates[step].to(self._device))
                continue
            draws[use] = [
                self._for_examples(r, use, piece, step, (_batch_size(x), width))
                for r, x in enumerate(inputs)
            ]
        return Batch(tasks, inputs, (targets,), Noise(**draws))  # type: ignore[arg-type]

    def _for_examples(
        self, r: int, use: str, piece: int, step: int, shape: tuple[int, int]
    ) -> Tensor:
        """Returns a run's draws for the examples of one batch."""
        number = self._number * ROUNDS_PER_BLOCK * len(self._runs[r].tasks) + step
        generator = stream(self._runs[r].seed, f"{use}/{piece}", number)
        return uniform(torch.empty(shape), generator).to(self._device)

    def state(self) -> dict[str, Tensor]:
        """Returns where each task's batches stand."""
        found: dict[str, Tensor] = {}
        for r, readers in enumerate(self._readers):
            for t, reader in enumerate(readers):
                found |= {f"stream/{r}/{t}/{name}": value for name, value in reader.state().items()}
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes to where the batches stood; says where a loader cannot."""
        self._last = None
        for r, readers in enumerate(self._readers):
            for t, reader in enumerate(readers):
                start = f"stream/{r}/{t}/"
                own = [name for name in tensors if name.startswith(start)]
                reader.load({name.removeprefix(start): tensors[name] for name in own})


class IndexedReader:
    """Batches of examples that have positions, in shuffled epochs."""

    def __init__(self, run: Run, index: int) -> None:
        self._source: Split | IndexedExamples = run.tasks[index].train
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

    def __init__(self, run: Run, index: int) -> None:
        self._task = run.tasks[index]
        self._source: Stream = self._task.train
        self._seed, self._use = run.seed, f"loader/{index}"
        self._epoch = -1
        self._iterator: Iterator[tuple[Any, Any]] | None = None

    def next(self) -> tuple[Any, Any]:
        batch = None if self._iterator is None else next(self._iterator, None)
        if batch is None:
            self._epoch += 1
            # A loader shuffles by torch's generator when its first batch is asked for.
            with torch_stream(self._seed, self._use, self._epoch):
                self._iterator = iter(self._source)
                batch = next(self._iterator, None)
        if batch is None:
            once = self._source.is_once and self._epoch > 0
            raise ValueError(
                f"Task {self._task.name!r}: its batches should be given again when they end"
                + (", as a function that returns an iterator is" if once else "")
                + ". Found none"
                + (" after the first time." if once else ".")
            )
        return batch

    def state(self) -> dict[str, Tensor]:
        found = {"epoch": torch.tensor(self._epoch)}
        if self._source.tells_state and self._iterator is not None:
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


def _reader(run: Run, index: int) -> IndexedReader | GeneratedReader | LoaderReader:
    source = run.tasks[index].train
    if isinstance(source, Stream):
        return LoaderReader(run, index)
    if isinstance(source, GeneratedDataset):
        return GeneratedReader(run, index)
    return IndexedReader(run, index)


class StreamedLosses:
    """The loss of a batch, by its task's number."""

    are_one = False

    def __init__(self, tasks: Sequence[Sequence[Task]], why_fetched: str) -> None:
        self._tasks = tasks
        self._why_fetched = why_fetched

    def why_not_by_tensor(self) -> str:
        """Returns why a task cannot be a tensor."""
        return f"batches are fetched one by one, since {self._why_fetched}."

    def __call__(
        self, outputs: Tensor, targets: Sequence[Any], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of one run's batch."""
        own = self._tasks[run][int(task)]
        try:
            loss = own.loss_function(outputs, targets[0])
        except Exception as error:
            error.add_note(f"This is the loss of task {own.name!r}.")
            raise
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            found = list(loss.shape) if isinstance(loss, Tensor) else described(loss)
            raise ValueError(
                f"The loss of task {own.name!r} should be a tensor of one number. Found {found}."
            )
        return loss.reshape(()).to(outputs.dtype)


def _by_run(of_tasks: Sequence[Any]) -> list[list[Any]]:
    """Returns for each run what there is of every task, given it the other way round."""
    return [list(own) for own in zip(*of_tasks, strict=True)]


def _batch_size(inputs: Any) -> int:
    return next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))
