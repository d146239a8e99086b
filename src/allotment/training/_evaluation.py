"""How well runs do on held-out examples, with the gates of evaluation."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .._engine import FlatParameters, Run, rounded, widened
from .._schema import Evaluation
from .._streams import torch_stream
from ..tasks import UNKNOWN, Split, Task, preprocess

EXAMPLES_AT_ONCE = {"cpu": 2_048, "cuda": 32_768}  # over all runs
# Whether batches are filled up, to have few lengths: the libraries of a GPU prepare for each.
FILLED_UP = {"cpu": False, "cuda": True}


@torch.no_grad()
def evaluate(
    runs: Sequence[Run], parameters: FlatParameters, split: str, is_vmapped: bool
) -> list[Evaluation] | None:
    """Returns each run's evaluation, or None where some task lacks the split."""
    if any(task.split(split) is None for run in runs for task in run.tasks):
        return None
    draws = torch_stream(runs[0].seed, f"evaluation/{split}", int(parameters.n_batches))
    with draws, parameters.arithmetic():
        return _evaluations(runs, parameters, split, is_vmapped)


def _evaluations(
    runs: Sequence[Run], parameters: FlatParameters, split: str, is_vmapped: bool
) -> list[Evaluation]:
    parameters.network.eval()
    shared = is_vmapped and all(run.tasks is runs[0].tasks for run in runs)
    state = parameters.state()
    columns = []  # one for each task, [2, R]: mean loss, accuracy
    for t in range(len(runs[0].tasks)):
        if shared:
            columns.append(_scores(parameters, state, t, runs[0].tasks[t], split, is_vmapped=True))
            continue
        rows = [{name: value[r] for name, value in state.items()} for r in range(len(runs))]
        scores = [
            _scores(parameters, row, t, run.tasks[t], split, is_vmapped=False)
            for row, run in zip(rows, runs, strict=True)
        ]
        columns.append(torch.cat(scores, dim=1))
    parameters.network.train()
    losses, accuracies = torch.stack(columns, dim=2).cpu().double().numpy()  # [R, T] each
    classifies = not np.isnan(accuracies).all()
    return [
        Evaluation(split=split, losses=losses[r], accuracies=accuracies[r] if classifies else None)
        for r in range(len(runs))
    ]


def _scores(
    parameters: FlatParameters,
    state: dict[str, Tensor],
    index: int,
    task: Task,
    split: str,
    is_vmapped: bool,
) -> Tensor:
    """Returns mean loss and accuracy, NaN in a regression, of one task, ``[2, R]``."""
    examples = task.split(split)
    assert examples is not None
    total = torch.zeros(2, parameters.n_runs if is_vmapped else 1, device=parameters.device)
    n_known = 0  # examples, or labels where an example has several
    for x, y in _batches(examples, parameters):
        has_labels = task.is_classification and y.ndim > 1
        n = int((y != UNKNOWN).sum()) if has_labels else len(y)
        n_known += n

        def one(state: dict[str, Tensor], x: Tensor = x, y: Tensor = y, n: int = n) -> Tensor:
            outputs = widened(functional_call(parameters.network, state, (x, index)))[: len(y)]
            loss = task.loss_function(outputs, y) * n
            if not _has_classes(task, outputs):
                return torch.stack([loss, torch.full_like(loss, torch.nan)])
            n_correct = (outputs.argmax(dim=1) == y).sum()  # a label of -100 never is
            return torch.stack([loss, n_correct.to(loss.dtype)])

        total += (
            vmap(one, randomness="different")(state).T if is_vmapped else one(state).unsqueeze(1)
        )
    return total / n_known


def _has_classes(task: Task, outputs: Tensor) -> bool:
    """Tells whether there is an output for each class: one logit alone has no largest."""
    return task.is_classification and (task.n_outputs == 1 or outputs.shape[1:2] != (1,))


def _batches(split: Split, parameters: FlatParameters) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields inputs and targets; behind the last inputs there may be some without a target."""
    size = max(64, EXAMPLES_AT_ONCE[parameters.device.type] // parameters.n_runs)
    fills = FILLED_UP[parameters.device.type] and not _compares_examples(parameters.network)
    rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
    for part in rows.split(size):
        length = min(size, 2 ** (len(part) - 1).bit_length()) if fills else len(part)
        filled = torch.cat([part, part[:1].expand(length - len(part))])
        found = split.inputs[filled].to(parameters.device)
        keep = parameters.network.accepted_dtypes
        x = preprocess(found, split.permutation, split.scale, keep=keep)
        y = split.targets[part].to(parameters.device)
        x = rounded(x, parameters.mixed_precision)
        yield x, y if y.is_floating_point() else y.long()


def _compares_examples(network: nn.Module) -> bool:
    """Tells whether outputs depend on the rest of the batch, in torch's own modules at least."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return any(norm.running_mean is None for norm in norms)
