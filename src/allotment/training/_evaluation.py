"""How well runs do on held-out examples, with the gates of evaluation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_leaves

from .._engine import FlatParameters, Run, check_labels, one_number, rounded, widened
from .._schema import Evaluation, Floats
from .._streams import torch_stream
from ..tasks import (
    UNKNOWN,
    HeldOut,
    Split,
    Stream,
    Task,
    TaskLabels,
    as_inputs,
    as_targets,
    on_device,
    preprocess,
    target_spec,
)
from ._metrics import has_classes, metrics_of

EXAMPLES_AT_ONCE = {"cpu": 2_048, "cuda": 32_768}  # over all runs
# Of inputs, over all runs. What 2,048 images become in a network leaves the caches of a CPU, and is
# given back to the system by each operation: fewer at a time take a fifth of the time.
NUMBERS_AT_ONCE = {"cpu": 2**18, "cuda": 2**31}
LEAST_AT_ONCE = 16  # of each run
# Whether batches are filled up, to have few lengths: the libraries of a GPU prepare for each.
FILLED_UP = {"cpu": False, "cuda": True}


class Column(NamedTuple):
    """What ``R`` runs reach on one task, ``[R]`` each; NaN where there is no such number."""

    losses: Floats
    accuracies: Floats
    metrics: dict[str, Floats]


@torch.no_grad()
def evaluate(
    runs: Sequence[Run], parameters: FlatParameters, split: str, is_vmapped: bool
) -> list[Evaluation] | None:
    """Returns each run's evaluation; None where no task has the split."""
    if all(task.held_out(split) is None for run in runs for task in run.tasks):
        return None
    draws = torch_stream(runs[0].seed, f"evaluation/{split}", int(parameters.n_batches))
    with draws, parameters.arithmetic():
        parameters.network.eval()
        columns = _columns(runs, parameters, split, is_vmapped)
        parameters.network.train()
    return _evaluations(columns, split)


@torch.no_grad()
def evaluate_tasks(
    parameters: FlatParameters, tasks: Mapping[int, Task], split: str, seed: int
) -> Evaluation:
    """Returns the evaluation of one run on tasks, given by their places in its network."""
    state = {name: value[0] for name, value in parameters.state().items()}
    with torch_stream(seed, f"evaluation/{split}"), parameters.arithmetic():
        parameters.network.eval()
        columns = []
        for place, task in tasks.items():
            try:
                columns.append(_column(parameters, state, place, task, split, None))
            except Exception as error:
                error.add_note(f"This is the {split} split of task {task.name!r}.")
                raise
    return _evaluations(columns, split)[0]


def _evaluations(columns: Sequence[Column], split: str) -> list[Evaluation]:
    """Returns an evaluation for each run, from a column for each task."""
    tables = _joined(columns, np.stack, axis=1)  # [R, T] each
    classifies = not np.isnan(tables.accuracies).all()
    return [
        Evaluation(
            split=split,
            losses=tables.losses[r],
            accuracies=tables.accuracies[r] if classifies else None,
            metrics={name: values[r] for name, values in tables.metrics.items()},
        )
        for r in range(len(tables.losses))
    ]


def _joined(columns: Sequence[Column], join: Callable[..., Floats], axis: int) -> Column:
    """Returns several columns as one; a metric that a task does not have is NaN."""
    nothing = np.full_like(columns[0].losses, np.nan)
    names = dict.fromkeys(name for column in columns for name in column.metrics)
    return Column(
        join([column.losses for column in columns], axis=axis),
        join([column.accuracies for column in columns], axis=axis),
        {
            name: join([column.metrics.get(name, nothing) for column in columns], axis=axis)
            for name in names
        },
    )


def _columns(
    runs: Sequence[Run], parameters: FlatParameters, split: str, is_vmapped: bool
) -> list[Column]:
    """Returns what runs reach on each task."""
    state = parameters.state()
    rows = [{name: value[r] for name, value in state.items()} for r in range(len(runs))]
    columns = []
    for t, by_run in enumerate(zip(*(run.tasks for run in runs), strict=True)):
        if is_vmapped and len(set(by_run)) == 1:
            columns.append(_column(parameters, state, t, by_run[0], split, len(runs)))
            continue
        own = []
        for first, tasks in _parts(by_run, split, parameters, is_vmapped):
            if len(tasks) == 1:
                own.append(_column(parameters, rows[first], t, tasks[0], split, None))
            else:
                part = {name: value[first : first + len(tasks)] for name, value in state.items()}
                own.append(_column_of_each(parameters, part, t, tasks, split))
        columns.append(_joined(own, np.concatenate, axis=0))
    return columns


def _parts(
    tasks: Sequence[Task], split: str, parameters: FlatParameters, is_vmapped: bool
) -> Iterator[tuple[int, list[Task]]]:
    """Yields runs that follow each other and can be evaluated at once: the first, and their tasks.

    Their examples are arrays of one shape, few enough to be side by side.
    """
    first = 0
    for kind, group in groupby(tasks, lambda task: _kind(task, split) if is_vmapped else None):
        alike = list(group)
        size = max(1, EXAMPLES_AT_ONCE[parameters.device.type] // kind[0]) if kind else 1
        for start in range(0, len(alike), size):
            yield first + start, alike[start : start + size]
        first += len(alike)


def _kind(task: Task, split: str) -> tuple[Any, ...] | None:
    """Returns what tasks evaluated at once have in common; None for one that is seen alone."""
    examples = task.split(split)
    if examples is None or task.metrics or (task.is_classification and examples.targets.ndim > 1):
        return None
    x, spec = examples.inputs, target_spec(examples.targets)
    return len(examples), x.shape[1:], x.dtype, spec, task.loss_function, task.n_outputs


def _column_of_each(
    parameters: FlatParameters,
    state: dict[str, Tensor],
    index: int,
    tasks: Sequence[Task],
    split: str,
) -> Column:
    """Returns what vmapped runs reach, each on its own task's examples."""
    found = [_batches_of_arrays(s, parameters, len(s)) for t in tasks if (s := t.split(split))]
    x, y = (torch.stack(parts) for parts in zip(*map(next, found), strict=True))
    n = torch.tensor(y.shape[1], device=parameters.device)

    def one(state: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = widened(functional_call(parameters.network, state, (x, index)))
        return _scores(tasks[0], split, outputs, y, n)

    scores = vmap(one, randomness="different")(state, x, y) / n
    losses, accuracies = scores.T.cpu().double().numpy()
    return Column(losses, accuracies, {})


def _column(
    parameters: FlatParameters,
    state: dict[str, Tensor],
    index: int,
    task: Task,
    split: str,
    n_runs: int | None,
) -> Column:
    """Returns what one run, or with ``n_runs`` as many that are vmapped, reach on one task."""
    examples = task.held_out(split)
    if examples is None:
        nothing = np.full(n_runs or 1, np.nan)
        return Column(nothing, nothing, {})
    total = torch.zeros(2, n_runs or 1, device=parameters.device)
    n_total, seen = torch.zeros((), device=parameters.device), []
    device, compares = parameters.device.type, _compares_examples(parameters.network)
    size = _examples_at_once(examples, device, n_runs or 1, any_size=not compares)
    batches = _batches(examples, parameters, size)
    for x, y in _said_of(f"Task {task.name!r}, {split}: ", batches):
        n, n_examples = n_known(y), len(_first_tensor(y))

        def one(
            state: dict[str, Tensor], x: Any = x, y: Any = y, n: Tensor = n, end: int = n_examples
        ) -> tuple[Tensor, Tensor]:
            outputs = widened(functional_call(parameters.network, state, (x, index)))[:end]
            return _scores(task, split, outputs, y, n), outputs

        if n_runs is None:
            scores, outputs = (part.unsqueeze(0) for part in one(state))
        else:
            scores, outputs = vmap(one, randomness="different")(state)
        total += torch.where(n > 0, scores.T, 0.0)
        n_total += n
        if task.metrics:
            seen.append((outputs.cpu(), on_device(y, torch.device("cpu"))))
    losses, accuracies = (total / n_total).cpu().double().numpy()
    return Column(losses, accuracies, metrics_of(task, seen))


def _examples_at_once(source: HeldOut, device: str, n_runs: int, *, any_size: bool = True) -> int:
    """Returns how many examples a run takes at a time; fewer large ones if ``any_size`` will do."""
    numbers = source.inputs.shape[1:].numel() if any_size and isinstance(source, Split) else 1
    most = min(EXAMPLES_AT_ONCE[device], NUMBERS_AT_ONCE[device] // max(numbers, 1))
    return max(LEAST_AT_ONCE, most // n_runs)


def _scores(task: Task, split: str, outputs: Tensor, y: Any, n: Tensor) -> Tensor:
    """Returns ``n`` times the loss, and how many answers are right, or NaN; shape ``[2]``."""
    try:
        loss = task.loss_function(outputs, y)
    except Exception as error:
        check_labels(task.name, split, outputs, y)
        error.add_note(f"This is the loss of task {task.name!r}, {split}.")
        raise
    loss = one_number(loss, task.name, outputs.dtype) * n
    if not has_classes(task, outputs):
        return torch.stack([loss, torch.full_like(loss, torch.nan)])
    n_right = (outputs.argmax(dim=1) == y).sum()  # no class has the number of a missing one
    return torch.stack([loss, n_right.to(loss.dtype)])


def _said_of(where: str, batches: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yields batches; where they cannot be had, it says whose they are."""
    try:
        yield from batches
    except ValueError as error:
        raise ValueError(f"{where}{error}") from error


def _first_tensor(y: Any) -> Tensor:
    return next(leaf for leaf in tree_leaves(y) if isinstance(leaf, Tensor))


def n_known(y: Any) -> Tensor:
    """Returns how many labels count, or examples where targets are no labels.

    >>> n_known(torch.tensor([0, -100, 2]))
    tensor(2)
    """
    if isinstance(y, Tensor) and not y.is_floating_point():
        return (y != UNKNOWN).sum()
    first = _first_tensor(y)
    return torch.tensor(len(first), device=first.device)


def _batches(
    source: HeldOut, parameters: FlatParameters, size: int
) -> Iterator[tuple[Any, Tensor]]:
    """Yields inputs and targets; behind the last inputs there may be some without a target."""
    if isinstance(source, Split):
        yield from _batches_of_arrays(source, parameters, size)
        return
    if isinstance(source, Stream | TaskLabels):
        batches: Iterable[tuple[Any, Any]] = source
    else:
        batches = (source.fetch(part) for part in torch.arange(len(source)).split(size))
    device = parameters.device
    for x, y in batches:
        here = rounded(as_inputs(on_device(x, device)), parameters.mixed_precision)
        yield here, as_targets(on_device(y, device))


def _batches_of_arrays(
    split: Split, parameters: FlatParameters, size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    fills = FILLED_UP[parameters.device.type] and not _compares_examples(parameters.network)
    rows = split.all_rows()
    for part in rows.split(size):
        length = min(size, 2 ** (len(part) - 1).bit_length()) if fills else len(part)
        filled = torch.cat([part, part[:1].expand(length - len(part))])
        found = split.inputs[filled].to(parameters.device)
        keep = parameters.network.accepted_dtypes
        x = preprocess(found, split.permutation, split.scale, keep=keep)
        y = split.targets[part].to(parameters.device)
        yield rounded(x, parameters.mixed_precision), as_targets(y)


def _compares_examples(network: nn.Module) -> bool:
    """Tells whether outputs depend on the rest of the batch, in torch's own modules at least."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return any(norm.running_mean is None for norm in norms)
