"""The training step of ``R`` runs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from .._checks import first_line
from .._streams import torch_stream
from .._threads import one_thread
from ..settings import TrainingSettings
from ._batch import Block
from ._batches import Batches, DeviceBatches
from ._compact import compact, fill
from ._costs import gate_costs
from ._dataset import why_fetched
from ._forward import BalancingError, Forward, GradientPass
from ._optimizer import step_taker
from ._parameters import FlatParameters
from ._penalties import PenaltySchedule
from ._plan import (
    Choice,
    ExecutionPlan,
    choose_annealing,
    choose_runs,
    choose_task,
    choose_threads,
    first_pass,
    why_by_number,
    why_eager,
)
from ._recording import Gradients, GraphSteps, fastest_convolutions, traced
from ._run import Run
from ._run_by_run import RunByRun
from ._streaming import StreamedBatches
from ._updates import EMA, AllocationUpdates
from ._vmapped import Vmapped


class Trainer:
    """``R`` runs on a device, and the step that takes all of them further, as `plan` says.

    With ``is_over`` there are no steps to come, and none is recorded. ``resume_from`` are the
    tensors of a state that is to be loaded: what was measured then is not measured again.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        device: torch.device,
        *,
        is_over: bool = False,
        resume_from: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.settings = chosen = runs[0].settings
        self.device = device
        self.n_tasks = len(runs[0].tasks)
        self._seed = runs[0].seed  # of draws that modules make by themselves, such as dropout
        # How many task batches one step takes: in a joint one, a batch of every task.
        self._tasks_per_step = self.n_tasks if chosen.is_joint else 1
        networks = [run.network for run in runs]
        n_batches = chosen.rounds * self.n_tasks
        precision = chosen.execution.mixed_precision
        self.parameters = FlatParameters(networks, device, precision, n_batches=n_batches)
        learnt = dict(self.parameters.learnt())
        self._learnt = list(learnt.values())
        optimizations = [run.settings.optimization for run in runs]
        self._steps = step_taker(self.parameters, optimizations, n_batches, self._tasks_per_step)
        decay = chosen.optimization.ema_decay
        self._ema = EMA(self.parameters, decay, self._tasks_per_step) if decay else None
        self._gradient_pass = GradientPass(runs, device, list(learnt))
        self._updates = AllocationUpdates(self.parameters)
        kind = (
            StreamedBatches
            if why_fetched([task for run in runs for task in run.tasks])
            else DeviceBatches
        )
        self._batches: Batches = kind(runs, self.parameters.network, device)
        self._drawn = (0, self._batches.make(0))
        measured = (resume_from or {}).get("costs")
        self._costs = gate_costs(runs[0], device) if measured is None else measured.to(device)
        self._graph: GraphSteps | None = None
        self.plan = self._prepare(runs, n_batches, is_over)
        self.plan.warn()

    def _prepare(self, runs: Sequence[Run], n_batches: int, is_over: bool) -> ExecutionPlan:
        """Finds out how steps are best taken, and records one; what that moves is put back."""
        chosen, parameters = self.settings, self.parameters
        block = self._batches.here(self._drawn[1])
        tasks = [run.tasks for run in runs]

        def forward(shares_streams: bool, *, is_compiled: bool = False) -> Forward:
            return Forward(
                parameters,
                self._batches.losses(tasks, parameters.network),
                PenaltySchedule(runs, n_batches, self._costs),
                chosen.penalties.budget_scope,
                is_joint=self._tasks_per_step > 1,  # one task has nothing to be joined with
                shares_inputs=self._batches.shares_inputs,
                shares_streams=shares_streams,
                why_apart=self._batches.why_apart,
                is_compiled=is_compiled,
            )

        untouched = parameters.snapshot()
        remembered = {name: tensor.clone() for name, tensor in self._balancing_state().items()}
        with torch_stream(self._seed, "trial"), parameters.arithmetic(), fastest_convolutions():
            trial, batch = forward(False), self._batches.batch(block, 0)
            findings = first_pass(trial, batch)
            how_runs = choose_runs(trial, batch, findings)
            how_step = why_eager(chosen, trial, how_runs, findings, is_over)
            is_one = how_runs.value in ("alone", "vmapped")
            final = forward(is_one)
            if how_step is None:
                self._gradients = self._eager(final, how_runs, task_is_tensor=True)
                how_step = self._recorded(block)
            how_task = choose_task(final, how_runs, how_step)
            if how_step.value == "eager":
                by_tensor = how_task.value == "tensor"
                self._gradients = self._eager(final, how_runs, task_is_tensor=by_tensor)
            if _may_compile_pass(chosen, final, how_step):
                fused = self._eager(
                    forward(is_one, is_compiled=True), how_runs, task_is_tensor=False
                )
                how_step = self._tried(fused, how_step, block)
        parameters.restore(untouched)
        for name, tensor in self._balancing_state().items():
            tensor.copy_(remembered[name])
        if self._ema is not None:
            self._ema.restart()
        return ExecutionPlan(
            device=str(self.device),
            n_runs=len(runs),
            runs=how_runs,
            task=how_task,
            step=how_step,
            threads=choose_threads(self.device, findings.n_operations * len(runs)),
            annealing=choose_annealing(parameters.first_batch),
        )

    def _eager(self, forward: Forward, runs: Choice, *, task_is_tensor: bool) -> Gradients:
        """Returns the gradients of a batch as a function, by the strategy that was chosen."""
        strategy = (
            Vmapped(forward)
            if runs.value == "vmapped"
            else RunByRun(forward, task_is_tensor=task_is_tensor)
        )
        return partial(self._gradient_pass, strategy)

    def _tried(self, fused: Gradients, eager: Choice, block: Block) -> Choice:
        """Takes gradients whose passes are compiled, where that works; returns what came of it."""
        try:
            fused(self._learnt, self._batches.batch(block, 0))
        except BalancingError:
            raise
        except Exception as error:  # whatever a compiler raises
            reason = f"a pass cannot be compiled ({first_line(error)})."
            return Choice("eager", reason, is_slower=True)
        self._gradients = fused
        return Choice("compiled pass", f"a pass is fused, and no whole step: {eager.reason}")

    def _recorded(self, block: Block) -> Choice:
        """Records the step and returns what came of it."""
        compiles, on_cpu = self.settings.execution.compile, self.device.type == "cpu"
        if on_cpu or compiles:
            try:
                batch = self._batches.batch(block, 0)
                self._gradients = traced(self._gradients, self._learnt, batch, compiled=compiles)
            except BalancingError:
                raise
            except Exception as error:  # whatever a user's component raises while it is recorded
                return Choice("eager", first_line(error), is_slower=True)
        if on_cpu and compiles:
            return Choice("compiled", "recorded operations are fused.")
        return Choice("traced", "operations are replayed.") if on_cpu else self._captured(block)

    def _captured(self, block: Block) -> Choice:
        n_steps = len(block.tasks) // self._tasks_per_step
        shape = (n_steps, self.parameters.n_runs, self._tasks_per_step)
        untouched = self.parameters.snapshot()
        try:
            self._graph = GraphSteps(self._step, block, shape)
        except torch.OutOfMemoryError as error:
            error.add_note("Fewer runs at a time take less memory.")
            raise
        except RuntimeError as error:
            return Choice("eager", first_line(error), is_slower=True)
        finally:  # training goes on without a graph where there is none
            self.parameters.restore(untouched)
            self.parameters.rewind()
            self._steps.reset()
        return Choice("CUDA graph", "the device replays the step without the host.")

    def steps(self, number: int, n_batches: int) -> tuple[Tensor, Tensor]:
        """Takes the first ``S`` task batches of a block; returns losses and tasks, ``[S, R]``."""
        if self._drawn[0] != number:
            self._drawn = (number, self._batches.make(number))
        block = self._drawn[1]
        n_steps = n_batches // self._tasks_per_step
        with torch_stream(self._seed, "modules", number):
            if self._graph is not None:
                tasks = self._batches.tasks(block, n_batches)
                losses = self._graph(block, n_steps)
                self._drawn = (number + 1, self._batches.make(number + 1))  # while the device works
            else:
                here = self._batches.here(block)
                with self.parameters.arithmetic(), self._threads():
                    losses = self._losses_of(here, n_steps)
                tasks = self._batches.tasks(block, n_batches)  # once all are fetched
        return losses.transpose(1, 2).flatten(0, 1), tasks

    def _losses_of(self, block: Block, n_steps: int) -> Tensor:
        """Takes steps one after another; returns their losses, ``[S, R, tasks per step]``.

        They go into one tensor: small ones, kept until the end, would lie between all that a step
        frees, and memory would grow with the square of the number of tasks.
        """
        first = self._step(block, 0)
        losses = first.new_empty((n_steps, *first.shape))
        losses[0] = first
        for index in range(1, n_steps):
            losses[index] = self._step(block, index)
        return losses

    def _threads(self) -> AbstractContextManager[None]:
        return one_thread() if self.plan.threads.value == "one" else nullcontext()

    def _step(self, block: Block, index: int | Tensor) -> Tensor:
        """Takes one step; returns losses without penalties, ``[R, tasks per step]``."""
        batch = self._batches.batch(block, index)
        losses, observed, gradients = self._gradients(self._learnt, batch)
        self._steps.step(gradients)
        self.parameters.clock += self._tasks_per_step
        if self._updates.any:
            rows = (self.parameters.n_runs, -1)
            known = self._batches.are_known(batch)
            self._updates.take(batch.tasks.view(rows), observed.view(rows), known)
        if self._ema is not None:
            self._ema.update()
        return losses.view(self.parameters.n_runs, -1)

    def blame(self, run: int) -> str:
        """Returns what was wrong with examples that a run was given, in words; or nothing."""
        return self._batches.blame(run)

    def averaged(self) -> AbstractContextManager[None]:
        """Puts the averaged weights, where there are any, in their place for a while."""
        return nullcontext() if self._ema is None else self._ema.in_place()

    def settle(self) -> None:
        """Puts the averaged weights, where there are any, in their place for good."""
        if self._ema is not None:
            self._ema.settle()

    def state(self) -> dict[str, Tensor]:
        """Returns copies of all that steps change, on the CPU."""
        steps = self.parameters.n_batches.to("cpu", copy=True)
        now = compact("now", self.parameters.changing(), self.parameters)
        ema = self._ema.state() if self._ema is not None else {}
        remembered = compact("balancing", self._balancing_state(), self.parameters)
        batches = self._batches.state() | self._measured()
        return {"steps": steps, **now, **self._steps.state(), **ema, **remembered, **batches}

    def _measured(self) -> dict[str, Tensor]:
        """Returns what would be another number if it were measured again."""
        is_measured = self.settings.penalties.cost == "latency" and self._costs is not None
        return {"costs": self._costs.to("cpu", copy=True)} if is_measured else {}  # type: ignore[union-attr]

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a state, or forward to one of another trainer of the same runs."""
        self.parameters.clock.copy_(tensors["steps"] + self.parameters.first_batch)
        fill("now", self.parameters.changing(), tensors, self.parameters)
        self._steps.load(tensors)
        if self._ema is not None:
            self._ema.load(tensors)
        fill("balancing", self._balancing_state(), tensors, self.parameters)
        self._batches.load(tensors)

    def _balancing_state(self) -> dict[str, Tensor]:
        balancing = self.settings.loss_balancing
        return {} if balancing is None else balancing.state()


def _may_compile_pass(settings: TrainingSettings, forward: Forward, step: Choice) -> bool:
    """Tells whether the passes of a step that is taken eagerly can be compiled by themselves.

    One pass for all tasks, by `vmap`, is not: torch compiles no function inside of it.
    """
    reasons = [reason for reason in (why_by_number(forward), forward.why_apart) if reason]
    is_vmapped = forward.shares_inputs and not why_by_number(forward)
    return settings.execution.compile and step.reason in reasons and not is_vmapped
