"""The examples and the draws of one optimizer step, and which part of them a process takes."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .._engine import noise_widths, uniform
from .._streams import stream
from ..modules import Noise, TaskNetwork, are_linear
from ..settings import ROUNDS_PER_BLOCK, TrainingSettings


class Place(NamedTuple):
    """Where in a batch of ``total`` examples a part of it lies."""

    start: int
    stop: int
    total: int

    def of(self, batch: Any) -> Any:
        """Returns the part of a batch of any structure; what is not by example stays whole."""

        def one(value: Any) -> Any:
            is_by_example = isinstance(value, Tensor) and value.ndim and len(value) == self.total
            return value[self.start : self.stop] if is_by_example else value

        return tree_map(one, batch)


class Process(NamedTuple):
    """One of the processes that train together."""

    rank: int = 0
    n_processes: int = 1

    def place(self, total: int) -> Place:
        """Returns its part of ``total`` examples; parts differ by one example at most."""
        size, rest = divmod(total, self.n_processes)
        start = self.rank * size + min(self.rank, rest)
        return Place(start, start + size + (self.rank < rest), total)


class TaskBatch(NamedTuple):
    """This process's part of one task's batch.

    The mean over processes of ``weight`` times the loss of a part is the loss of the whole batch.
    """

    task: int
    inputs: Any  # None where the tasks of a step share them
    targets: Any
    place: Place
    weight: float = 1.0
    counts: Tensor | None = None  # [B], what each label counts, where not all are known
    is_known: bool = True  # whether the whole batch has a label of the task

    @property
    def share(self) -> Tensor | float:
        """What a mean over its examples counts: 1 where processes have equal parts."""
        return self.weight if self.counts is None else self.counts.sum()


class StepBatch(NamedTuple):
    """This process's part of the batches of one optimizer step: of one task, or of all."""

    step: int  # counted from 0
    parts: list[TaskBatch]
    shared: Any = None  # inputs of all tasks


class EvaluationBatch(NamedTuple):
    """Held-out examples of one task."""

    task: int
    inputs: Any
    targets: Any


def part_of(task: int, x: Any, y: Any, process: Process) -> TaskBatch:
    """Returns a process's part of a whole batch.

    Where there are fewer examples than processes, one without any computes the first, at weight 0:
    every process takes part in every step.
    """
    total = batch_size(y if batch_size(y) else x)
    place = process.place(total)
    n = place.stop - place.start
    place = place if n else Place(0, 1, total)
    return TaskBatch(task, place.of(x), place.of(y), place, n * process.n_processes / total)


def batch_size(batch: Any) -> int:
    """Returns how many examples a batch of any structure has."""
    parts = (leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor) and leaf.ndim)
    return next((len(part) for part in parts), 0)


def check_is(batch: object, kind: type) -> None:
    """Raises where a module is given a batch of other data."""
    if not isinstance(batch, kind):
        raise TypeError(
            "The batches of a MultiTaskModule should come from a MultiTaskData. "
            f"Found a {type(batch).__name__}."
        )


class Draws:
    """What the passes of a network draw, task batch by task batch: functions of seed and step.

    Gates and augmentation have the draws of `fit`. Other draws for examples, of gates that see them
    and of dropout before linear heads, are made for a whole batch, and a process takes its part.
    """

    def __init__(
        self, network: TaskNetwork, settings: TrainingSettings, seed: int, n_augmentation: int
    ) -> None:
        self._seed = seed
        self._shape = (settings.batch_size, n_augmentation)  # of one batch's augmentation
        self._n_batches = ROUNDS_PER_BLOCK * network.n_tasks  # of a block
        self._widths = noise_widths(network)
        heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
        if network.dropout and heads and are_linear(heads):
            self._widths["dropout"] = heads[0].in_features
        self._blocks: dict[str, tuple[int, Tensor]] = {}  # by use: its number, and the draws in it

    def noise(self, batch: int, place: Place, device: torch.device) -> Noise:
        """Returns the draws of a task batch, counted from 0, for the part at ``place``."""
        found = {
            use: self._of_block(use, batch, (width,))
            if use == "gates"
            else self._examples(use, batch, width, place)
            for use, width in self._widths.items()
            if width
        }
        return Noise(**{use: draws.to(device, non_blocking=True) for use, draws in found.items()})

    def augmentation(self, batch: int, place: Place, device: torch.device) -> Tensor:
        """Returns the draws for images of the part at ``place``, those of `fit`."""
        draws = self._of_block("augmentation", batch, self._shape)[place.start : place.stop]
        return draws.to(device, non_blocking=True)

    def _of_block(self, use: str, batch: int, shape: tuple[int, ...]) -> Tensor:
        """Returns a batch's part of draws that are made for ten rounds at a time."""
        number, place = divmod(batch, self._n_batches)
        if use not in self._blocks or self._blocks[use][0] != number:
            empty = torch.empty(self._n_batches, *shape)
            self._blocks[use] = (number, uniform(empty, stream(self._seed, use, number)))
        return self._blocks[use][1][place]

    def _examples(self, use: str, batch: int, width: int, place: Place) -> Tensor:
        generator = stream(self._seed, f"{use}/0", batch)
        return uniform(torch.empty(place.total, width), generator)[place.start : place.stop]
