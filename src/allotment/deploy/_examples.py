"""Inputs of tasks in the form in which they are stored, before they are rescaled."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..tasks import GeneratedDataset, Split, Task, as_inputs, preprocess

N_EXAMPLES = 256  # at most, where they are at hand


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
