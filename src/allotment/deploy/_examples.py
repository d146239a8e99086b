"""Examples of tasks as they are stored, and the rows on which an exported network is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from .._checks import described
from ..tasks import GeneratedDataset, Split, TablePreprocessing, Task, as_inputs, preprocess
from ._encoding import Columns, as_tensors, random_rows, rows_from

N_EXAMPLES = 256  # at most, where they are at hand
N_COMPARED = 64  # rows of each kind, where there are so many


class Examples(NamedTuple):
    """Inputs of a task as they are stored, and what they are multiplied by."""

    inputs: Any
    scale: float


def examples_of(tasks: Sequence[Task]) -> Examples:
    """Returns inputs of the first task, of its test split where it has one.

    Raises where another task rescales its inputs in another way.

    >>> import torch
    >>> import allotment as al
    >>> examples_of([al.Task("a", (torch.zeros(9, 8), torch.zeros(9)))]).scale
    1.0
    """
    sources = [_source(task) for task in tasks]
    scales = [each.scale if isinstance(each, Split) else 1.0 for each in sources]
    if len(set(scales)) > 1:
        raise ValueError(
            "Tasks that are used together should have one `scale` of their inputs. "
            f"Found {', '.join(f'{t.name!r}: {s:g}' for t, s in zip(tasks, scales, strict=True))}."
        )
    return Examples(_inputs(sources[0]), scales[0])


def _source(task: Task) -> Any:
    parts = (task.held_out(name) for name in ("test", "validation", "train"))
    return next(part for part in parts if part is not None)


def _inputs(source: Any) -> Any:
    if isinstance(source, GeneratedDataset):
        return source.draw(N_EXAMPLES, torch.Generator().manual_seed(0))[0]
    if not isinstance(source, Split):
        return as_inputs(source.first()[0])
    rows = source.all_rows()
    stored = source.inputs[rows[torch.arange(max(2, min(N_EXAMPLES, len(rows)))) % len(rows)]]
    return preprocess(stored, source.permutation, 1.0, keep=(stored.dtype,))


@dataclass(frozen=True)
class Rows:
    """Rows in the three forms in which they are needed.

    Attributes:
        given: As the network is given them.
        inputs: As the exported module takes them, its arguments.
        feed: As a file takes them, by the name of each input.
    """

    given: Any
    inputs: tuple[Any, ...]
    feed: dict[str, NDArray[Any]]

    @property
    def n(self) -> int:
        return len(next(iter(self.feed.values())))


def rows_to_compare(
    examples: Any, preprocessing: TablePreprocessing | None, scale: float
) -> tuple[Rows, Rows, Rows]:
    """Returns examples, random rows like them, and one example alone."""
    _check_rows(examples)
    real = tree_map(lambda x: x[:N_COMPARED], examples)
    if preprocessing is None:
        random = tree_map(_random_like, real)
        one = tree_map(lambda x: x[:1], real)
        return _of_arrays(real, scale), _of_arrays(random, scale), _of_arrays(one, scale)
    if not isinstance(real, Tensor) or real.shape[1:] != (preprocessing.n_features,):
        raise ValueError(
            f"`examples` should have the {preprocessing.n_features} features of the preprocessing. "
            f"Found {_said(examples)}."
        )
    columns = rows_from(preprocessing, real)
    one = {name: values[:1] for name, values in columns.items()}
    return (
        _of_table(columns, preprocessing),
        _of_table(random_rows(preprocessing, N_COMPARED), preprocessing),
        _of_table(one, preprocessing),
    )


def _check_rows(examples: Any) -> None:
    """Raises unless there are two examples or more, with a row of all inputs for each."""
    leaves = tree_leaves(examples)
    if not leaves or not all(isinstance(leaf, Tensor) and len(leaf) >= 2 for leaf in leaves):
        raise ValueError(
            "`examples` should be a tensor, or a dict or a tuple of tensors, with two examples at "
            f"least. Found {_said(examples)}."
        )
    if len({len(leaf) for leaf in leaves}) > 1:
        raise ValueError(
            "`examples` should have a row for each example in all inputs; what is the same for "
            "all, such as a causal mask, the network should make itself. Found shapes "
            f"{[list(leaf.shape) for leaf in leaves]}."
        )


def _of_table(columns: Columns, preprocessing: TablePreprocessing) -> Rows:
    given = preprocessing.transform(columns)
    return Rows(given, as_tensors(preprocessing, columns), columns)


def _of_arrays(x: Any, scale: float) -> Rows:
    given = preprocess(x, None, scale) if isinstance(x, Tensor) else x
    if isinstance(x, Mapping):
        names = list(map(str, x))
    else:
        names = ["input"] if isinstance(x, Tensor) else [f"input {i}" for i in range(len(x))]
    arrays = [leaf.numpy() for leaf in tree_leaves(x)]
    return Rows(given, (x,), dict(zip(names, arrays, strict=True)))


def _random_like(x: Tensor) -> Tensor:
    """Returns random numbers with the type, the shape and the spread of some."""
    generator = torch.Generator().manual_seed(0)
    if x.is_floating_point():
        spread, mean = float(x.std(correction=0)), float(x.mean())
        drawn = torch.randn(N_COMPARED, *x.shape[1:], generator=generator) * (spread or 1.0) + mean
        return drawn.to(x.dtype)
    low, high = (int(x.min()), int(x.max())) if x.dtype != torch.bool else (0, 1)
    shape = (N_COMPARED, *x.shape[1:])
    return torch.randint(low, high + 1, shape, generator=generator).to(x.dtype)


def _said(examples: Any) -> str:
    return f"shape {list(examples.shape)}" if isinstance(examples, Tensor) else described(examples)
