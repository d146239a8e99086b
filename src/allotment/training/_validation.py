"""What is found out before the first step, and not in the middle of training."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import described, is_list_of
from .._engine import Run, check_alike, why_fetched
from ..modules import TaskNetwork
from ..tasks import UNKNOWN, Split, Stream, Task, TaskLabels, mean_squared_error, two_examples
from ._diagnostics import check_matrices, in_words, of_one_kind, outputs_of

_REGRESSION = " Whole numbers are taken for labels; numbers to predict should be floating-point."
_CLASSES = " Floating-point targets are numbers to predict; labels of classes should be integers."
_UNSEEN = (
    " The largest label of `train` decides `n_outputs`, unless `Task(n_outputs=...)` is given."
)


def check_device(device: torch.device | str) -> torch.device:
    """Returns the device; raises unless it is a CPU, or a GPU that is here.

    >>> check_device("cpu")
    device(type='cpu')
    """
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(
            "`device` should be 'cpu', 'cuda' or one of several, such as 'cuda:1'. "
            f"Found `device = {str(device)!r}`."
        )
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"`device` should be on this machine. Found {str(device)!r}, but no CUDA device."
        )
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(
            "`device` should be on this machine. "
            f"Found {str(device)!r}, but {torch.cuda.device_count()} CUDA devices."
        )
    return torch.device(device)


def check_runs(runs: Sequence[Run]) -> None:
    """Raises unless ``runs`` can train together, and their examples fit their networks.

    A task that several runs share is looked at once.
    """
    if not is_list_of(runs, Run):
        raise TypeError(f"`runs` should be a list of Run. Found {described(runs)}.")
    check_alike(runs)
    check_matrices(runs[0].network, runs[0].seed)
    outputs = _outputs(runs[0])
    seen = set()
    for run in runs:
        _check_all_last(run, is_alone=len(runs) == 1)
        if not any(parameter.requires_grad for parameter in run.network.parameters()):
            raise ValueError("A network should have parameters that learn. Found all frozen.")
        for index, (task, tried) in enumerate(zip(run.tasks, outputs, strict=False)):
            if (id(task), index) not in seen:
                seen.add((id(task), index))
                _check_held_out(run, task)
                _check_targets(task, _width(run.network, index, tried), tried)


def have_like_examples(a: Run, b: Run) -> bool:
    """Tells whether the examples of two runs go into one program as they go into two.

    They do where all are arrays of one kind, or all are generated; or where none of them lie on
    the device, so that each run fetches its own.
    """
    apart = [bool(why_fetched(run.tasks)) for run in (a, b)]
    return apart[0] == apart[1] and bool(why_fetched([*a.tasks, *b.tasks])) == apart[0]


def _outputs(run: Run) -> list[Tensor | None]:
    """Returns the network's outputs for two examples of each task; None where they are not needed.

    They are for widths that no linear head tells.
    """
    nothing: list[Tensor | None] = [None] * len(run.tasks)
    if why_fetched(run.tasks):
        return nothing
    is_needed = any(
        (_has_labels(task) or not task.is_classification)
        and _width(run.network, index, None) is None
        for index, task in enumerate(run.tasks)
    )
    if not is_needed:
        return nothing
    try:
        return [*outputs_of(run.network, two_examples(run.tasks[0].train)[0], run.seed)]
    except ValueError:  # told by the program's own trial, if it fails there too
        return nothing


def _width(network: TaskNetwork, task: int, tried: Tensor | None) -> int | None:
    """Returns how many outputs a network has for a task, where that is known."""
    head = network.heads[task] if isinstance(network.heads, nn.ModuleList) else None
    if isinstance(head, nn.Linear):
        return head.out_features
    return None if tried is None or tried.ndim < 2 else tried.shape[1]


def _has_labels(task: Task) -> bool:
    return task.is_classification and task.loss_function is F.cross_entropy


def _has_numbers(task: Task) -> bool:
    return task.loss_function is mean_squared_error


def _check_targets(task: Task, width: int | None, tried: Tensor | None) -> None:
    """Raises unless a network's outputs fit the targets of a task."""
    if width == 0:
        raise ValueError(
            f"The network should have an output at least for task {task.name!r}. Found 0 outputs, "
            f"and `n_outputs = {task.n_outputs}`; where examples are no arrays, "
            "`Task(n_outputs=...)` says how many there are."
        )
    if not isinstance(two_examples(task.train)[1], Tensor):
        return  # targets of any structure, for a loss of one's own
    _check_labels(task, width, tried)
    _check_numbers(task, width)
    _check_broadcast(task, width)


def _check_numbers(task: Task, width: int | None) -> None:
    """Raises unless a task has an output for each number of a target."""
    targets = two_examples(task.train)[1]
    if width is not None and _has_numbers(task) and width != targets[0].numel():
        raise ValueError(
            f"Task {task.name!r} should have an output for each number of a target. "
            f"Found {width} output{'s' * (width > 1)} and targets {in_words(targets)}."
            + (_CLASSES if targets[0].numel() == 1 else "")
            + of_one_kind(task)
        )


def _check_broadcast(task: Task, width: int | None) -> None:
    """Raises where a loss of one's own holds each output against the targets of all examples."""
    targets = two_examples(task.train)[1]
    if width != 1 or task.loss is None or targets.ndim != 1:
        return
    if targets.is_floating_point():
        outputs, targets = targets.new_tensor([[0.25], [0.75]]), targets.new_tensor([0.1, 0.9])
    else:
        outputs, targets = torch.tensor([[0.25], [0.75]]), targets.new_tensor([0, 1])
    columns = targets.unsqueeze(1)
    apart = [_tried(task, outputs[i : i + 1], columns[i : i + 1]) for i in range(2)]
    if apart[0] is None or apart[1] is None:
        return
    meant = (apart[0] + apart[1]) / 2
    # A loss that reshapes by itself fails with columns, and takes targets as they are given.
    if _is(meant, _tried(task, outputs, columns)) and not _is(
        meant, _tried(task, outputs, targets)
    ):
        raise ValueError(
            f"The loss of task {task.name!r} should hold each output against its own target. Found "
            "outputs of shape [B, 1] and targets of shape [B]; targets of shape [N, 1] would do."
        )


def _tried(task: Task, outputs: Tensor, targets: Tensor) -> Tensor | None:
    """Returns a task's loss, or None where it takes no such shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, on shapes that differ
        try:
            loss = task.loss_function(outputs, targets)
        except Exception:  # whatever a user's loss raises
            return None
    return loss if isinstance(loss, Tensor) else None


def _is(meant: Tensor, found: Tensor | None) -> bool:
    if found is None or found.shape != meant.shape or found.dtype != meant.dtype:
        return False
    return torch.allclose(meant, found)


def _check_labels(task: Task, width: int | None, tried: Tensor | None) -> None:
    """Raises unless all labels of a task are among the classes that it has outputs for."""
    if width is None or not _has_labels(task):
        return
    one_each = two_examples(task.train)[1]
    if one_each.ndim != 1 and not _are_by_place(one_each, tried):
        raise ValueError(
            f"Task {task.name!r} should have labels of shape [N], one for each example, or of "
            "shape [N, L] for outputs of shape [N, classes, L]. "
            f"Found targets {in_words(one_each)}."
        )
    for name in ("train", "validation", "test"):
        label = _label_beyond(_labels(task, name), width)
        if label is not None:
            hint = "" if name == "train" else _UNSEEN
            raise ValueError(
                f"Task {task.name!r} should have labels from 0 to {width - 1}, since the "
                f"network has {width} output{'s' * (width > 1)} for it. "
                f"Found the label {label} in `{name}`."
                + (_REGRESSION if width == 1 else hint)
                + of_one_kind(task)
            )


def _labels(task: Task, name: str) -> Tensor | None:
    """Returns the known labels of a split of arrays, or of the first batch to learn from."""
    split = task.split(name)
    if split is not None:
        labels = split.targets if split.rows is None else split.targets[split.rows]
        return labels[labels != UNKNOWN] if labels.ndim > 1 else labels
    if name != "train":
        return None
    first: Tensor = two_examples(task.train)[1]
    return first[first != UNKNOWN]


def _label_beyond(labels: Tensor | None, width: int) -> int | None:
    """Returns a label that is no class, if there is one."""
    if labels is None or not len(labels):
        return None
    ends = (int(labels.min()), int(labels.max()))
    return next((label for label in ends if not 0 <= label < width), None)


def _are_by_place(targets: Tensor, outputs: Tensor | None) -> bool:
    """Tells whether there is a label ``[B, L]`` for each place of outputs ``[B, classes, L]``."""
    return outputs is not None and outputs.shape[2:] == targets.shape[1:]


def _check_held_out(run: Run, task: Task) -> None:
    """Raises unless held-out examples are like those for training, as far as it matters."""
    is_fetched = bool(why_fetched([task]))
    with _told_of(task, "train"):
        inputs, targets = two_examples(task.train)
    for name in ("validation", "test"):
        split = task.held_out(name)
        if split is None:
            continue
        _check_lasts(f"Task {task.name!r}, {name}: ", split)
        with _told_of(task, name):
            x, y = two_examples(split)
        if not isinstance(targets, Tensor) or not isinstance(y, Tensor):
            continue  # targets of any structure, for a loss of one's own
        is_fetched = is_fetched or not isinstance(split, Split)
        if _form(targets, is_fetched) != _form(y, is_fetched):
            raise ValueError(
                f"Task {task.name!r} should have targets of one shape and kind in all splits. "
                f"Found {in_words(targets)} in `train` and {in_words(y)} in `{name}`."
            )
        if not is_fetched and x.shape != inputs.shape:
            # May be no mistake: some networks take images of any size.
            with _told_of(task, name):
                outputs_of(run.network, x, run.seed)


@contextmanager
def _told_of(task: Task, name: str) -> Iterator[None]:
    """Adds to what is raised of whose examples it is said."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Task {task.name!r}, {name}: {error}") from error


def _check_all_last(run: Run, *, is_alone: bool) -> None:
    """Raises where several runs, or several tasks of one, need examples that end."""
    is_shared = run.settings.schedule == "multi_label"
    for task in run.tasks:
        if not is_alone:
            _check_lasts(f"Task {task.name!r}, of several runs: ", task.train)
        elif isinstance(task.train, TaskLabels) and not is_shared:
            _check_lasts(f"Task {task.name!r}, of several that share: ", task.train)


def _check_lasts(where: str, examples: object) -> None:
    """Raises where examples can be gone through once, but are needed again."""
    source = examples.batches if isinstance(examples, TaskLabels) else examples
    if isinstance(source, Stream) and source.is_once:
        raise ValueError(
            f"{where}batches should be such as can be given again, as a function that returns an "
            f"iterator does. Found {described(source.source)}, which ends."
        )


def _form(targets: Tensor, is_fetched: bool) -> tuple[object, bool]:
    """Returns what targets of all splits have in common; lengths may differ where fetched."""
    return targets.ndim if is_fetched else targets.shape, targets.is_floating_point()
