"""The random draws and batches of a block of rounds, for several runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._streams import stream
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import GeneratedDataset, Split, Task
from ._dataset import DeviceDataset
from ._losses import some_targets, target_spec
from ._run import Run
from ._threads import one_thread

# What random numbers are for. Those for gates are made once a batch, all others for each example.
PER_BATCH = "gates"


@dataclass(frozen=True)
class Block:
    """What ``S`` steps of ``R`` runs need; a step takes one entry of each tensor."""

    tasks: Tensor  # [S, R]
    noise: Mapping[str, Tensor]  # by use, uniform: [S, R, B, N], and for gates [S, R, N]
    rows: Tensor | None = None  # [S, R, B], rows of the dataset
    kinds: Tensor | None = None  # [S, R], kinds of the dataset
    inputs: Tensor | None = None  # [S, R, B, ...], generated
    targets: tuple[Tensor, ...] = ()  # [S, R, B, ...] of every spec; the task's own counts

    def to(self, device: torch.device) -> "Block":
        """Returns the block on a device."""
        if device.type == "cpu":
            return self
        named = {k: t.to(device) for k, t in vars(self).items() if isinstance(t, Tensor)}
        noise = {use: t.to(device) for use, t in self.noise.items()}
        return replace(
            self, **named, noise=noise, targets=tuple(t.to(device) for t in self.targets)
        )

    def tensors(self) -> Iterator[Tensor]:
        """Yields all that is there, in a fixed order."""
        yield from (tensor for tensor in vars(self).values() if isinstance(tensor, Tensor))
        yield from self.noise.values()
        yield from self.targets


class BatchSampler:
    """Draws blocks; each draw is a function of a run's seed, its use and the block's number.

    ``widths`` says how many uniform numbers each use takes.
    """

    def __init__(
        self, runs: Sequence[Run], dataset: DeviceDataset | None, widths: Mapping[str, int]
    ) -> None:
        self._runs = runs
        self._dataset = dataset
        self._widths = {use: width for use, width in widths.items() if width}
        self._batch_size = runs[0].settings.batch_size
        self._n_tasks = len(runs[0].tasks)
        targets = [some_targets(task.train) for run in runs for task in run.tasks]
        self._specs = list(dict.fromkeys(map(target_spec, targets)))
        self._block: Block | None = None  # kept, since new memory costs as much as the draws
        self._rows: dict[int, Tensor] = {}  # rows in the dataset, by the identity of a split
        self._epochs: dict[tuple[int, int], tuple[int, Tensor]] = {}  # by run and task

    def make(self, number: int) -> Block:
        """Returns block ``number`` of all runs; it is overwritten by the next one."""
        block = self._block = self._block or self._empty()
        # Run after run: drawn side by side they cost a step's own threads more than they save.
        # Samples that a task draws itself may have use for threads.
        with nullcontext() if self._dataset is None else one_thread():
            for r in range(len(self._runs)):
                self._fill(block, r, number)
        return block

    def _empty(self) -> Block:
        shape = (ROUNDS_PER_BLOCK * self._n_tasks, len(self._runs))
        batch_shape = (*shape, self._batch_size)
        noise = {
            use: torch.empty(*(shape if use == PER_BATCH else batch_shape), width)
            for use, width in self._widths.items()
        }
        block = Block(tasks=torch.empty(shape, dtype=torch.int64), noise=noise)
        if self._dataset is not None:
            rows = torch.empty(batch_shape, dtype=torch.int64)
            return replace(block, rows=rows, kinds=torch.empty(shape, dtype=torch.int64))
        x, _ = drawn(self._runs[0].tasks[0], 1, torch.Generator())
        inputs = x.new_empty(*batch_shape, *x.shape[1:])
        targets = [torch.zeros(*batch_shape, *shape, dtype=dtype) for dtype, shape in self._specs]
        return replace(block, inputs=inputs, targets=tuple(targets))

    def _fill(self, block: Block, r: int, number: int) -> None:
        """Writes one run's part of a block."""
        run = self._runs[r]
        chances = torch.rand(
            ROUNDS_PER_BLOCK, self._n_tasks, generator=stream(run.seed, "rounds", number)
        )
        order = chances.argsort(dim=1)  # [K, T], each round's order of tasks
        block.tasks[:, r] = order.flatten()
        for use, noise in block.noise.items():
            noise[:, r] = _uniform(noise[:, r], stream(run.seed, use, number))
        # Where in the block each round takes up each task, [K, T].
        steps = torch.arange(ROUNDS_PER_BLOCK).unsqueeze(1) * self._n_tasks + order.argsort(dim=1)
        for task in range(self._n_tasks):
            self._fill_task(block, r, task, number, steps[:, task])

    def _fill_task(self, block: Block, r: int, task: int, number: int, steps: Tensor) -> None:
        run = self._runs[r]
        shape = (ROUNDS_PER_BLOCK, self._batch_size)
        if self._dataset is not None:
            assert block.rows is not None and block.kinds is not None
            block.rows[steps, r] = self._task_rows(r, task, number).view(shape)
            block.kinds[steps, r] = self._dataset.kind(run.tasks[task].train)
            return
        assert block.inputs is not None
        generator = stream(run.seed, f"samples/{task}", number)
        x, y = drawn(run.tasks[task], ROUNDS_PER_BLOCK * self._batch_size, generator)
        block.inputs[steps, r] = x.view(*shape, *x.shape[1:])
        spec = target_spec(y)
        targets = block.targets[self._specs.index(spec)]
        targets[steps, r] = y.to(spec.dtype).view(*shape, *spec.shape)

    def _task_rows(self, r: int, task: int, number: int) -> Tensor:
        """Returns the rows of a task's batches in this block: shuffled epochs end to end."""
        assert self._dataset is not None
        split: Split = self._runs[r].tasks[task].train
        if id(split) not in self._rows:
            self._rows[id(split)] = self._dataset.rows(split)
        rows = self._rows[id(split)]
        n, n_needed = len(rows), ROUNDS_PER_BLOCK * self._batch_size
        epoch, offset = divmod(number * n_needed, n)
        n_epochs = -(-(offset + n_needed) // n)
        shuffled = torch.cat([self._epoch(r, task, epoch + i, n) for i in range(n_epochs)])
        return rows[shuffled[offset : offset + n_needed]]

    def _epoch(self, r: int, task: int, epoch: int, n: int) -> Tensor:
        """Returns the order of examples in an epoch; the last one asked for is remembered."""
        known, order = self._epochs.get((r, task), (-1, None))
        if order is None or known != epoch:
            generator = stream(self._runs[r].seed, f"examples/{task}", epoch)
            order = torch.randperm(n, generator=generator, dtype=torch.int32)
            self._epochs[r, task] = (epoch, order)
        return order


def drawn(task: Task, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns ``n`` generated samples of a task; raises where it draws another number of them."""
    assert isinstance(task.train, GeneratedDataset)
    x, y = task.train.draw(n, generator)
    if len(x) != n or len(y) != n:
        raise ValueError(
            f"`draw` of task {task.name!r} should return as many samples as it is asked for. "
            f"Found {len(x)} inputs and {len(y)} targets where {n} were asked for."
        )
    return x, y


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Returns numbers uniform on (0, 1), in the shape of another tensor."""
    noise = torch.rand(like.shape, generator=generator)
    return noise.clamp_min_(torch.finfo(noise.dtype).tiny)
