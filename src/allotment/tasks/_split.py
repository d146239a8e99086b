"""Examples of a task: arrays, or samples that are generated for every batch."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._checks import check_number, described

UNKNOWN = -100  # the label of cross-entropy's own `ignore_index`

_FROM_TABLES = " `tasks_from_table` takes tables with values that are not known."
# Token ids and the like; bool and uint8 are images.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch has few operations on them
_INDICES = (torch.int32, torch.int64)


@dataclass(frozen=True, eq=False)
class Split:
    """Examples that are looked up by position.

    Several splits may refer to the same tensors, each with its own rows and its own permutation
    of pixels, so that tasks made from one data set hold one copy of it.

    >>> import torch
    >>> import allotment as al
    >>> images, labels = torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.arange(10) % 2
    >>> split = al.Split(images, labels, rows=torch.arange(6), scale=1 / 255)
    >>> len(split), split.examples()[0].dtype
    (6, torch.float32)

    Attributes:
        inputs: Of all examples, ``[N, ...]``.
        targets: ``[N]``, ``[N, D]`` of a regression, or ``[N, L]`` labels; integers of -100
            are not known.
        rows: Which of the ``N`` examples belong to this split; None: all.
        permutation: Of an example's numbers, such as a rotation.
        scale: What inputs are multiplied by when they are made floating-point, such as 1 / 255.
    """

    inputs: Tensor
    targets: Tensor
    rows: Tensor | None = None
    permutation: Tensor | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("inputs", "targets"):
            object.__setattr__(self, name, _without_gradient(name, getattr(self, name)))
        if len(self.inputs) != len(self.targets):
            raise ValueError(
                "`inputs` and `targets` should have equal lengths. "
                f"Found {len(self.inputs)} and {len(self.targets)}."
            )
        _check_is_row("rows", self.rows)
        _check_is_row("permutation", self.permutation)
        check_number("scale", self.scale)
        if self.rows is not None and len(self.rows):
            _check_rows(self.rows, len(self.inputs))
        if len(self) == 0:
            raise ValueError("A split should hold at least one example. Found 0.")
        _check_finite("inputs", self.inputs)
        _check_finite("targets", self.targets, _FROM_TABLES)

    def __len__(self) -> int:
        return len(self.inputs) if self.rows is None else len(self.rows)

    def all_rows(self) -> Tensor:
        """Returns the rows of the examples, also where these are all ``N``."""
        return torch.arange(len(self.inputs)) if self.rows is None else self.rows

    def fetch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the examples at these of its positions, as a network is given them."""
        own = rows if self.rows is None else self.rows[rows]
        return preprocess(self.inputs[own], self.permutation, self.scale), self.targets[own]

    def examples(self) -> tuple[Tensor, Tensor]:
        """Returns this split's inputs, as a network is given them, and targets."""
        rows = slice(None) if self.rows is None else self.rows
        return preprocess(self.inputs[rows], self.permutation, self.scale), self.targets[rows]


def with_known_targets(split: Split) -> Split:
    """Returns the split without examples that have no known label, all of them -100.

    It is the same one where there are none.
    """
    targets = split.targets
    if targets.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
        return split
    rows = split.all_rows()
    is_known = targets[rows] != UNKNOWN
    if is_known.ndim > 1:
        is_known = is_known.flatten(1).any(dim=1)
    if is_known.all():
        return split
    if not is_known.any():
        raise ValueError(
            f"Labels should be known for one example at least. Found {UNKNOWN}, which means not "
            f"known, for all {len(split)}."
        )
    return replace(split, rows=rows[is_known])


def _without_gradient(name: str, values: object) -> Tensor:
    """Returns a tensor of examples, which are not what learns; raises unless it is one."""
    if not isinstance(values, Tensor) or values.ndim == 0:
        found = "a single number" if isinstance(values, Tensor) else described(values)
        raise ValueError(f"`{name}` should be a tensor with the examples in front. Found {found}.")
    return values.detach() if values.requires_grad else values


def _check_is_row(name: str, values: object) -> None:
    """Raises unless ``values`` are a tensor with one dimension, or None."""
    if values is not None and (not isinstance(values, Tensor) or values.ndim != 1):
        raise TypeError(
            f"`{name}` should be a tensor with one dimension, or None. Found {described(values)}."
        )


def _check_finite(name: str, values: Tensor, hint: str = "") -> None:
    # A sum is finite only where all numbers are, and is had in one pass.
    is_suspect = values.is_floating_point() and not values.sum().isfinite()
    if is_suspect and not values.isfinite().all():
        n_bad = int((~values.isfinite()).sum())
        raise ValueError(f"`{name}` should be finite. Found {n_bad} NaN or infinite values.{hint}")


def _check_rows(rows: Tensor, n: int) -> None:
    """Raises unless ``rows`` are positions among ``n`` examples."""
    is_whole = rows.dtype in (torch.int32, torch.int64)  # others are masks, or no positions
    first, last = (int(rows.min()), int(rows.max())) if is_whole else (0, 0)
    if not is_whole or first < 0 or last >= n:
        found = f"{first} to {last}" if is_whole else str(rows.dtype).removeprefix("torch.")
        raise ValueError(f"`rows` should be whole numbers from 0 to {n - 1}. Found {found}.")


def preprocess(
    inputs: Tensor,
    permutation: Tensor | None,
    scale: float,
    *,
    keep: Collection[torch.dtype] = (),
) -> Tensor:
    """Returns stored inputs ``[N, ...]`` as a network is given them.

    They are floating-point, times the scale, in the order of the permutation. Integers of 32 and
    64 bits, such as token ids, stay what they are, and so do inputs of a type in ``keep``, which
    the network takes as it is.

    >>> preprocess(torch.tensor([0, 255], dtype=torch.uint8), None, 1 / 255)
    tensor([0., 1.])

    Args:
        inputs: As they are stored, ``[N, ...]``.
        permutation: Of an example's numbers, if any.
        scale: What they are multiplied by.
        keep: Types that stay as they are.
    """
    stays = inputs.dtype in _INDICES or inputs.dtype in keep
    x = inputs if stays else inputs.to(torch.get_default_dtype())
    x = x if scale == 1.0 else x * scale
    return x if permutation is None else x.flatten(1)[:, permutation].view(x.shape)


_FORMS = (
    "Examples should be a pair of arrays, inputs and targets, a dataset of such pairs, or a loader."
)


class GeneratedDataset(ABC):
    """Examples that are drawn anew for every batch.

    >>> import torch
    >>> import allotment as al
    >>> class Sums(al.GeneratedDataset):
    ...     def draw(self, n, generator):
    ...         x = torch.randn(n, 8, generator=generator)
    ...         return x, x.sum(1)
    >>> al.Task("sum", train=Sums())
    Task('sum': generated examples, 1 output)
    """

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Returns ``n`` inputs and their targets, neither more nor fewer."""


def as_split(value: Any) -> Split:
    """Returns a split from a pair of tensors or arrays, or from any map-style dataset."""
    if isinstance(value, Split):
        return value
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if is_pair and all(isinstance(part, Tensor | np.ndarray) for part in value):
        return Split(_as_tensor("inputs", value[0]), _as_tensor("targets", value[1]))
    return _from_dataset(value)


def _as_tensor(name: str, value: Any) -> Tensor:
    """Returns an array as a tensor; of whole numbers, one that torch computes with."""
    try:
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"`{name}` should be an array of numbers. Found one of type "
            f"{getattr(value, 'dtype', type(value).__name__)}."
        ) from error
    return found.long() if found.dtype in _UNSIGNED else found


def _from_dataset(dataset: Sequence[tuple[Any, Any]]) -> Split:
    is_collection = isinstance(dataset, str | Mapping | Tensor | np.ndarray)
    if is_collection or not hasattr(dataset, "__getitem__"):
        raise ValueError(f"{_FORMS} Found {described(dataset)}.")
    pairs = [dataset[position] for position in range(len(dataset))]
    if not pairs:
        raise ValueError("A split should hold at least one example. Found 0.")
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"{_FORMS} Found {described(dataset)}.")
    inputs, targets = zip(*pairs, strict=True)
    return Split(_stacked("inputs", inputs), _stacked("targets", targets))


def _stacked(name: str, values: Sequence[Any]) -> Tensor:
    try:
        tensors = [torch.as_tensor(value) for value in values]
    except (RuntimeError, TypeError, ValueError) as error:
        kinds = ", ".join(dict.fromkeys(described(value) for value in values))
        raise ValueError(
            f"In a list of examples, `{name}` should be arrays or numbers. Found {kinds}. Dicts of "
            "arrays, and batches, come from a dataset or a DataLoader, or from a function that "
            "returns an iterator."
        ) from error
    shapes = list(dict.fromkeys(tuple(tensor.shape) for tensor in tensors))
    if len(shapes) > 1:
        raise ValueError(
            f"`{name}` should have one shape. Found {list(shapes[0])} and {list(shapes[1])}."
        )
    return torch.stack(tensors)


class TargetSpec(NamedTuple):
    """The type and the shape of one target; targets of one spec lie in one array.

    >>> target_spec(torch.tensor([0, 1, 1]))
    TargetSpec(dtype=torch.int64, shape=torch.Size([]))
    """

    dtype: torch.dtype
    shape: torch.Size


def target_spec(targets: Tensor) -> TargetSpec:
    """Returns the spec of targets ``[N, ...]``; integers of any kind are to be 64 bits wide.

    >>> target_spec(torch.zeros(5, 2)).shape
    torch.Size([2])
    """
    dtype = targets.dtype if targets.is_floating_point() else torch.int64
    return TargetSpec(dtype, targets.shape[1:])


def some_targets(source: Any) -> Tensor:
    """Returns one target or more from the examples of a task, ``[N, ...]``."""
    if isinstance(source, GeneratedDataset):
        return source.draw(1, torch.Generator())[1]
    if not isinstance(source, Split):
        found: Tensor = source.first()[1]
        return found
    return source.targets if source.rows is None else source.targets[source.rows[:1]]
