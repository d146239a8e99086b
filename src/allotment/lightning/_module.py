"""A network and its tasks as a module that Lightning's Trainer trains."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel

from .._engine import (
    Augmenter,
    Budgets,
    GradientPass,
    PenaltySchedule,
    Run,
    StreamedLosses,
    gate_costs,
)
from .._schema import Evaluation
from .._streams import torch_stream
from ..modules import Pass, TaskNetwork, as_network
from ..settings import TrainingSettings
from ..tasks import Task
from ..training import check_runs
from ._batch import Draws, EvaluationBatch, StepBatch, TaskBatch, check_is
from ._form import NetworkForm
from ._losses import KeptLosses, Observers
from ._scores import Scores, named_values
from ._settings import check_settings, optimizers, warn_of_early_end
from ._strategies import check_is_one_training, leave_at_exit, reaching, shard


class MultiTaskModule(LightningModule):
    """Trains a network on tasks under Lightning's Trainer, by the steps that `fit` would take.

    Its batches come from a `MultiTaskData`. It logs ``train_loss/a`` for each task, the mean since
    the last entry of the logger. On validation and test splits it logs ``validation_loss/a``,
    ``validation_accuracy/a`` and a task's own metrics, ``validation_auc/a``, and their means over
    tasks, ``validation_loss``. The Trainer stops after ``settings.rounds``.

    Under DDP a step has no use for other tasks' heads. All parameters still take part in every
    backward pass, where the others get no gradient: DDP needs no ``find_unused_parameters``. As in
    `fit`, what has no gradient has one of zero. Under `ModelParallelStrategy` parameters are
    divided among processes (FSDP2), as they are under `FSDPStrategy`.

    Draws are functions of the seed and the step: gates as in `fit`, and the same in all processes;
    modules that draw by themselves, such as `nn.Dropout`, differ between processes. A batch norm
    sees a process's part of a batch, unless ``Trainer(sync_batchnorm=True)``. So does an
    allocation's auxiliary loss.

    While it trains, components of one architecture are stacked in one tensor for each of their
    parameters, and linear heads are one table: the host then handles a few large tensors. An
    optimizer that may look at whole parameters gets them as they were given. `network_now` returns
    a copy in the form that was given, for `extract` in a callback.

    Args:
        network: A network, or any module with modular layers in it.
        tasks: What to train it on, one for each of its tasks.
        settings: How to train. What Lightning does by itself is refused: precision, averages of
            weights, patience; so are loss balancing by gradients and held-out allocation examples.
        seed: Of every draw.

    Attributes:
        network: What is trained.
        tasks: In the network's order.
        n_steps: Batches in all, of a task or of all tasks; each is an optimizer step, unless the
            Trainer accumulates several.
        evaluations: The last evaluation of each split, "validation" and "test".
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
        check_settings(run)
        check_runs([run])
        self.tasks = list(run.tasks)
        self.settings = settings
        self.seed = seed
        self.network = as_network(network, [task.name for task in self.tasks])
        self.form = NetworkForm(self.network)
        n_batches = settings.rounds * len(self.tasks)
        self._per_step = len(self.tasks) if settings.is_joint else 1
        self.n_steps = n_batches // self._per_step
        self.evaluations: dict[str, Evaluation] = {}
        self._augmenter = Augmenter(settings.augmentation)
        self._draws = Draws(self.network, settings, seed, self._augmenter.n_draws)
        self._losses = StreamedLosses([self.tasks], "")
        layers = self.network.modular_layers
        self._rewards_examples = any(layer.allocation.rewards_examples for layer in layers)
        self._penalties = PenaltySchedule([run], n_batches)
        # A part of checkpoints where it was measured, and would be another number the next time.
        is_measured = settings.penalties.cost == "latency"
        costs = gate_costs(run, torch.device("cpu"))
        self.register_buffer("gate_costs", costs, persistent=is_measured)
        self._observers = Observers(self.network, n_batches)
        self._kept = KeptLosses(len(self.tasks))
        self._n_done = 0  # batches

    def setup(self, stage: str) -> None:
        """Lets a loss balancing begin anew; a checkpoint tells it later what it remembered."""
        check_is_one_training(self.trainer)
        leave_at_exit()
        if stage == "fit":
            run = Run(self.network, self.tasks, self.seed, self.settings)
            self._weighing = GradientPass([run], self.trainer.strategy.root_device, [])
        self.form.stack(self.trainer, self.settings.optimization)

    def configure_model(self) -> None:
        """Divides parameters among processes where the strategy asks for it."""
        if self._trainer is None:  # `load_from_checkpoint`
            return
        # Callbacks that average weights copy the module before its `setup`, and call this first.
        self.form.stack(self.trainer, self.settings.optimization)
        shard(self)

    def on_train_start(self) -> None:
        """Ends a training at once whose checkpoint was its last: it would wait for a batch."""
        self.trainer.should_stop |= self._n_done >= self.n_steps
        self.on_train_epoch_start()  # which one that goes on amid an epoch leaves out

    def on_train_epoch_start(self) -> None:
        """Looks up what is learnt: callbacks may freeze parts for some epochs."""
        self._learnt = [p for p in self.parameters() if p.requires_grad]

    def training_step(self, batch: StepBatch, batch_idx: int) -> dict[str, Tensor]:
        """Returns what a step goes down: the mean over its tasks of loss and charges."""
        check_is(batch, StepBatch)
        first = batch.step * self._per_step
        self._n_done = batch.step + 1
        found = []
        with torch_stream(self.seed, f"modules/{self.global_rank}", batch.step):
            shared = batch.shared
            if shared is not None:
                shared = self._augmented(shared, first, batch.parts[0])
            for number, part in enumerate(batch.parts, start=first):
                x = shared if part.inputs is None else self._augmented(part.inputs, number, part)
                found.append(self._loss_and_charge(part, x, number, first))
        losses, charges = (torch.stack(own) for own in zip(*found, strict=True))
        total = (losses * self._factors(batch, losses.detach()) + charges).mean()
        return {"loss": reaching(total, self, self._learnt), "losses": losses.detach()}

    def _augmented(self, x: Any, number: int, part: TaskBatch) -> Any:
        """Returns the images of a part, changed by the draws that `fit` has for them."""
        if not self._augmenter.n_draws:
            return x
        draws = self._draws.augmentation(number, part.place, self.device)
        return self._augmenter(x.unsqueeze(0), draws.unsqueeze(0)).squeeze(0)

    def _loss_and_charge(
        self, part: TaskBatch, x: Any, number: int, first: int
    ) -> tuple[Tensor, Tensor]:
        """Returns the loss of one task's batch, and what is charged beside it."""
        running = Pass(part.task, self._draws.noise(number, part.place, self.device))
        outputs = self.network.compute(x, running)
        loss = self._loss(part, outputs) * part.weight
        charges = running.charges(loss, self._each(part, outputs), part.share)
        if self._penalties.any:
            charges.append(self._penalty(part.task, first))
        self._observers.keep(part, loss)
        return loss, sum(charges[1:], charges[0]) if charges else torch.zeros_like(loss)

    def _factors(self, batch: StepBatch, losses: Tensor) -> Tensor | float:
        """Returns what losses ``[K]`` are multiplied by; balancing sees those of whole batches."""
        if not self._weighing.has_factors:
            return 1.0
        if self.settings.loss_balancing is not None:
            losses = self.trainer.strategy.reduce(losses, reduce_op="mean")
        tasks = torch.tensor([[part.task for part in batch.parts]], device=self.device)
        return prod(own[0] for own in self._weighing.factors(losses.unsqueeze(0), tasks))

    def _loss(self, part: TaskBatch, outputs: Tensor) -> Tensor:
        """Returns the mean loss of a part, or of its examples whose label is known."""
        if part.counts is None:
            return self._losses(outputs, [part.targets], part.task, 0)
        each = self._losses.of_each(outputs, [part.targets], part.task, 0)
        return (torch.where(part.counts > 0, each, 0.0) * part.counts).sum()

    def _each(self, part: TaskBatch, outputs: Tensor) -> Tensor | None:
        """Returns the loss of each example, where allocations want it; NaN without a label."""
        if not self._rewards_examples:
            return None
        each = self._losses.of_each(outputs.detach(), [part.targets], part.task, 0)
        return each if part.counts is None else torch.where(part.counts > 0, each, torch.nan)

    def _penalty(self, task: int, n_batches: int) -> Tensor:
        is_global = self.settings.penalties.budget_scope == "global"
        probabilities = self.network.probabilities(None if is_global else task)
        budgets = Budgets(*(own[0] for own in self._penalties.budgets_on(self.device)))
        step = torch.tensor(n_batches, device=self.device)
        self._penalties.costs = self.gate_costs
        return self._penalties(probabilities, task, budgets, step)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Gives a gradient of zero to what the step had no use for, as `fit` does."""
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Takes a step and tells allocations what has passed, before any checkpoint is written."""
        super().optimizer_step(*arguments, **options)
        self._observers.tell(self.trainer)

    def on_train_batch_end(self, outputs: Any, batch: StepBatch, batch_idx: int) -> None:
        """Logs losses where the logger has an entry, and ends the training after its last step."""
        self._kept.add(batch, outputs["losses"])
        is_last = self._n_done >= self.n_steps
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if is_last or (every and self.trainer.global_step % every == 0):
            found = self._kept.take(self.trainer)
            totals = zip(self.tasks, found.sums.sum(axis=0), found.counts.sum(axis=0), strict=True)
            means = {f"train_loss/{task.name}": total / n for task, total, n in totals if n}
            self.log_dict(means, batch_size=1)
        if is_last:
            self.trainer.should_stop = True

    def on_train_end(self) -> None:
        """Gives the network the form that it was given in."""
        self.form.undo(self.trainer)

    def on_fit_end(self) -> None:  # not of a training that failed
        warn_of_early_end(self.trainer, self._n_done, self.n_steps)

    def network_now(self) -> TaskNetwork:
        """Returns a copy of the network as it was given, with the weights of now."""
        return self.form.copy(self.trainer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps how far it is, and what a loss balancing remembers."""
        self.form.saved(self.trainer, checkpoint)
        checkpoint["n_done"] = self._n_done
        if self.settings.loss_balancing is not None:
            state = self.settings.loss_balancing.state()
            checkpoint["loss_balancing"] = {name: own.cpu() for name, own in state.items()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Goes to where it was, and tells a loss balancing what it remembered."""
        self.form.loaded(checkpoint)
        self._n_done = checkpoint["n_done"]
        if self.settings.loss_balancing is not None:
            for name, own in self.settings.loss_balancing.state().items():
                own.copy_(checkpoint["loss_balancing"][name])

    def configure_optimizers(self) -> Any:
        """Returns the optimizer of the settings, and its learning-rate schedule if there is one."""
        return optimizers(self.network, self.settings.optimization, self.trainer, self.n_steps)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips by the norm of the settings, or as the Trainer was told."""
        norm, parallel = self.settings.optimization.clip_norm, self.trainer.strategy.model
        if norm is not None and isinstance(parallel, FullyShardedDataParallel):
            parallel.clip_grad_norm_(norm)  # Lightning leaves it to the module that is divided
            return
        if norm is not None:
            gradient_clip_val, gradient_clip_algorithm = norm, "norm"
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_validation_epoch_start(self) -> None:
        self._scores = Scores(self.tasks, "validation", self.device)

    def on_test_epoch_start(self) -> None:
        self._scores = Scores(self.tasks, "test", self.device)

    def validation_step(self, batch: EvaluationBatch, batch_idx: int) -> None:
        self._add(batch, "validation", batch_idx)

    def test_step(self, batch: EvaluationBatch, batch_idx: int) -> None:
        self._add(batch, "test", batch_idx)

    def _add(self, batch: EvaluationBatch, split: str, number: int) -> None:
        check_is(batch, EvaluationBatch)
        with torch_stream(self.seed, f"evaluation/{split}/{self.global_rank}", number):
            outputs = self.network(batch.inputs, batch.task)
        loss = self._losses(outputs, [batch.targets], batch.task, 0)
        self._scores.add(batch.task, outputs, batch.targets, loss)

    def on_validation_epoch_end(self) -> None:
        """Logs what was found, in all processes together."""
        found = self._scores.evaluation(self.trainer)
        if found is not None:
            self.evaluations[found.split] = found
            self.log_dict(named_values(found, self.tasks), sync_dist=True)

    on_test_epoch_end = on_validation_epoch_end
