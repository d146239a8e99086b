"""Examples that are fetched batch by batch, and not held as one pair of arrays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from .._checks import described
from ._split import Split, as_split

Example = tuple[Any, Tensor]  # inputs of any structure, and targets; with the batch in front


class IndexedExamples(ABC):
    """Examples that are fetched by their positions, in any order."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fetch(self, rows: Tensor) -> Example:
        """Returns the examples at these positions, as one batch."""

    def first(self) -> Example:
        """Returns two examples, to look at."""
        return self.fetch(torch.arange(2) % len(self))


class ArrayExamples(IndexedExamples):
    """Inputs that are several arrays, in a dict or a tuple, and the targets."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self.inputs = tree_map(torch.as_tensor, as_dicts(inputs))
        self.targets = torch.as_tensor(targets)
        arrays = [*tree_leaves(self.inputs), self.targets]
        lengths = {len(array) if array.ndim else 0 for array in arrays}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(
                "All arrays of inputs and targets should have one length, above 0. "
                f"Found {sorted(lengths)}."
            )

    def __len__(self) -> int:
        return len(self.targets)

    def fetch(self, rows: Tensor) -> Example:
        return tree_map(lambda array: array[rows], self.inputs), self.targets[rows]


class DatasetExamples(IndexedExamples):
    """A map-style dataset, asked for each example every time, so that augmentation stays fresh."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        if len(dataset) == 0:
            raise ValueError("A dataset should hold at least one example. Found 0.")
        self._first = super().first()

    def first(self) -> Example:
        return self._first  # not asked for again

    def __len__(self) -> int:
        return len(self.dataset)

    def fetch(self, rows: Tensor) -> Example:
        examples = [as_pair(self.dataset[row]) for row in rows.tolist()]
        try:
            inputs, targets = default_collate(examples)
        except (RuntimeError, TypeError) as error:  # shapes that differ, types that do not stack
            raise ValueError(
                "The examples of a dataset should have one shape; a DataLoader with a "
                f"`collate_fn` takes others. Found: {error}"
            ) from error
        return inputs, targets


class Stream:
    """Batches from a `DataLoader`, any iterable, or a function that returns an iterator.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> import allotment as al
    >>> x = torch.randn(50, 8)
    >>> loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=10)
    >>> type(al.Task("sum", train=loader).train).__name__
    'Stream'

    Args:
        source: What gives batches: pairs of inputs and targets, or dicts of inputs with "labels".
            It is gone through again when it ends. An iterator, such as a running generator, can be
            gone through once; a function that returns one, as often as needed.
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.source = source
        self._pushed_back: list[Any] = []  # taken from an iterator, to be looked at
        self._first: Example | None = None

    @property
    def is_once(self) -> bool:
        """Whether it can be gone through once only."""
        return isinstance(self.source, Iterator)

    @property
    def tells_state(self) -> bool:
        """Whether its iterators can be taken up again where they stopped."""
        return hasattr(self.source, "state_dict") and hasattr(self.source, "load_state_dict")

    def __iter__(self) -> Iterator[Example]:
        """Yields the batches of one epoch."""
        if self.is_once:
            taken, self._pushed_back = self._pushed_back, []
            return map(as_pair, chain(taken, self.source))  # type: ignore[arg-type]
        made = self.source() if callable(self.source) else self.source
        return map(as_pair, made)

    def first(self) -> Example:
        """Returns a batch, to look at; it is not lost."""
        if self._first is None:
            if self.is_once:
                self._pushed_back = [next(self.source, None)]  # type: ignore[call-overload]
                found = self._pushed_back[0]
            else:
                found = next(iter(self.source() if callable(self.source) else self.source), None)
            if found is None:
                raise ValueError("A stream should give at least one batch. Found none.")
            self._first = as_pair(found)
        return self._first


def as_pair(value: Any) -> Example:
    """Returns an example or a batch as inputs and targets."""
    if isinstance(value, Mapping) and "labels" in value and len(value) > 1:
        inputs = {name: part for name, part in value.items() if name != "labels"}
        return as_dicts(inputs), as_dicts(value["labels"])
    if isinstance(value, tuple | list) and len(value) == 2:
        return as_dicts(value[0]), as_dicts(value[1])
    raise ValueError(
        'A batch should be a pair of inputs and targets, or a dict with "labels" among its keys. '
        f"Found {described(value)}."
    )


def as_source(value: Any) -> Split | IndexedExamples | Stream:
    """Returns where the examples of a task come from, given any of the forms they may have.

    >>> type(as_source((torch.zeros(5, 2), torch.zeros(5)))).__name__
    'Split'
    """
    if isinstance(value, Split | IndexedExamples | Stream):
        return value
    if isinstance(value, TensorDataset) and len(value.tensors) == 2:
        return Split(*value.tensors)
    if isinstance(value, tuple | list):
        return ArrayExamples(*value) if _is_pair_of_several(value) else as_split(value)
    if isinstance(value, str | Mapping | Tensor | np.ndarray):
        return as_split(value)  # which tells what is wrong
    if _is_map_style(value):
        return DatasetExamples(value)
    return Stream(value) if callable(value) or isinstance(value, Iterable) else as_split(value)


def _is_pair_of_several(value: Sequence[Any]) -> bool:
    """Tells whether these are inputs of several arrays, and targets."""
    is_pair = len(value) == 2 and isinstance(value[1], Tensor | np.ndarray)
    return is_pair and isinstance(value[0], Mapping | tuple)


def _is_map_style(value: object) -> bool:
    """Tells whether examples are fetched by position."""
    # Torch's own iterable datasets have a `__getitem__` that does nothing.
    is_iterable = isinstance(value, IterableDataset | DataLoader)
    return hasattr(value, "__getitem__") and isinstance(value, Sized) and not is_iterable


def as_dicts(value: Any) -> Any:
    """Returns a batch with dicts for other mappings, such as a tokenizer of Hugging Face returns.

    Torch looks into structures of dicts, lists and tuples alone.

    >>> from types import MappingProxyType
    >>> as_dicts(MappingProxyType({"ids": 1}))
    {'ids': 1}
    """

    def one(part: Any) -> Any:
        return as_dicts(dict(part)) if isinstance(part, Mapping) else part

    return tree_map(one, value)


def on_device(value: Any, device: torch.device) -> Any:
    """Returns a batch, of any structure, on a device; what is no tensor stays.

    >>> on_device({"ids": torch.tensor([1, 2])}, torch.device("cpu"))
    {'ids': tensor([1, 2])}

    Args:
        value: A tensor, or a dict or tuple of them.
        device: Where to.
    """
    return tree_map(
        lambda part: part.to(device, non_blocking=True) if isinstance(part, Tensor) else part, value
    )


def as_inputs(value: Any) -> Any:
    """Returns inputs, of any structure, with floating-point parts in the default type.

    >>> as_inputs({"ids": torch.tensor([1, 2])})
    {'ids': tensor([1, 2])}
    """
    dtype = torch.get_default_dtype()

    def one(part: Any) -> Any:
        return part.to(dtype) if isinstance(part, Tensor) and part.is_floating_point() else part

    return tree_map(one, value)


def as_targets(value: Any) -> Any:
    """Returns targets; whole numbers of any size are 64 bits wide."""
    is_whole = isinstance(value, Tensor) and not value.is_floating_point()
    return value.long() if is_whole else value
