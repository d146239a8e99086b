"""Two examples sent through a network part by part, to say which part does not take them."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import described, first_line
from .._engine import Run, why_fetched
from .._streams import torch_stream
from ..modules import ModularLayer, MultiTaskNetwork, TaskNetwork, for_task
from ..tasks import Task, TaskLabels, two_examples

_INTEGERS = ". Integer inputs stay integers: make them floating-point where they are numbers."


@torch.no_grad()
def outputs_of(network: TaskNetwork, x: Tensor, seed: int) -> list[Tensor]:
    """Returns each task's outputs for inputs on the CPU, all components being tried on the way.

    Raises with the name of the first part that does not take what it is given. The network is
    left as it is.
    """
    network = deepcopy(network).cpu().eval()
    # Parts that differ by task, beside the components of modular layers, are tried for the first.
    with torch_stream(seed, "trial"), for_task(0):
        if not isinstance(network, MultiTaskNetwork):
            tasks = enumerate(network.task_names)
            return [
                _through(partial(network, task=t), f"the model for task {n!r}", x) for t, n in tasks
            ]
        x = _through(network.stem, "the stem", x)
        for index, layer in enumerate(network.layers):
            if not isinstance(layer, ModularLayer):
                x = _through(layer, f"`layers[{index}]` ({type(layer).__name__})", x)
                continue
            outputs = []
            for position, component in enumerate(layer.components):
                name = f"component {position} ({layer.names[position]}) of `layers[{index}]`"
                outputs.append((position, _through(component, name, x)))
            layer.check_shapes(outputs)
            x = outputs[-1][1]
        if not isinstance(network.heads, nn.ModuleList):
            return [x] * network.n_tasks
        outputs_by_task = []
        for task, name in enumerate(network.task_names):
            network.heads.check_takes(x, task)
            outputs_by_task.append(_through(network.heads[task], f"the head of task {name!r}", x))
        return outputs_by_task


def explain(run: Run) -> None:
    """Raises where a part of the network, or a loss, does not take what it is given.

    To be called when a pass has failed, since its own error seldom says where.
    """
    check_weights(run.network, run.seed)
    if why_fetched(run.tasks):  # each task has inputs of its own
        network = deepcopy(run.network).cpu().eval()
        with torch_stream(run.seed, "trial"), torch.no_grad():
            outputs = [
                _through(
                    partial(network, task=index),
                    f"the network, for task {task.name!r},",
                    two_examples(task.train)[0],
                )
                for index, task in enumerate(run.tasks)
            ]
    else:
        outputs = outputs_of(run.network, two_examples(run.tasks[0].train)[0], run.seed)
    for task, y in zip(run.tasks, outputs, strict=True):
        targets = two_examples(task.train)[1]
        try:
            task.loss_function(y, targets)
        except Exception as error:  # whatever a user's loss raises
            raise ValueError(
                f"The loss of task {task.name!r} should take the network's outputs and the task's "
                f"targets. Found outputs {in_words(y)} and targets {in_words(targets)}: "
                f"{first_line(error)}{of_one_kind(task)}"
            ) from error


@torch.no_grad()
def check_matrices(network: TaskNetwork, seed: int) -> None:
    """Raises unless the matrix of each allocation, such as one of a user's own, is as it says."""
    for layer in network.modular_layers:
        own = layer.allocation
        with torch_stream(seed, "trial"):
            matrix = own.matrix()
        shape = [own.n_tasks, own.n_components]
        if not isinstance(matrix, Tensor) or list(matrix.shape) != shape:
            raise ValueError(
                f"`matrix()` of {type(own).__name__} should be a tensor of shape [T, C], {shape}. "
                f"Found {_shape_of(matrix)}."
            )
        strange = matrix[(matrix != 0) & (matrix != 1)]
        if own.is_binary and len(strange):
            raise ValueError(
                f"`matrix()` of {type(own).__name__} should hold 0 and 1, or `is_binary = False` "
                f"say that it holds shares. Found {float(strange[0]):.4g}."
            )


@torch.no_grad()
def check_weights(network: TaskNetwork, seed: int) -> None:
    """Raises unless each allocation gives a weight for each component, where no example is seen."""
    for layer in network.modular_layers:
        own = deepcopy(layer.allocation).cpu().train()
        name, n = type(own).__name__, own.n_components
        if own.sees_examples:
            continue
        try:
            with torch_stream(seed, "trial"):
                weights = own.weights(0, noise=torch.rand(own.n_noise) if own.n_noise else None)
        except Exception as error:  # whatever a user's allocation raises
            raise ValueError(
                f"`weights` of {name} should take a task and its draws, which are None unless "
                f"`n_noise` says how many. Found `n_noise = {own.n_noise}`: {first_line(error)}."
            ) from error
        if not isinstance(weights, Tensor) or list(weights.shape) != [n]:
            raise ValueError(
                f"`weights` of {name} should be one for each component, a tensor of shape [{n}]. "
                f"Found {_shape_of(weights)}."
            )


def _shape_of(found: Any) -> str:
    return f"shape {list(found.shape)}" if isinstance(found, Tensor) else described(found)


def of_one_kind(task: Task) -> str:
    """Returns a hint for targets that are a column of a tensor; nothing for others."""
    if not isinstance(task.train, TaskLabels) or not task.train.shared.names:
        return ""
    return (
        " The columns of one tensor are of one kind; where tasks classify and predict numbers, "
        "targets are a dict by task."
    )


def is_told(error: Exception) -> bool:
    """Tells whether an error is one of this package's own sentences, which say enough."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return isinstance(error, ValueError) and place.startswith("allotment.")


def in_words(x: Any) -> str:
    """Returns shape and type in words; the number of examples is `B`."""
    if not isinstance(x, Tensor):
        named = x.items() if isinstance(x, Mapping) else enumerate(x) if _is_many(x) else ()
        parts = [f"{name!r} {in_words(part)}" for name, part in named]
        return f"with {', '.join(parts)}" if parts else f"that is {described(x)}"
    sizes = ", ".join(["B", *map(str, x.shape[1:])])
    return f"of shape [{sizes}] ({str(x.dtype).removeprefix('torch.')})"


def _is_many(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _through(module: Callable[[Any], Tensor], name: str, x: Any) -> Tensor:
    try:
        y: Tensor = module(x)
    except Exception as error:  # whatever a user's module raises
        raise ValueError(
            "Each part of a network should take what the part before it gives. "
            f"Found {name} with an input {in_words(x)}: {first_line(error).rstrip('.')}"
            + (_INTEGERS if getattr(x, "dtype", None) in (torch.int32, torch.int64) else ".")
        ) from error
    if not isinstance(y, Tensor):
        raise ValueError(
            f"Each part of a network should give one tensor. Found {described(y)} from {name}."
        )
    return y
