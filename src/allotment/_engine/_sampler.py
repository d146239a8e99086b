"""The random draws and batches of a block of rounds, for several runs."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._streams import stream
from .._threads import one_thread
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import GeneratedDataset, Split, Task, some_targets, target_spec
from ._batch import Block

if TYPE_CHECKING:
    from ._dataset import DeviceDataset, KnownLabels
    from ._run import Run

# What random numbers are for. Those for gates are made once a batch, all others for each example.
PER_BATCH = "gates"
HELD_OUT = "held out "  # before a use: of the part of the examples on which allocations learn


class BatchSampler:
    """Draws blocks; each draw is a function of a run's seed, its use and the block's number.

    ``widths`` says how many uniform numbers each use takes. With ``labels``, tasks share the
    examples of a step.
    """

    def __init__(
        self,
        runs: "Sequence[Run]",
        dataset: "DeviceDataset | None",
        widths: Mapping[str, int],
        labels: "KnownLabels | None" = None,
    ) -> None:
        self._runs = runs
        self._dataset = dataset
        self._labels = labels
        self._widths = {use: width for use, width in widths.items() if width}
        self._batch_size = runs[0].settings.batch_size
        self._n_tasks = len(runs[0].tasks)
        self._orders = [TaskOrder(run) for run in runs]
        targets = [some_targets(task.train) for run in runs for task in run.tasks]
        self._specs = list(dict.fromkeys(map(target_spec, targets)))
        self._block: Block | None = None  # kept, since new memory costs as much as the draws
        self._share = runs[0].settings.optimization.allocation_held_out
        self._rows: dict[tuple[object, ...], Tensor] = {}  # rows in the dataset, by split and part
        # By part, seed, task and number of examples: runs that differ elsewhere have one order.
        self._epochs: dict[tuple[str, int, int, int], Epochs] = {}

    def make(self, number: int) -> Block:
        """Returns block ``number`` of all runs; it is overwritten by the next one."""
        block = self._block = self._block or self._empty()
        held_out = block.held_out
        # Run after run: drawn side by side they cost a step's own threads more than they save.
        # Samples that a task draws itself may have use for threads.
        with nullcontext() if self._dataset is None else one_thread():
            for r in range(len(self._runs)):
                self._fill(block, r, number)
                if held_out is not None:
                    self._fill(held_out, r, number, HELD_OUT)
        return block

    def _empty(self) -> Block:
        block = self._empty_part()
        return replace(block, held_out=self._empty_part()) if self._share else block

    def _empty_part(self) -> Block:
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

    def _fill(self, block: Block, r: int, number: int, part: str = "") -> None:
        """Writes one run's share of a block, or of its held-out part."""
        order = self._orders[r].block(number)
        block.tasks[:, r] = order
        for use, noise in block.noise.items():
            noise[:, r] = uniform(noise[:, r], stream(self._runs[r].seed, part + use, number))
        if self._labels is not None:
            self._fill_shared(block, r, number, self._labels.rows[r])
            return
        counts = order.bincount(minlength=self._n_tasks).tolist()
        for task, steps in enumerate(order.argsort(stable=True).split(counts)):
            if len(steps):
                self._fill_task(block, r, task, number, steps, part)

    def _fill_shared(self, block: Block, r: int, number: int, rows: Tensor) -> None:
        """Writes rows that all tasks of a step share."""
        assert self._dataset is not None and block.rows is not None and block.kinds is not None
        n = ROUNDS_PER_BLOCK * self._batch_size
        epochs = self._epochs_of("", self._runs[r].seed, 0, len(rows))
        shared = rows[epochs.positions(number * n, n)].view(ROUNDS_PER_BLOCK, -1)
        block.rows[:, r] = shared.repeat_interleave(self._n_tasks, dim=0)
        kinds = [self._dataset.kind(task.train) for task in self._runs[r].tasks]
        block.kinds[:, r] = torch.tensor(kinds)[block.tasks[:, r]]

    def _fill_task(
        self, block: Block, r: int, task: int, number: int, steps: Tensor, part: str
    ) -> None:
        run = self._runs[r]
        shape = (len(steps), self._batch_size)
        if self._dataset is not None:
            assert block.rows is not None and block.kinds is not None
            first = self._orders[r].n_before(number)[task] * self._batch_size
            found = self._task_rows(part, r, task, first, len(steps) * self._batch_size)
            block.rows[steps, r] = found.view(shape)
            block.kinds[steps, r] = self._dataset.kind(run.tasks[task].train)
            return
        assert block.inputs is not None
        generator = stream(run.seed, f"{part}samples/{task}", number)
        x, y = drawn(run.tasks[task], len(steps) * self._batch_size, generator)
        block.inputs[steps, r] = x.view(*shape, *x.shape[1:])
        spec = target_spec(y)
        targets = block.targets[self._specs.index(spec)]
        targets[steps, r] = y.to(spec.dtype).view(*shape, *spec.shape)

    def _task_rows(self, part: str, r: int, task: int, first: int, n: int) -> Tensor:
        """Returns the rows of a task's next ``n`` examples, given how many came before."""
        seed = self._runs[r].seed
        rows = self._rows_of(part, self._runs[r].tasks[task], seed)
        return rows[self._epochs_of(part, seed, task, len(rows)).positions(first, n)]

    def _epochs_of(self, part: str, seed: int, task: int, n_examples: int) -> "Epochs":
        key = (part, seed, task, n_examples)
        if key not in self._epochs:
            self._epochs[key] = Epochs(seed, task, n_examples, part)
        return self._epochs[key]

    def _rows_of(self, part: str, task: Task, seed: int) -> Tensor:
        """Returns the rows of a task's examples, of all or of a part of them."""
        assert self._dataset is not None
        split: Split = task.train
        key = (id(split), part, seed if self._share else None)
        if key not in self._rows:
            rows = self._dataset.rows(split)
            if self._share:
                is_held_out = held_out(task, self._share, seed)
                rows = rows[is_held_out if part == HELD_OUT else ~is_held_out]
            self._rows[key] = rows
        return self._rows[key]


class TaskOrder:
    """Which task each batch of a run is of."""

    def __init__(self, run: "Run") -> None:
        self._seed = run.seed
        self._n_tasks = len(run.tasks)
        shares = run.shares()
        self._shares = None if shares is None else torch.tensor(shares)
        self._known = (0, torch.zeros(self._n_tasks, dtype=torch.int64))

    def block(self, number: int) -> Tensor:
        """Returns the tasks of a block's batches; a round has as many batches as there are tasks.

        Each task once, in any order; or, where tasks are drawn unequally, each batch by itself.
        """
        generator = stream(self._seed, "rounds", number)
        n_batches = ROUNDS_PER_BLOCK * self._n_tasks
        if self._shares is not None:
            return self._shares.multinomial(n_batches, replacement=True, generator=generator)
        chances = torch.rand(ROUNDS_PER_BLOCK, self._n_tasks, generator=generator)
        return chances.argsort(dim=1).flatten()

    def n_before(self, number: int) -> list[int]:
        """Returns how many batches each task had before a block."""
        if self._shares is None:
            return [number * ROUNDS_PER_BLOCK] * self._n_tasks
        done, counts = self._known if self._known[0] <= number else (0, 0 * self._known[1])
        for earlier in range(done, number):
            counts = counts + self.block(earlier).bincount(minlength=self._n_tasks)
        self._known = (number, counts)
        return counts.tolist()


class Epochs:
    """The order of a task's examples, or of a part of them: shuffled epochs end to end."""

    def __init__(self, seed: int, task: int, n_examples: int, part: str = "") -> None:
        self._seed, self._use, self._n = seed, f"{part}examples/{task}", n_examples
        self._known: tuple[int, Tensor] | None = None  # the last epoch that was asked for
        self._answer: tuple[int, int, Tensor] | None = None  # the last one: runs ask alike

    def positions(self, first: int, n: int) -> Tensor:
        """Returns which examples come next, ``n`` of them, after ``first`` others."""
        if self._answer is None or self._answer[:2] != (first, n):
            epoch, offset = divmod(first, self._n)
            n_epochs = -(-(offset + n) // self._n)
            shuffled = torch.cat([self._epoch(epoch + i) for i in range(n_epochs)])
            self._answer = (first, n, shuffled[offset : offset + n])
        return self._answer[2]

    def _epoch(self, epoch: int) -> Tensor:
        if self._known is None or self._known[0] != epoch:
            generator = stream(self._seed, self._use, epoch)
            order = torch.randperm(self._n, generator=generator, dtype=torch.int32)
            self._known = (epoch, order)
        return self._known[1]


def held_out(task: Task, share: float, seed: int) -> Tensor:
    """Returns which of a task's examples allocations learn on, true or false, ``[N]``.

    Tasks that share their inputs have the same ones, as far as they have the same examples: none
    comes into the weights by another task's label.
    """
    split: Split = task.train
    rows = split.all_rows()
    chances = torch.rand(len(split.inputs), generator=stream(seed, "held out"))[rows]
    levels = chances.unique()  # sorted; an example that is there twice is in one part
    if len(levels) < 2:
        raise ValueError(
            f"Task {task.name!r} should have at least 2 different examples, one for each part, "
            f"with `allocation_held_out`. Found {len(levels)}."
        )
    n = min(max(round(share * len(levels)), 1), len(levels) - 1)
    is_held_out: Tensor = chances <= levels[n - 1]
    return is_held_out


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


def uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Returns numbers uniform on (0, 1), in the shape of another tensor."""
    noise = torch.rand(like.shape, generator=generator)
    return noise.clamp_min_(torch.finfo(noise.dtype).tiny)
