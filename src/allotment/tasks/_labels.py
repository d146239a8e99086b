"""Batches that have targets of several tasks, some of them not known."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, IterableDataset

from .._checks import described
from ._split import UNKNOWN
from ._stream import Example, IndexedExamples, Stream, as_source, as_targets

N_AT_ONCE = 1_024  # examples that are fetched for an evaluation, of those that have positions


class MultiLabel:
    """Batches with targets of several tasks, to be given to each of these tasks.

    >>> from allotment.tasks import MultiLabel, Task
    >>> x = torch.randn(8, 3)
    >>> y = {"kind": torch.tensor([0, 1] * 4), "size": torch.tensor([0.5, torch.nan] * 4)}
    >>> shared = MultiLabel(lambda: iter([(x, y)]))
    >>> [Task("kind", train=shared, n_outputs=2), Task("size", train=shared, n_outputs=1)]
    [Task('kind': shared batches, 2 outputs), Task('size': shared batches, 1 output)]

    A task finds its targets by its name. Labels of -100 and numbers of NaN are not known, and leave
    an example out of that task alone. With ``schedule="multi_label"`` a step takes one batch for
    all tasks; with others, each task goes through the batches by itself.

    Args:
        source: A `DataLoader`, a list of batches or another iterable, a function that returns an
            iterator, or a map-style dataset. Targets are a dict by task, or a tensor with a column
            for each task.
        names: The tasks of the columns, where targets are a tensor.
    """

    def __init__(self, source: Any, names: Sequence[str] = ()) -> None:
        batches = Stream(source) if isinstance(source, list) else as_source(source)
        if not isinstance(batches, IndexedExamples | Stream):
            raise ValueError(
                "`source` should be a dataset, or give batches; `tasks_from_table` takes arrays. "
                f"Found {described(source)}."
            )
        self.batches = batches
        self.names = list(names)

    def column(self, targets: Any, name: str) -> Tensor:
        """Returns a task's targets, of those of all tasks; whole numbers are 64 bits wide."""
        if isinstance(targets, Mapping):
            names, found = list(targets), targets.get(name)
        else:
            names = self.names
            width = targets.shape[1] if isinstance(targets, Tensor) and targets.ndim > 1 else 0
            if not names or width != len(names):
                raise ValueError(
                    "The targets of a batch should be a dict by task, or a tensor with a column "
                    f"for each of `names`. Found {_in_words(targets)} for `names = {names}`."
                )
            found = targets[:, names.index(name)] if name in names else None
        if found is None:
            raise ValueError(f"Batches should have targets for task {name!r}. Found {names}.")
        column: Tensor = as_targets(torch.as_tensor(found))
        return column


@dataclass(frozen=True, eq=False)
class TaskLabels:
    """One task's part of batches that several tasks share."""

    shared: MultiLabel
    name: str

    @property
    def batches(self) -> IndexedExamples | Stream:
        """The batches of all tasks."""
        return self.shared.batches

    def targets(self, of_all: Any) -> tuple[Tensor, Tensor]:
        """Returns a batch's targets, zeros for those that are not known, and which are, ``[B]``."""
        y = self.shared.column(of_all, self.name)
        is_known = ~y.isnan() if y.is_floating_point() else y != UNKNOWN
        if y.ndim > 1:  # an example has all numbers of a regression, or some of several labels
            is_known = is_known.flatten(1)
            is_known = is_known.all(dim=1) if y.is_floating_point() else is_known.any(dim=1)
        return torch.where(is_known.view(-1, *[1] * (y.ndim - 1)), y, 0), is_known

    def first(self) -> Example:
        """Returns a batch, to look at; a target that is not known is 0 in it."""
        x, y = self.batches.first()
        return x, self.targets(y)[0]

    def known(self, batch: Example) -> Example | None:
        """Returns the examples of a batch whose targets are known; None where none are."""
        y, is_known = self.targets(batch[1])
        if is_known.all():
            return batch[0], y
        if not is_known.any():
            return None
        n = len(y)

        def own(part: Any) -> Any:
            is_by_example = isinstance(part, Tensor) and part.ndim > 0 and len(part) == n
            return part[is_known] if is_by_example else part

        return tree_map(own, batch[0]), y[is_known]

    def __iter__(self) -> Iterator[Example]:
        """Yields the examples with known targets of one epoch, in their order."""
        source = self.batches
        parts = torch.arange(0 if isinstance(source, Stream) else len(source)).split(N_AT_ONCE)
        batches = source if isinstance(source, Stream) else (source.fetch(part) for part in parts)
        for batch in batches:
            found = self.known(batch)
            if found is not None:
                yield found


def n_examples(source: Any) -> int | None:
    """Returns how many examples there are, where that is known.

    >>> n_examples(torch.utils.data.DataLoader(list(range(5))))
    5
    """
    if isinstance(source, TaskLabels):
        source = source.batches
    if not isinstance(source, Stream):
        return len(source) if isinstance(source, Sized) else None
    loader = source.source
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    return len(loader.dataset) if isinstance(loader.dataset, Sized) else None


def _in_words(targets: Any) -> str:
    shape = f" of shape {list(targets.shape)}" if isinstance(targets, Tensor) else ""
    return described(targets) + shape
