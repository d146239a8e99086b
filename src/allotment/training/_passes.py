"""The losses of several runs, each on its own batch, as one tensor program where possible."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils.flop_counter import FlopCounterMode

from .._checks import first_line
from ..network import MultiTaskNetwork, Noise, SameConv2d, keep_for_capture, side_by_side
from ._charges import Budgets, Charges
from ._forms import Forms
from ._precision import rounded, widened
from ._python_state import PythonState
from ._replicas import Replicas, Within
from ._run import Run

# Runs whose pass has so many floating-point operations go side by side in place of being batched,
# where each would be a group of one convolution. Our own convolutions are not batched like that;
# those by kernels do not count at all.
LARGE = 1_000_000_000


class Batch(NamedTuple):
    """What one step of ``R`` runs is computed from; every tensor has the runs in front.

    In a joint step the tasks come second, ``[R, T, ...]``.
    """

    tasks: Tensor  # [R]
    inputs: Tensor  # [R, B, ...]
    targets: tuple[Tensor, ...]  # [R, B, ...] of every layout; the task's own counts
    noise: Noise  # [R, C] and [R, B, D]


class Passes:
    """Computes the losses of ``R`` runs.

    The runs stand at different tasks in the same step, so a task is a tensor here. That needs
    linear heads (or none) and few forms of loss and target. Where it cannot be had, or where a
    component cannot be batched, the runs are computed one after another, and a warning says why.
    Runs of a large network are computed side by side by choice, unless its convolutions are ours.
    """

    def __init__(self, runs: Sequence[Run], replicas: Replicas, charges: Charges) -> None:
        self._replicas = replicas
        self._charges = charges
        self._budgets = Budgets(*(values.to(replicas.device) for values in charges.budgets))
        self._scope = runs[0].settings.budget_scope
        self._within = Within(replicas.network)
        self._forms = Forms(runs, replicas.network, replicas.device)
        self._reason = _why_not_by_tensor(replicas.network) or self._forms.why_not_by_tensor()
        self.by_tensor = not self._reason  # whether a task is a tensor, or a Python number
        self.together = len(runs) > 1 and self.by_tensor
        self._is_joint = runs[0].settings.schedule == "joint"
        self.n_operations = 0  # floating-point operations of a pass of all runs
        self.what_differs = ""  # from pass to pass, in Python itself

    def __call__(self, learnt: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns each run's losses and penalties, ``[R]`` each; ``[R, T]`` in a joint step."""
        one = self._tasks_of_one if self._is_joint else self._one
        if self.together:
            state = self._replicas.state("network.", learnt)
            keep_for_capture(state.values())
            arguments = (state, *batch, self._budgets)
            in_dims = (0, 0, 0, 0, _noise_dims(batch.noise), 0)
            passes: tuple[Tensor, Tensor] = vmap(one, in_dims=in_dims, randomness="different")(
                *arguments
            )
            return passes
        calls = [partial(one, *own) for own in self._apart(learnt, batch)]
        results = side_by_side(calls, [batch.inputs, *batch.targets])
        losses, penalties = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(penalties)

    @torch.no_grad()
    def check(self, batch: Batch) -> None:
        """Finds out how the runs are best computed, and warns where they cannot be as one."""
        together, self.together = self.together, False
        by_tensor, self.by_tensor = self.by_tensor, self.by_tensor and self._forms.are_one
        python = PythonState(self._replicas.network)
        with FlopCounterMode(display=False) as counter:
            # A mistake in the network or its data is seen here, as it is.
            self._first_alone(batch)
        self.by_tensor = by_tensor
        self.what_differs = python.what_changed()
        n_operations = counter.get_total_flops()
        self.n_operations = n_operations * self._replicas.n_runs
        is_small = n_operations < LARGE
        self.together = together and (is_small or goes_in_step(self._replicas))
        if self.together:
            reason = self._why_not_batched(batch)
            self.together = not reason
            self._reason = reason if is_small else ""  # large ones go side by side as well
        python.put_back()
        if self._reason and self._replicas.n_runs > 1:
            warnings.warn(f"Training one run at a time: {self._reason}", stacklevel=2)

    @property
    def can_be_recorded(self) -> bool:
        """Whether every pass is the same operations on other numbers, as far as is known."""
        as_chosen = self._replicas.n_runs == 1 or not self._reason
        is_same = not self._replicas.keeps_statistics and not self.what_differs
        return self.by_tensor and as_chosen and is_same

    def go_unrecorded(self) -> None:
        """Computes each batch by the loss of its task alone, where runs are not one program."""
        self.by_tensor = self.by_tensor and (self.together or self._forms.are_one)

    def _first_alone(self, batch: Batch) -> None:
        one = self._tasks_of_one if self._is_joint else self._one
        one(*self._apart((), batch)[0])

    def _why_not_batched(self, batch: Batch) -> str:
        try:
            self((), batch)
        except Exception as error:  # whatever a user's component or loss raises
            return f"a component or a loss cannot be batched over runs ({first_line(error)})"
        return ""

    def _tasks_of_one(
        self,
        state: dict[str, Tensor],
        tasks: list[int] | Tensor,
        x: Tensor,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Returns one run's losses and penalties for a batch of every task, ``[T]`` each."""
        if isinstance(tasks, Tensor):
            in_dims = (None, 0, 0, 0, _noise_dims(noise), None)
            batched = vmap(partial(self._one, run=run), in_dims=in_dims, randomness="different")
            passes: tuple[Tensor, Tensor] = batched(state, tasks, x, y, noise, budgets)
            return passes
        results = [
            self._one(state, task, x[i], _parts(y, i), _part(noise, i), budgets, run)
            for i, task in enumerate(tasks)
        ]
        losses, penalties = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(penalties)

    def _one(
        self,
        state: dict[str, Tensor],
        task: int | Tensor,
        x: Tensor,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        def loss() -> Tensor:
            def outputs_of(network: MultiTaskNetwork) -> Tensor:
                outputs: Tensor = network(rounded(x, self._replicas.precision), task, noise=noise)
                return widened(outputs)

            outputs = functional_call(self._within, state, (outputs_of,))
            return self._forms.loss(outputs, y, task, run)

        def penalty() -> Tensor:
            def probabilities_of(network: MultiTaskNetwork) -> Tensor:
                return network.probabilities(None if self._scope == "global" else task)

            probabilities = functional_call(self._within, state, (probabilities_of,))
            return self._charges(probabilities, budgets, self._replicas.n_batches)

        if not self._charges.any:
            alone = loss()
            return alone, torch.zeros_like(alone)
        if not self.together and self._replicas.n_runs > 1:
            return loss(), penalty()  # the runs have the streams, and need them for their branches
        # Penalties are many small operations that need nothing of the pass.
        both = side_by_side([loss, penalty], [], undivided=[1])
        return both[0], both[1]

    def _apart(self, learnt: Sequence[Tensor], batch: Batch) -> list[tuple[Any, ...]]:
        """Returns the arguments of each run on its own."""
        states = self._replicas.states("network.", learnt)
        for state in states:
            keep_for_capture(state.values())
        tasks, x, y, noise = batch
        numbers = tasks.unbind(0) if self.by_tensor else tasks.tolist()
        return [
            (
                states[run],
                numbers[run],
                x[run],
                _parts(y, run),
                _part(noise, run),
                Budgets(*(part[run] for part in self._budgets)),
                run,
            )
            for run in range(self._replicas.n_runs)
        ]


def goes_in_step(replicas: Replicas) -> bool:
    """Tells whether large runs are batched all the same: on a GPU, if all convolutions are ours.

    Others would make each run a group of channels. Those that are not modules are not seen.
    """
    modules = replicas.network.modules()
    kinds = {type(module) for module in modules if isinstance(module, nn.modules.conv._ConvNd)}
    return replicas.device.type == "cuda" and kinds == {SameConv2d}


def _noise_dims(noise: Noise) -> Any:
    """Returns where `vmap` finds the dimension to batch over: in front."""
    return Noise(*(None if part is None else 0 for part in noise))  # type: ignore[arg-type]


def _part(noise: Noise, index: int) -> Noise:
    return Noise(*(None if part is None else part[index] for part in noise))


def _parts(targets: Sequence[Tensor], index: int) -> tuple[Tensor, ...]:
    return tuple(part[index] for part in targets)


def _why_not_by_tensor(network: MultiTaskNetwork) -> str:
    """Returns why a task cannot be a tensor for this network, or nothing."""
    if isinstance(network.heads, nn.ModuleList):
        return "heads that are not all linear, of one width in, take the task as a Python number."
    return ""
