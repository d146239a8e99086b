"""The losses of several runs, each on its own batch, as one tensor program where possible."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils.flop_counter import FlopCounterMode

from .._checks import first_line
from ..network import MultiTaskNetwork, Noise
from ._charges import Budgets, Charges
from ._replicas import Replicas
from ._run import Run


class Batch(NamedTuple):
    """What one step of ``R`` runs is computed from; every tensor has the runs in front."""

    tasks: Tensor  # [R]
    inputs: Tensor  # [R, B, ...]
    targets: Tensor  # [R, B, ...]
    noise: Noise  # [R, C] and [R, B, D]


class _Forward(nn.Module):
    """A pass that also tells the probabilities which the penalties need."""

    def __init__(self, network: MultiTaskNetwork, *, scope: str, tells: bool) -> None:
        super().__init__()
        self.network = network
        self.scope = scope
        self.tells = tells

    def forward(self, x: Tensor, task: int | Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        y = self.network(x, task, noise=noise)
        if not self.tells:
            return y, y.new_zeros(())
        return y, self.network.probabilities(None if self.scope == "global" else task)


class Passes:
    """Computes the losses of ``R`` runs.

    The runs stand at different tasks in the same step, so a task is a tensor here. That needs
    linear heads (or none) and one loss. Where it cannot be had, or where a component cannot be
    batched, the runs are computed one after another, and a warning says why.
    """

    def __init__(self, runs: Sequence[Run], replicas: Replicas, charges: Charges) -> None:
        self._replicas = replicas
        self._charges = charges
        self._budgets = Budgets(*(values.to(replicas.device) for values in charges.budgets))
        scope = runs[0].settings.budget_scope
        self._forward = _Forward(replicas.network, scope=scope, tells=charges.any)
        self._losses = [[task.loss_function for task in run.tasks] for run in runs]
        self._reason = _why_not_by_tensor(runs, replicas.network)
        self.by_tensor = not self._reason  # whether a task is a tensor, or a Python number
        self.together = len(runs) > 1 and self.by_tensor
        self.n_operations = 0  # floating-point operations of a pass of all runs

    def __call__(self, learnt: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns each run's loss and penalties, ``[R]`` and ``[R]``."""
        arguments = (self._replicas.state("network.", learnt), *batch, self._budgets)
        if self.together:
            noise_dims: Any = [None if part is None else 0 for part in batch.noise]
            one = vmap(
                self._one, in_dims=(0, 0, 0, 0, Noise(*noise_dims), 0), randomness="different"
            )
            passes: tuple[Tensor, Tensor] = one(*arguments)
            return passes
        results = [self._one(*one) for one in self._apart(arguments)]
        losses, penalties = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(penalties)

    def check(self, batch: Batch) -> None:
        """Tries whether the runs can be computed as one, and warns where they cannot."""
        with FlopCounterMode(display=False) as counter:
            self._try(batch)
        self.n_operations = counter.get_total_flops()

    def _try(self, batch: Batch) -> None:
        if self.together:
            self._reason = self._why_not_batched(batch)
            self.together = not self._reason
        else:
            with torch.no_grad():
                self((), batch)  # a mistake in the network or its data is seen here, as it is
        if self._reason and self._replicas.n_runs > 1:
            warnings.warn(f"Training one run at a time: {self._reason}", stacklevel=2)

    @property
    def can_be_recorded(self) -> bool:
        """Whether every pass is the same operations on other numbers, as far as is known."""
        alone_by_choice = self._replicas.n_runs == 1 or self.together
        return self.by_tensor and alone_by_choice and not self._replicas.keeps_statistics

    def _why_not_batched(self, batch: Batch) -> str:
        try:
            with torch.no_grad():
                self((), batch)
        except Exception as error:  # whatever a user's component raises
            self.together = False
            with torch.no_grad():
                self((), batch)  # an error that a lone run meets too is the user's to see
            return f"a component cannot be batched over runs ({first_line(error)})"
        return ""

    def _one(
        self,
        state: dict[str, Tensor],
        task: int | Tensor,
        x: Tensor,
        y: Tensor,
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        outputs, probabilities = functional_call(self._forward, state, (x, task, noise))
        loss = self._losses[run][task if isinstance(task, int) else 0](outputs, y)
        if not self._charges.any:
            return loss, torch.zeros_like(loss)
        return loss, self._charges(probabilities, budgets, self._replicas.step)

    def _apart(self, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Returns the arguments of each run on its own; `unbind` keeps their gradients cheap."""
        state, tasks, x, y, noise, budgets = arguments
        rows = {name: value.unbind(0) for name, value in state.items()}
        numbers = tasks.unbind(0) if self.by_tensor else tasks.tolist()
        return [
            (
                {name: parts[run] for name, parts in rows.items()},
                numbers[run],
                x[run],
                y[run],
                Noise(*(None if part is None else part[run] for part in noise)),
                Budgets(*(part[run] for part in budgets)),
                run,
            )
            for run in range(self._replicas.n_runs)
        ]


def _why_not_by_tensor(runs: Sequence[Run], network: MultiTaskNetwork) -> str:
    """Returns why a task cannot be a tensor for these runs, or nothing."""
    heads = network.heads
    if isinstance(heads, nn.ModuleList):
        return "heads that are not all linear, of one width in, take the task as a Python number."
    tasks = [task for run in runs for task in run.tasks]
    if len({task.loss_function for task in tasks}) > 1:
        return "tasks with different losses take the task as a Python number."
    if heads is not None and heads.is_padded and tasks[0].loss_function is not F.cross_entropy:
        return "heads of different widths, but for cross-entropy, take the task as a Python number."
    return ""
