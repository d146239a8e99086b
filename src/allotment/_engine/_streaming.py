"""Batches that are fetched one by one: from loaders, from datasets, or of arrays that differ."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .._streams import stream
from ..modules import Noise, TaskNetwork
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import UNKNOWN, Task, as_inputs, as_targets, on_device, some_targets, target_spec
from ._augmentation import Augmenter
from ._batch import Batch, Block
from ._batches import Batches, noise_widths
from ._dataset import why_fetched
from ._losses import Losses, StreamedLosses, has_label
from ._readers import Reader, shared_reader, task_reader
from ._run import Run
from ._sampler import PER_BATCH, TaskOrder, uniform


class StreamedBatches(Batches):
    """Fetches the batches of ``R`` runs, step after step.

    The order of tasks, the gates' draws and the order of examples that have positions are those of
    runs whose examples lie on the device.
    """

    def __init__(self, runs: Sequence[Run], network: TaskNetwork, device: torch.device) -> None:
        self._why = why_fetched([task for run in runs for task in run.tasks])
        self.why_apart = f"batches are fetched one by one, since {self._why}."
        self.shares_inputs = runs[0].settings.schedule == "multi_label"
        self._refuse_what_needs_arrays(runs[0])
        self._runs = runs
        self._widths = {use: width for use, width in noise_widths(network).items() if width}
        self._device = device
        self._is_joint = runs[0].settings.is_joint
        self._n_pieces = runs[0].settings.execution.accumulate
        self._orders = [TaskOrder(run) for run in runs]
        self._n_tasks = len(runs[0].tasks)
        self._readers: list[list[Reader]] = [
            [shared_reader(run)]
            if self.shares_inputs
            else [task_reader(run, index) for index in range(self._n_tasks)]
            for run in runs
        ]
        self._labels = _SharedTargets(runs) if self.shares_inputs else None
        self._unlabelled: list[tuple[int, int]] = []  # batches of this block, with their run
        self._blame = [""] * len(runs)
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
        self._unlabelled = []
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

    def losses(
        self, tasks: Sequence[Sequence[Task]], network: TaskNetwork
    ) -> Losses | StreamedLosses:
        if self.shares_inputs:
            return Losses(tasks, network, self._device, are_masked=True)
        return StreamedLosses(tasks, self.why_apart)

    def tasks(self, block: Block, n_batches: int) -> Tensor:
        tasks = super().tasks(block, n_batches)
        for step, run in self._unlabelled:
            tasks[step : step + 1, run] = -1
        return tasks

    def are_known(self, batch: Batch) -> Tensor | None:
        if not self.shares_inputs:
            return None
        pieces = [piece.targets[-1] for piece in (batch, *batch.further)]  # by run, [T, B]
        shares = [torch.stack([own.sum(dim=1) for own in piece]) for piece in pieces]
        return torch.stack(shares).sum(dim=0) > 0

    def batch(self, block: Block, index: int | Tensor) -> Batch:
        """Returns a step's batch; it is fetched once, however often it is asked for."""
        key = (self._number, int(index))
        if self._last is None or self._last[0] != key:
            make = self._of_all_tasks if self._is_joint else self._fetched
            make = self._shared if self.shares_inputs else make
            pieces = [make(block, int(index), piece) for piece in range(self._n_pieces)]
            if self.shares_inputs:
                pieces = self._with_shares(pieces, int(index))
            first, *further = pieces
            self._last = (key, first._replace(further=tuple(further)))
        return self._last[1]

    def _of_all_tasks(self, block: Block, index: int, piece: int) -> Batch:
        """Returns a batch of every task for each run: lists of lists."""
        steps = range(index * self._n_tasks, (index + 1) * self._n_tasks)
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
        pairs = []
        for r, task in enumerate(tasks.tolist()):
            x, y = self._readers[r][task].next()
            self._look_at(r, f" of task {self._runs[r].tasks[task].name!r}", x, y)
            pairs.append((x, y))
        inputs = [as_inputs(on_device(x, self._device)) for x, _ in pairs]
        targets = [as_targets(on_device(y, self._device)) for _, y in pairs]
        noise = self._noise(block, step, piece, inputs)
        return Batch(tasks, inputs, (targets,), Noise(**noise))  # type: ignore[arg-type]

    def _shared(self, block: Block, index: int, piece: int) -> Batch:
        """Returns a batch that all tasks share, for each run: lists of ``[T, ...]`` each."""
        assert self._labels is not None
        steps = range(index * self._n_tasks, (index + 1) * self._n_tasks)
        tasks = block.tasks[steps.start : steps.stop].T  # [R, T]
        inputs, targets = [], []
        for r, own in enumerate(tasks.tolist()):
            x, of_all = self._readers[r][0].next()
            self._look_at(r, "", x, None)
            inputs.append(as_inputs(on_device(x, self._device)))
            found = self._labels.of_batch(r, own, of_all)
            targets.append([part.to(self._device) for part in found])
        draws = [self._noise(block, step, piece, inputs) for step in steps]
        noise = {
            use: [torch.stack(own) for own in _by_run([d[use] for d in draws])] for use in draws[0]
        }
        return Batch(tasks, inputs, tuple(zip(*targets, strict=True)), Noise(**noise))  # type: ignore[arg-type]

    def _with_shares(self, pieces: list[Batch], index: int) -> list[Batch]:
        """Returns pieces whose last targets are shares of the mean over all known labels."""
        shares: list[list[Tensor]] = [[] for _ in pieces]  # by piece and run, [T, B]
        for r in range(len(self._runs)):
            known = [piece.targets[-1][r] for piece in pieces]
            n = torch.stack([part.sum(dim=1) for part in known]).sum(dim=0)  # [T]
            self._unlabelled += [
                (index * self._n_tasks + place, r)
                for place in (n == 0).nonzero().flatten().tolist()
            ]
            for own, part in zip(shares, known, strict=True):
                own.append(part * len(pieces) / n.clamp_min(1).unsqueeze(1))
        return [
            piece._replace(targets=(*piece.targets[:-1], own))  # type: ignore[arg-type]
            for piece, own in zip(pieces, shares, strict=True)
        ]

    def _look_at(self, run: int, of_task: str, x: Any, y: Any) -> None:
        """Notes NaN in a batch, and batches without a label, to be told should the loss be none."""
        for name, part in (("inputs", x), ("targets", y)):
            if not self._blame[run] and _has_nan(part):
                self._blame[run] = f"the {name}{of_task} had NaN in a batch"
        if not self._blame[run] and _has_no_label(y):
            self._blame[run] = f"the targets{of_task} were all {UNKNOWN} in a batch"

    def blame(self, run: int) -> str:
        return self._blame[run]

    def _noise(
        self, block: Block, step: int, piece: int, inputs: Sequence[Any]
    ) -> dict[str, list[Tensor]]:
        """Returns the draws for one task's pass, by use and run."""
        draws: dict[str, list[Tensor]] = {}
        for use, width in self._widths.items():
            if use == PER_BATCH:
                draws[use] = list(block.noise[use][step].to(self._device))
                continue
            draws[use] = [
                self._for_examples(r, use, piece, step, (_batch_size(x), width))
                for r, x in enumerate(inputs)
            ]
        return draws

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


class _SharedTargets:
    """The targets of all tasks of a batch, by their specs, and which are known."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._tasks = [run.tasks for run in runs]
        specs = [[target_spec(some_targets(task.train)) for task in run.tasks] for run in runs]
        self._specs = list(dict.fromkeys(spec for row in specs for spec in row))
        self._numbers = [[self._specs.index(spec) for spec in row] for row in specs]

    def of_batch(self, run: int, tasks: Sequence[int], of_all: Any) -> list[Tensor]:
        """Returns targets ``[T, B, ...]`` of every spec; behind them which are known, ``[T, B]``.

        The targets of a task that has another spec are any.
        """
        found = [self._tasks[run][task].train.targets(of_all) for task in tasks]
        known = torch.stack([is_known for _, is_known in found])
        numbers = [self._numbers[run][task] for task in tasks]
        parts = []
        for number, spec in enumerate(self._specs):
            own = [y for (y, _), n in zip(found, numbers, strict=True) if n == number]
            other = own[0] if own else torch.zeros(known.shape[1], *spec.shape, dtype=spec.dtype)
            here = [y if n == number else other for (y, _), n in zip(found, numbers, strict=True)]
            parts.append(torch.stack(here))
        return [*parts, known]


def _by_run(of_tasks: Sequence[Any]) -> list[list[Any]]:
    """Returns for each run what there is of every task, given it the other way round."""
    return [list(own) for own in zip(*of_tasks, strict=True)]


def _batch_size(inputs: Any) -> int:
    return next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))


def _has_no_label(targets: Any) -> bool:
    """Tells whether no label is known; what is not on the CPU is not looked at."""
    if not isinstance(targets, Tensor) or targets.device.type != "cpu" or not targets.numel():
        return False
    return not has_label(targets, 1).any()


def _has_nan(value: Any) -> bool:
    """Tells whether there is a NaN; what is not on the CPU is not looked at, which would wait."""
    parts = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    own = [part for part in parts if part.is_floating_point() and part.device.type == "cpu"]
    return any(bool(part.isnan().any()) for part in own)
