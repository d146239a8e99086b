"""Runs one after another; within a CUDA graph, on streams of their own."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._ops import has_streams, keep_for_capture, on_streams
from ._penalties import Budgets

if TYPE_CHECKING:
    from ._batch import Batch
    from ._forward import Forward


class RunByRun:
    """Computes the losses of ``R`` runs each on its own; a task is a tensor or a number."""

    def __init__(self, forward: "Forward", *, task_is_tensor: bool) -> None:
        self._forward = forward
        self._task_is_tensor = task_is_tensor
        self._budgets = forward.penalties.budgets_on(forward.parameters.device)

    def __call__(self, learnt: Sequence[Tensor], batch: "Batch") -> tuple[Tensor, Tensor]:
        """Returns each run's losses and charges, ``[R]`` each; ``[R, T]`` in a joint step."""
        of_run, arguments = self._forward.of_run, self._arguments(learnt, batch)
        if has_streams():
            calls = [partial(of_run, *own) for own in arguments]
            results = on_streams(calls, [batch.inputs, *batch.targets])
        else:
            results = []
            for own in arguments:  # a plain loop: a frame less to follow
                results.append(of_run(*own))
        losses, charges = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(charges)

    def first(self, batch: "Batch") -> None:
        """Computes the first run alone."""
        self._forward.of_run(*self._arguments((), batch)[0])

    def _arguments(self, learnt: Sequence[Tensor], batch: "Batch") -> list[tuple[Any, ...]]:
        states = self._forward.parameters.states("network.", learnt)
        for state in states:
            keep_for_capture(state.values())
        tasks = batch.tasks.unbind(0) if self._task_is_tensor else batch.tasks.tolist()
        return [
            (
                states[run],
                *batch.part(run, tasks[run]),
                Budgets(*(part[run] for part in self._budgets)),
                run,
            )
            for run in range(len(states))
        ]
