"""A network and its tasks as a module that Lightning's Trainer trains."""

from collections.abc import Sequence
from math import cos, pi
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.func import vmap

from .._engine import (
    Budgets,
    PenaltySchedule,
    Run,
    StreamedLosses,
    changes_by_batch,
    gate_costs,
    group_rates,
    names_by_group,
)
from .._streams import torch_stream
from ..modules import Pass, as_network
from ..settings import TrainingSettings
from ..tasks import Task
from ..training import check_runs, has_classes, n_known
from ._batch import EvaluationBatch, StepBatch, TaskBatch
from ._draws import Draws
from ._refused import check_settings


class MultiTaskModule(LightningModule):
    """Trains a network on tasks under Lightning's Trainer, by the steps that `fit` would take.

    Its batches come from a `MultiTaskData`. It logs ``train_loss/a`` for each task, on validation
    and test splits ``validation_loss/a`` and ``validation_accuracy/a``, and their means over tasks,
    ``validation_loss`` and ``validation_accuracy``. The Trainer stops after ``settings.rounds``.

    Under DDP a step has no use for other tasks' heads. All parameters still take part in every
    backward pass, where the others get no gradient: DDP needs no ``find_unused_parameters``. That
    it is faster has not been shown. As in `fit`, what has no gradient has one of zero.

    Draws are functions of the seed and the step: gates as in `fit`, and the same in all processes;
    modules that draw by themselves, such as `nn.Dropout`, differ between processes. A batch norm
    sees a process's part of a batch, unless ``Trainer(sync_batchnorm=True)``. So does an
    allocation's auxiliary loss.

    Args:
        network: A network, or any module with modular layers in it.
        tasks: What to train it on, one for each of its tasks.
        settings: How to train. What Lightning does by itself is refused: precision, averages of
            weights, patience; so are loss balancing, augmentation and held-out allocation examples.
        seed: Of every draw.

    Attributes:
        network: What is trained.
        tasks: In the network's order.
        n_steps: Optimizer steps in all.
    """

    gate_costs: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        tasks: Sequence[Task],
        settings: TrainingSettings = TrainingSettings(),
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        run = Run(network, tasks, seed, settings)
        check_settings(settings)
        check_runs([run])
        self.tasks = list(run.tasks)
        self.settings = settings
        self.seed = seed
        self.network = as_network(network, [task.name for task in self.tasks])
        n_batches = settings.rounds * len(self.tasks)
        self._per_step = len(self.tasks) if settings.is_joint else 1
        self.n_steps = n_batches // self._per_step
        self._draws = Draws(self.network, seed)
        self._losses = StreamedLosses([self.tasks], "")
        # A part of checkpoints where it was measured, and would be another number the next time.
        is_measured = settings.penalties.cost == "latency"
        costs = gate_costs(run, torch.device("cpu"))
        self.register_buffer("gate_costs", costs, persistent=is_measured)
        self._penalties = PenaltySchedule([run], n_batches)
        allocations = dict.fromkeys(layer.allocation for layer in self.network.modular_layers)
        self._allocations = list(allocations)
        self._observed: list[tuple[TaskBatch, Tensor]] = []  # the losses of the step under way
        self._sums: dict[int, Tensor] = {}  # by task: loss, right answers, labels

    def training_step(self, batch: StepBatch, batch_idx: int) -> Tensor:
        """Returns what a step goes down: the mean over its tasks of loss and charges."""
        _check_is(batch, StepBatch)
        totals = []
        with torch_stream(self.seed, f"modules/{self.global_rank}", batch.step):
            for place, part in enumerate(batch.parts):
                number = batch.step * self._per_step + place
                x = batch.shared if part.inputs is None else part.inputs
                totals.append(self._total(part, x, number, batch.step))
        total = torch.stack(totals).mean()
        if self.trainer.world_size == 1:
            return total
        learnt = [p for p in self.network.parameters() if p.requires_grad]
        reached: Tensor = _Reaching.apply(total, *learnt)  # type: ignore[no-untyped-call]
        return reached

    def _total(self, part: TaskBatch, x: Any, number: int, step: int) -> Tensor:
        """Returns the loss of one task's batch, weighed, and what is charged beside it."""
        task = self.tasks[part.task]
        running = Pass(part.task, self._draws.noise(number, part.place, self.device))
        loss = self._loss(part, self.network.compute(x, running)) * part.weight
        charges = running.charges(loss)
        if self._penalties.any:
            charges.append(self._penalty(part.task, step * self._per_step))
        self.log(f"train_loss/{task.name}", loss.detach(), batch_size=part.place.total)
        self._observed.append((part, loss.detach()))
        return loss * task.weight + sum(charges[1:], charges[0]) if charges else loss * task.weight

    def _loss(self, part: TaskBatch, outputs: Tensor) -> Tensor:
        """Returns the mean loss of a part, or of its examples whose label is known."""
        if part.counts is None:
            return self._losses(outputs, [part.targets], part.task, 0)

        def one(output: Tensor, target: Tensor) -> Tensor:
            return self._losses(output.unsqueeze(0), [target.unsqueeze(0)], part.task, 0)

        each = torch.where(part.counts > 0, vmap(one)(outputs, part.targets), 0.0)
        return (each * part.counts).sum()

    def _penalty(self, task: int, n_batches: int) -> Tensor:
        is_global = self.settings.penalties.budget_scope == "global"
        probabilities = self.network.probabilities(None if is_global else task)
        budgets = Budgets(*(own[0] for own in self._penalties.budgets_on(self.device)))
        step = torch.tensor(n_batches, device=self.device)
        self._penalties.costs = self.gate_costs
        return self._penalties(probabilities, task, budgets, step)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Gives a gradient of zero to what the step had no use for, as `fit` does."""
        for parameter in self.network.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Takes a step and tells allocations what has passed, before any checkpoint is written."""
        super().optimizer_step(*arguments, **options)
        observed, self._observed = self._observed, []
        for part, loss in observed:
            self._tell(part, loss)

    @torch.no_grad()
    def _tell(self, part: TaskBatch, loss: Tensor) -> None:
        """Tells allocations of a task's batch, with its loss in all processes together."""
        if any(map(changes_by_batch, self._allocations)):
            loss = self.trainer.strategy.reduce(loss, reduce_op="mean")
        for allocation in self._allocations:
            if part.is_known:
                allocation.observe(part.task, loss)
            allocation.advance()

    def on_train_batch_end(self, outputs: Any, batch: StepBatch, batch_idx: int) -> None:
        """Ends the training after its last step."""
        if batch.step + 1 >= self.n_steps:
            self.trainer.should_stop = True

    def configure_optimizers(self) -> Any:
        """Returns the optimizer of the settings, and its learning-rate schedule if there is one."""
        chosen = self.settings.optimization
        named = dict(self.network.named_parameters())
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for group, names in names_by_group(self.network).items():
            if group != "frozen":
                own = groups.setdefault(group_rates(group, chosen), [])
                own += [named[name] for name in names]
        made: list[dict[str, Any]] = [
            {"params": own, "lr": rate, "weight_decay": decay}
            for (rate, decay), own in groups.items()
        ]
        optimizer = torch.optim.Adam(made) if chosen.optimizer is None else chosen.optimizer(made)
        if chosen.lr_schedule == "constant":
            return optimizer
        scheduler: Any = (
            chosen.lr_schedule(optimizer)
            if callable(chosen.lr_schedule)
            else torch.optim.lr_scheduler.LambdaLR(optimizer, self._cosine)
        )
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def _cosine(self, step: int) -> float:
        return 0.5 * (1.0 + cos(pi * min(step / self.n_steps, 1.0)))

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips by the norm of the settings, or as the Trainer was told."""
        norm = self.settings.optimization.clip_norm
        if norm is not None:
            gradient_clip_val, gradient_clip_algorithm = norm, "norm"
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_validation_epoch_start(self) -> None:
        self._sums = {}

    def on_test_epoch_start(self) -> None:
        self._sums = {}

    def validation_step(self, batch: EvaluationBatch, batch_idx: int) -> None:
        self._add(batch, "validation", batch_idx)

    def test_step(self, batch: EvaluationBatch, batch_idx: int) -> None:
        self._add(batch, "test", batch_idx)

    def on_validation_epoch_end(self) -> None:
        self._log_sums("validation")

    def on_test_epoch_end(self) -> None:
        self._log_sums("test")

    def _add(self, batch: EvaluationBatch, split: str, number: int) -> None:
        """Adds to a task's sums what a batch gives: its loss, its right answers, its labels."""
        _check_is(batch, EvaluationBatch)
        task = self.tasks[batch.task]
        with torch_stream(self.seed, f"evaluation/{split}/{self.global_rank}", number):
            outputs = self.network(batch.inputs, batch.task)
        n = n_known(batch.targets)
        loss = self._losses(outputs, [batch.targets], batch.task, 0)
        right = torch.full_like(loss, torch.nan)
        if has_classes(task, outputs):
            right = (outputs.argmax(dim=1) == batch.targets).sum().to(loss.dtype)
        found = torch.stack([torch.where(n > 0, loss * n, 0.0), right, n.to(loss.dtype)])
        self._sums[batch.task] = self._sums.get(batch.task, 0.0) + found

    def _log_sums(self, split: str) -> None:
        """Logs the losses and accuracies of all processes together, by task and their means."""
        nothing = torch.zeros(3, device=self.device)
        means: dict[str, list[Tensor]] = {"loss": [], "accuracy": []}
        for index, task in enumerate(self.tasks):
            if task.held_out(split) is None:
                continue
            own = self._sums.get(index, nothing)
            loss, right, n = self.trainer.strategy.reduce(own, reduce_op="sum")
            for name, total in (("loss", loss), ("accuracy", right)):
                if not total.isnan() or name == "loss":
                    means[name].append(total / n)
                    self.log(f"{split}_{name}/{task.name}", total / n, sync_dist=True)
        for name, values in means.items():
            if values:
                self.log(f"{split}_{name}", torch.stack(values).mean(), sync_dist=True)


class _Reaching(torch.autograd.Function):
    """A loss that reaches all parameters: those that it does not depend on get no gradient."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *parameters: Tensor) -> Tensor:
        ctx.n = len(parameters)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], *[None] * ctx.n


def _check_is(batch: object, kind: type) -> None:
    if not isinstance(batch, kind):
        raise TypeError(
            "The batches of a MultiTaskModule should come from a MultiTaskData. "
            f"Found a {type(batch).__name__}."
        )
