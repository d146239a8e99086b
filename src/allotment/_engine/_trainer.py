"""The training step of ``R`` runs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from .._checks import first_line
from .._streams import torch_stream
from ..allocation import Allocation
from ..modules import HeadTable, Noise, TaskNetwork
from ._augmentation import Augmenter
from ._compact import compact, fill
from ._cuda_graph import GraphSteps, fastest_convolutions
from ._dataset import device_dataset
from ._ema import EMA
from ._forward import Batch, Forward
from ._losses import Losses
from ._optimizer import step_taker
from ._parameters import FlatParameters, Within
from ._penalties import PenaltySchedule
from ._plan import (
    Choice,
    ExecutionPlan,
    Strategy,
    choose_annealing,
    choose_runs,
    choose_task,
    choose_threads,
    first_pass,
    why_eager,
)
from ._run import Run, check_alike
from ._run_by_run import RunByRun
from ._sampler import BatchSampler, Block
from ._threads import one_thread
from ._tracing import Gradients, traced
from ._vmapped import Vmapped


class Trainer:
    """``R`` runs on a device, and the step that takes all of them further, as `plan` says.

    With ``is_over`` there are no steps to come, and none is recorded.
    """

    def __init__(self, runs: Sequence[Run], device: torch.device, *, is_over: bool = False) -> None:
        check_alike(runs)
        self.settings = chosen = runs[0].settings
        self.device = device
        self.n_tasks = len(runs[0].tasks)
        self._seed = runs[0].seed  # of draws that modules make by themselves, such as dropout
        # How many task batches one step takes: in a joint one, a batch of every task.
        self._tasks_per_step = self.n_tasks if chosen.schedule == "joint" else 1
        networks = [run.network for run in runs]
        self.parameters = FlatParameters(networks, device, chosen.execution.mixed_precision)
        self._learnt = [flat for _, flat in self.parameters.learnt()]
        n_batches = chosen.rounds * self.n_tasks
        self._steps = step_taker(
            self.parameters, chosen.optimization, n_batches, self._tasks_per_step
        )
        decay = chosen.optimization.ema_decay
        self._ema = EMA(self.parameters, decay, self._tasks_per_step) if decay else None
        self._weights = _task_weights(runs, device)
        if chosen.loss_balancing is not None:
            chosen.loss_balancing.start(len(runs), self.n_tasks, device)
        self._advancing = _advancing(self.parameters.network)
        self._make_sampler(runs)
        self._drawn = (0, self._sampler.make(0))
        self._graph: GraphSteps | None = None
        self._gradients: Gradients = self._eager
        self.plan = self._prepare(runs, n_batches, is_over)
        self.plan.warn()

    def _make_sampler(self, runs: Sequence[Run]) -> None:
        network = self.parameters.network
        self._augmenter = Augmenter(self.settings.augmentation)
        tasks = [task for run in runs for task in run.tasks]
        self._dataset = device_dataset(tasks, self.device, keep=network.accepted_dtypes)
        heads = network.heads
        has_dropout = network.dropout and isinstance(heads, HeadTable)
        allocations = [layer.allocation for layer in network.modular_layers]
        widths = {
            "gates": sum(a.n_noise for a in allocations if not a.sees_examples),
            "examples": sum(a.n_noise for a in allocations if a.sees_examples),
            "dropout": heads.weight.shape[-1] if has_dropout else 0,  # type: ignore[union-attr]
            "augmentation": self._augmenter.n_draws,
        }
        self._sampler = BatchSampler(runs, self._dataset, widths)

    def _prepare(self, runs: Sequence[Run], n_batches: int, is_over: bool) -> ExecutionPlan:
        """Finds out how steps are best taken, and records one; what that moves is put back."""
        chosen, parameters = self.settings, self.parameters
        penalties = [run.settings.penalties for run in runs]
        sizes = parameters.network.layer_sizes
        block = self._drawn[1].to(self.device)

        def forward(shares_streams: bool) -> Forward:
            return Forward(
                parameters,
                Losses(runs, parameters.network, self.device),
                PenaltySchedule(penalties, sizes, n_batches),
                chosen.penalties.budget_scope,
                is_joint=chosen.schedule == "joint",
                shares_streams=shares_streams,
            )

        untouched = parameters.snapshot()
        with torch_stream(self._seed, "trial"), parameters.arithmetic(), fastest_convolutions():
            trial, batch = forward(False), self._batch(block, 0)
            findings = first_pass(trial, batch)
            how_runs = choose_runs(trial, batch, findings)
            how_step = why_eager(chosen, trial, how_runs, findings, is_over)
            final = forward(how_runs.value in ("alone", "vmapped"))
            if how_step is None:
                self._strategy = _strategy(final, how_runs, task_is_tensor=True)
                how_step = self._recorded(block)
        how_task = choose_task(final, how_runs, how_step)
        self._strategy = _strategy(final, how_runs, task_is_tensor=how_task.value == "tensor")
        parameters.restore(untouched)
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

    def _recorded(self, block: Block) -> Choice:
        """Records the step and returns what came of it."""
        compiles, on_cpu = self.settings.execution.compile, self.device.type == "cpu"
        if on_cpu or compiles:
            try:
                batch = self._batch(block, 0)
                self._gradients = traced(self._eager, self._learnt, batch, compiled=compiles)
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
            self._drawn = (number, self._sampler.make(number))
        block = self._drawn[1]
        tasks = block.tasks[:n_batches].clone()
        n_steps = n_batches // self._tasks_per_step
        with torch_stream(self._seed, "modules", number):
            if self._graph is not None:
                losses = self._graph(block, n_steps)
                self._drawn = (number + 1, self._sampler.make(number + 1))  # while the device works
            else:
                here = block.to(self.device)
                with self.parameters.arithmetic(), self._threads():
                    losses = torch.stack([self._step(here, index) for index in range(n_steps)])
        return losses.transpose(1, 2).flatten(0, 1), tasks

    def _threads(self) -> AbstractContextManager[None]:
        return one_thread() if self.plan.threads.value == "one" else nullcontext()

    def _step(self, block: Block, index: int | Tensor) -> Tensor:
        """Takes one step; returns losses without penalties, ``[R, tasks per step]``."""
        losses, gradients = self._gradients(self._learnt, self._batch(block, index))
        self._steps.step(gradients)
        self.parameters.clock += self._tasks_per_step
        if self._advancing:
            self._advance()
        if self._ema is not None:
            self._ema.update()
        return losses.view(self.parameters.n_runs, -1)

    def _eager(self, learnt: list[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Returns each run's losses, and the clipped gradients, ``[R, P]`` each."""
        losses, charges = self._strategy(learnt, batch)
        balancing = self.settings.loss_balancing
        weighted = losses
        if self._weights is not None:
            tasks = batch.tasks.view(losses.shape[0], -1)
            weighted = weighted * self._weights.gather(1, tasks).view_as(losses)
        if balancing is not None:
            shape = (losses.shape[0], -1)
            own = balancing.weights(weighted.detach().view(shape), batch.tasks.view(shape))
            weighted = weighted * own.view_as(losses)
        if balancing is not None and balancing.needs_gradients:
            gradients = _combined(balancing.combine, weighted + charges, learnt)
        else:
            # The runs share nothing, so the gradient of the sum holds each run's own gradient. A
            # joint step follows the mean over its tasks.
            total = (weighted + charges).sum() / self._tasks_per_step
            gradients = _gradients_of(total, learnt)
        clip_norm = self.settings.optimization.clip_norm
        return losses.detach(), clipped_per_run(gradients, clip_norm)

    def _batch(self, block: Block, index: int | Tensor) -> Batch:
        def entry(tensor: Tensor) -> Tensor:
            """Returns a step's part of a tensor, ``[R, ...]``; in a joint step ``[R * T, ...]``."""
            if self._tasks_per_step == 1:
                return _entry(tensor, index)
            steps = tensor.unflatten(0, (-1, self._tasks_per_step))
            return _entry(steps, index).transpose(0, 1).flatten(0, 1)

        if self._dataset is None:
            assert block.inputs is not None
            x, y = entry(block.inputs), tuple(entry(targets) for targets in block.targets)
        else:
            assert block.rows is not None and block.kinds is not None
            x, y = self._dataset.fetch(entry(block.rows), entry(block.kinds))
        noise = {use: entry(part) for use, part in block.noise.items()}
        if "augmentation" in noise:
            x = self._augmenter(x, noise.pop("augmentation"))
        tasks = entry(block.tasks)
        if self._tasks_per_step > 1:
            shape = (self.parameters.n_runs, self._tasks_per_step)
            tasks, x = tasks.unflatten(0, shape), x.unflatten(0, shape)
            y = tuple(targets.unflatten(0, shape) for targets in y)
            noise = {use: part.unflatten(0, shape) for use, part in noise.items()}
        return Batch(tasks, x, y, Noise(**noise))

    @torch.no_grad()
    def _advance(self) -> None:
        """Lets allocations that do more than count batches take note of one, run by run."""

        def advanced(network: TaskNetwork) -> Tensor:
            for layer in network.modular_layers:
                if layer.allocation in self._advancing:
                    layer.allocation.advance()
            return torch.zeros(())

        within = Within(self.parameters.network)
        self._advancing = _advancing(self.parameters.network)
        for _ in range(self._tasks_per_step):
            vmap(lambda state: functional_call(within, state, (advanced,)))(
                self.parameters.state("network.")
            )

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
        return {"steps": steps, **now, **self._steps.state(), **ema, **remembered}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a state, or forward to one of another trainer of the same runs."""
        self.parameters.clock.copy_(tensors["steps"] + self.parameters.first_batch)
        fill("now", self.parameters.changing(), tensors, self.parameters)
        self._steps.load(tensors)
        if self._ema is not None:
            self._ema.load(tensors)
        fill("balancing", self._balancing_state(), tensors, self.parameters)

    def _balancing_state(self) -> dict[str, Tensor]:
        balancing = self.settings.loss_balancing
        return {} if balancing is None else balancing.state()


def _strategy(forward: Forward, runs: Choice, *, task_is_tensor: bool) -> Strategy:
    if runs.value == "vmapped":
        return Vmapped(forward)
    return RunByRun(forward, task_is_tensor=task_is_tensor)


def _advancing(network: TaskNetwork) -> set[Allocation]:
    """Returns the allocations that do more than count batches when one has passed."""
    allocations = {layer.allocation for layer in network.modular_layers}
    return {a for a in allocations if type(a).advance is not Allocation.advance}


def _task_weights(runs: Sequence[Run], device: torch.device) -> Tensor | None:
    """Returns what each run's losses are multiplied by, ``[R, T]``; None where all are 1."""
    weights = [[task.weight for task in run.tasks] for run in runs]
    is_plain = all(weight == 1.0 for row in weights for weight in row)
    return None if is_plain else torch.tensor(weights, device=device)


def _gradients_of(total: Tensor, learnt: Sequence[Tensor], *, again: bool = False) -> list[Tensor]:
    """Returns gradients; what a batch does not reach, such as another task's head, has zeros."""
    found = torch.autograd.grad(
        total, learnt, retain_graph=again, allow_unused=True, materialize_grads=True
    )
    return list(found)


def _combined(combine, losses: Tensor, learnt: Sequence[Tensor]) -> list[Tensor]:  # type: ignore[no-untyped-def]
    """Returns the gradients that a loss balancing makes of those of all tasks, ``[R, P]`` each."""
    by_task = [_gradients_of(column.sum(), learnt, again=True) for column in losses.unbind(1)]
    joined = torch.stack([torch.cat(gradients, dim=1) for gradients in by_task], dim=1)  # [R, T, P]
    chosen = torch.stack([combine(own) for own in joined])
    return list(chosen.split([flat.shape[1] for flat in learnt], dim=1))


def clipped_per_run(gradients: Sequence[Tensor], norm: float | None) -> list[Tensor]:
    """Returns gradients ``[R, P]``, each run's shortened to ``norm`` where it is longer."""
    if norm is None:
        return list(gradients)
    squares = torch.stack([gradient.square().sum(dim=1) for gradient in gradients])
    factor = (norm / (squares.sum(dim=0).sqrt() + 1e-6)).clamp_max(1.0)  # [R]
    return [gradient * factor.unsqueeze(1) for gradient in gradients]


def _entry(tensor: Tensor, index: int | Tensor) -> Tensor:
    """Returns ``tensor[index]``; an index on the device stays there."""
    return tensor[index] if isinstance(index, int) else tensor.index_select(0, index).squeeze(0)
