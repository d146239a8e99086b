"""What a trained network gives for examples: a task's outputs, or losses and metrics by task."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import Dataset

from .._checks import check_choice, check_count, described, first_line, is_list_of
from .._engine import FlatParameters
from ..modules import TaskNetwork, as_network
from ..tasks import (
    GeneratedDataset,
    IndexedExamples,
    Split,
    Stream,
    Task,
    as_dicts,
    as_inputs,
    as_source,
    check_names,
    on_device,
    preprocess,
    two_examples,
)
from ._diagnostics import in_words, is_told
from ._evaluation import evaluate_tasks
from ._result import EvaluationResult

_FORMS = (
    "`inputs` should be an array, a dict or a tuple of arrays, a dataset, or whatever gives "
    "batches, such as a DataLoader."
)
_TABLES = " `TableTasks.transform` makes inputs of the rows of a table."


@torch.no_grad()
def predict(network: nn.Module, inputs: Any, task: int | str, *, batch_size: int = 1_024) -> Tensor:
    """Returns a task's outputs for inputs, on the CPU; the network computes them as in evaluation.

    >>> from torch import nn, randn
    >>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, predict
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(1, 2))
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 3)})
    >>> predict(network, randn(5, 8), "a").shape
    torch.Size([5, 3])
    >>> predict(network, [randn(5, 8), randn(2, 8)], "a").shape  # two batches
    torch.Size([7, 3])

    Args:
        network: A network, or any module with modular layers in it.
        inputs: An array, or a dict or a tuple of arrays, with the examples in front; a split or a
            dataset of a task; or what gives batches: a `DataLoader`, an iterable, a function that
            returns an iterator. A batch is an array or a dict of inputs; or, as in training, a pair
            of inputs and targets or a dict with "labels", of which targets are left out.
        task: Its name or its index.
        batch_size: Examples at a time; a loader has its own.
    """
    check_count("batch_size", batch_size)
    whole = as_network(network)
    index = int(whole.task_index(task))
    device = _device(network)
    was_training = network.training
    network.eval()
    try:
        parts = [
            _outputs(whole, index, on_device(part, device)) for part in _parts(inputs, batch_size)
        ]
    finally:
        network.train(was_training)
    shapes = dict.fromkeys(tuple(part.shape[1:]) for part in parts)
    if len(shapes) != 1:
        found = " and ".join(str(["B", *shape]) for shape in shapes) or "no batch"
        raise ValueError(f"`inputs` should give outputs of one shape. Found {found}.")
    return torch.cat(parts)


def _outputs(network: TaskNetwork, task: int, part: Any) -> Tensor:
    """Returns the outputs for a batch; inputs that the network does not take are told of."""
    try:
        y: Tensor = network(_as_in_training(part, network), task).cpu()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a user's module raises
        raise ValueError(
            f"`inputs` should be such as the network takes for task {network.task_names[task]!r}. "
            f"Found inputs {in_words(part)}: {first_line(error)}"
        ) from error
    return y


def _as_in_training(inputs: Any, network: TaskNetwork) -> Any:
    """Returns inputs as `fit` gives them to a network; one array of bytes is an image."""
    if isinstance(inputs, Tensor):
        return preprocess(inputs, None, 1.0, keep=network.accepted_dtypes)
    return as_inputs(inputs)


def _parts(inputs: Any, size: int) -> Iterator[Any]:
    """Yields the inputs of one batch after another, as tensors."""
    if isinstance(inputs, Tensor | np.ndarray | Mapping | tuple):
        yield from _parts_of_arrays(inputs, size)
    elif isinstance(inputs, str) or hasattr(inputs, "columns"):
        raise TypeError(f"{_FORMS} Found {described(inputs)}." + _TABLES)
    elif _is_indexed(inputs):
        yield from _parts_by_position(as_source(inputs), size)
    elif isinstance(inputs, Iterable) or _is_function(inputs):
        made = inputs if isinstance(inputs, Iterable) else inputs()
        if not isinstance(made, Iterable):
            raise TypeError(f"{_FORMS} Found a function that returned {described(made)}.")
        yield from (_as_tensors(_inputs_of(batch)) for batch in made)
    else:
        raise TypeError(f"{_FORMS} Found {described(inputs)}.")


def _is_function(inputs: Any) -> bool:
    return callable(inputs) and not isinstance(inputs, type | nn.Module | BuiltinFunctionType)


def _is_indexed(inputs: Any) -> bool:
    """Tells whether these are examples that are fetched by position: a split, or a dataset."""
    is_dataset = isinstance(inputs, Dataset) and isinstance(inputs, Sized)
    return is_dataset or isinstance(inputs, Split | IndexedExamples)


def _inputs_of(batch: Any) -> Any:
    """Returns the inputs of a batch, without targets."""
    if isinstance(batch, Tensor | np.ndarray):
        return batch
    if isinstance(batch, Mapping) and batch:
        return {name: part for name, part in batch.items() if name != "labels"}
    if isinstance(batch, tuple | list) and len(batch) in (1, 2):
        return batch[0]
    raise ValueError(
        "A batch should be inputs, a pair of inputs and targets, or a dict of inputs. "
        f"Found {described(batch)}."
    )


def _as_tensors(inputs: Any) -> Any:
    try:
        return tree_map(torch.as_tensor, as_dicts(inputs))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{_FORMS} Found {described(inputs)} that holds no numbers.") from error


def _parts_of_arrays(inputs: Any, size: int) -> Iterator[Any]:
    arrays = _as_tensors(inputs)
    shapes = [tuple(array.shape) for array in tree_leaves(arrays)]
    lengths = {shape[:1] for shape in shapes}
    if len(lengths) != 1 or lengths == {()}:
        raise ValueError(
            "`inputs` should have the examples in front, as many in each array. "
            f"Found shapes {', '.join(str(list(shape)) for shape in shapes) or 'of no array'}."
        )
    ((n,),) = lengths
    for first in range(0, max(n, 1), size):
        yield tree_map(lambda array, at=first: array[at : at + size], arrays)


def _parts_by_position(examples: Any, size: int) -> Iterator[Any]:
    assert isinstance(examples, Split | IndexedExamples)
    for rows in torch.arange(len(examples)).split(size):
        yield examples.fetch(rows)[0]


def _device(network: nn.Module) -> torch.device:
    return next((p.device for p in network.parameters()), torch.device("cpu"))


def evaluate(
    network: nn.Module, tasks: Sequence[Task], split: str = "test", *, seed: int = 0
) -> EvaluationResult:
    """Returns losses, accuracies and metrics by task, as `fit` has them at its end.

    It is computed where the network lies. The network stays as it is.

    >>> from torch import nn, randn
    >>> from allotment import ModularLayer, MultiTaskNetwork, SharedBottom, Task, evaluate
    >>> layer = ModularLayer([nn.Identity()], SharedBottom(2, 1))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["same", "twice"])
    >>> x = randn(9, 1).sign()
    >>> print(evaluate(network, [Task("same", (x, x), test=(x, x))]))
    task  test loss
    same          0
    >>> evaluate(network, [Task("twice", (x, 2 * x))], split="train").by_task()
    {'twice': {'loss': 1.0}}

    Args:
        network: A network, or any module with modular layers in it.
        tasks: All of its tasks, or some of them, found by their names where it has names.
        split: "test", "validation" or "train". Tasks without it have NaN.
        seed: Of what is drawn, where an allocation draws in evaluation too.
    """
    _check_asked_for(tasks, split)
    whole = as_network(network, [task.name for task in tasks])
    places = {_place(whole, task, at): task for at, task in enumerate(tasks)}
    parameters = FlatParameters([whole], _device(network))
    for task in tasks:
        _check_can_be_gone_through(task, split)
    try:
        found = evaluate_tasks(parameters, places, split, seed)
    except Exception as error:  # whatever a user's module, loss or metric raises
        if not is_told(error) and not isinstance(error, torch.OutOfMemoryError):
            _explain(parameters.network, places, split)
        raise
    return EvaluationResult(
        split=split,
        task_names=tuple(task.name for task in tasks),
        losses=found.losses,
        accuracies=found.accuracies,
        metrics=found.metrics,
    )


def _check_asked_for(tasks: Sequence[Task], split: str) -> None:
    """Raises unless there is something to evaluate."""
    check_choice("split", split, ["train", "validation", "test"])
    if not is_list_of(tasks, Task):
        raise TypeError(f"`tasks` should be a list of Task. Found {described(tasks)}.")
    check_names(tasks)
    if all(task.held_out(split) is None for task in tasks):
        raise ValueError(f"Some task should have examples for `split = {split!r}`. Found none.")


def _place(network: TaskNetwork, task: Task, at: int) -> int:
    """Returns the index of a task in a network, which may have no names."""
    index = network.task_index(task.name if network.has_names else at)
    assert isinstance(index, int)
    return index


def _check_can_be_gone_through(task: Task, split: str) -> None:
    """Raises where examples are drawn anew for every batch, or can be gone through only once."""
    examples = task.held_out(split)
    is_once = isinstance(examples, Stream) and examples.is_once
    if is_once or isinstance(examples, GeneratedDataset):
        found = examples.source if isinstance(examples, Stream) else examples
        raise ValueError(
            f"Task {task.name!r}: `{split}` should be examples that can be gone through, and "
            f"again. Found {described(found)}."
        )


@torch.no_grad()
def _explain(network: TaskNetwork, tasks: Mapping[int, Task], split: str) -> None:
    """Raises with the first task whose examples the network or its loss does not take."""
    for place, task in tasks.items():
        examples = task.held_out(split)
        if examples is None:
            continue
        x, y = two_examples(examples)
        try:
            outputs = _outputs(network, place, on_device(x, _device(network)))
            task.loss_function(outputs, on_device(y, torch.device("cpu")))
        except Exception as error:
            raise ValueError(
                f"Task {task.name!r}, {split}: the network and the loss should take its examples. "
                f"Found inputs {in_words(x)} and targets {in_words(y)}: {first_line(error)}"
            ) from error
