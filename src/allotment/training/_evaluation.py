"""How well runs do on held-out examples, with the gates of evaluation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_leaves, tree_map

from .._engine import FlatParameters, Run, check_labels, rounded, widened
from .._schema import Evaluation, Floats
from .._streams import torch_stream
from ..tasks import (
    UNKNOWN,
    HeldOut,
    Metric,
    Split,
    Stream,
    Task,
    TaskLabels,
    as_inputs,
    as_targets,
    on_device,
    preprocess,
)

EXAMPLES_AT_ONCE = {"cpu": 2_048, "cuda": 32_768}  # over all runs
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
    for t in range(len(runs[0].tasks)):
        if is_vmapped and all(run.tasks[t] is runs[0].tasks[t] for run in runs):
            columns.append(_column(parameters, state, t, runs[0].tasks[t], split, len(runs)))
            continue
        own = [
            _column(parameters, row, t, run.tasks[t], split, None)
            for row, run in zip(rows, runs, strict=True)
        ]
        columns.append(_joined(own, np.concatenate, axis=0))
    return columns


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
    for x, y in _said_of(f"Task {task.name!r}, {split}: ", _batches(examples, parameters)):
        n, n_examples = n_known(y), len(_first_tensor(y))

        def one(
            state: dict[str, Tensor], x: Any = x, y: Any = y, n: Tensor = n, end: int = n_examples
        ) -> tuple[Tensor, Tensor]:
            outputs = widened(functional_call(parameters.network, state, (x, index)))[:end]
            try:
                loss = task.loss_function(outputs, y) * n
            except Exception as error:
                check_labels(task.name, split, outputs, y)
                error.add_note(f"This is the loss of task {task.name!r}, {split}.")
                raise
            if not has_classes(task, outputs):
                return torch.stack([loss, torch.full_like(loss, torch.nan)]), outputs
            n_right = (outputs.argmax(dim=1) == y).sum()  # no class has the number of a missing one
            return torch.stack([loss, n_right.to(loss.dtype)]), outputs

        if n_runs is None:
            scores, outputs = (part.unsqueeze(0) for part in one(state))
        else:
            scores, outputs = vmap(one, randomness="different")(state)
        total += torch.where(n > 0, scores.T, 0.0)
        n_total += n
        if task.metrics:
            seen.append((outputs.cpu(), on_device(y, torch.device("cpu"))))
    losses, accuracies = (total / n_total).cpu().double().numpy()
    return Column(losses, accuracies, _metrics(task, seen))


def _said_of(where: str, batches: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yields batches; where they cannot be had, it says whose they are."""
    try:
        yield from batches
    except ValueError as error:
        raise ValueError(f"{where}{error}") from error


def has_classes(task: Task, outputs: Tensor) -> bool:
    """Tells whether there is an output for each class: one logit alone has no largest."""
    return task.is_classification and (task.n_outputs == 1 or outputs.shape[1:2] != (1,))


def _first_tensor(y: Any) -> Tensor:
    return next(leaf for leaf in tree_leaves(y) if isinstance(leaf, Tensor))


def n_known(y: Any) -> Tensor:
    """Returns how many labels count, or examples where targets are no labels."""
    if isinstance(y, Tensor) and not y.is_floating_point():
        return (y != UNKNOWN).sum()
    first = _first_tensor(y)
    return torch.tensor(len(first), device=first.device)


def _metrics(task: Task, seen: Sequence[tuple[Tensor, Any]]) -> dict[str, Floats]:
    if not task.metrics:
        return {}
    outputs = torch.cat([part for part, _ in seen], dim=1)  # [R, N, ...]
    targets = tree_map(lambda *parts: torch.cat(parts), *(part for _, part in seen))
    found = [measured(task, own, targets) for own in outputs]
    return {name: np.array([own[name] for own in found]) for name in task.metrics}


def measured(task: Task, outputs: Tensor, targets: Any) -> dict[str, float]:
    """Returns a task's own metrics of a whole split, by name; on the CPU."""
    found = {}
    for name, metric in task.metrics.items():
        try:
            found[name] = _measured(metric, outputs, targets)
        except Exception as error:
            error.add_note(f"This is the metric {name!r} of task {task.name!r}.")
            raise
    return found


def _measured(metric: Metric, outputs: Tensor, targets: Tensor) -> float:
    if hasattr(metric, "update") and hasattr(metric, "compute"):  # one of torchmetrics
        own: Any = deepcopy(metric)
        own.distributed_available_fn = lambda: False  # the split is whole: others add nothing
        own.reset()
        own.update(_shaped(outputs, targets), targets)
        value = own.compute()
    else:
        value = metric(outputs, targets)
    if isinstance(value, Tensor | np.ndarray) and list(value.shape) not in ([], [1]):
        raise ValueError(f"A metric should be one number. Found shape {list(value.shape)}.")
    if isinstance(value, Mapping):
        raise ValueError(f"A metric should be one number. Found several: {', '.join(value)}.")
    return float(value)


def _shaped(outputs: Tensor, targets: Any) -> Tensor:
    """Returns outputs ``[N, 1]`` as ``[N]`` where targets are; torchmetrics wants one shape."""
    is_column = isinstance(targets, Tensor) and outputs.shape == (*targets.shape, 1)
    return outputs.squeeze(-1) if is_column else outputs


def _batches(source: HeldOut, parameters: FlatParameters) -> Iterator[tuple[Any, Tensor]]:
    """Yields inputs and targets; behind the last inputs there may be some without a target."""
    size = max(64, EXAMPLES_AT_ONCE[parameters.device.type] // parameters.n_runs)
    if isinstance(source, Split):
        yield from _batches_of_arrays(source, parameters, size)
        return
    if isinstance(source, Stream | TaskLabels):
        batches: Iterable[tuple[Any, Any]] = source
    else:
        batches = (source.fetch(part) for part in torch.arange(len(source)).split(size))
    for x, y in batches:
        here = as_inputs(on_device(x, parameters.device))
        yield (
            rounded(here, parameters.mixed_precision),
            as_targets(on_device(y, parameters.device)),
        )


def _batches_of_arrays(
    split: Split, parameters: FlatParameters, size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    fills = FILLED_UP[parameters.device.type] and not _compares_examples(parameters.network)
    rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
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
