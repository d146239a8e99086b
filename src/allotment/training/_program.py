"""The training step of ``R`` runs."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from .._checks import first_line
from .._streams import torch_stream
from ..network import HeadTable, Noise
from ._adam import FlatAdam
from ._augmentation import Augmentation
from ._average import Average
from ._blocks import Block, BlockMaker
from ._capture import UNRECORDED, Gradients, capture
from ._charges import Charges
from ._graph import GraphSteps, fastest_convolutions
from ._passes import Batch, Passes
from ._rates import FallingRates
from ._replicas import Replicas
from ._run import Run, check_alike
from ._state import put_back, taken
from ._store import store_of
from ._threads import threads_for


class Program:
    """``R`` runs on a device, and the step that takes all of them further.

    With ``is_over`` there are no steps to come, and none is recorded.
    """

    def __init__(self, runs: Sequence[Run], device: torch.device, *, is_over: bool = False) -> None:
        check_alike(runs)
        self.settings = runs[0].settings
        self._seed = runs[0].seed  # of draws that modules make by themselves, such as dropout
        self.n_tasks = len(runs[0].tasks)
        networks = [run.network for run in runs]
        self.replicas = Replicas(networks, device, self.settings.precision)
        # How many task batches one step takes: in a joint one, a batch of every task.
        self._tasks_per_step = self.n_tasks if self.settings.schedule == "joint" else 1
        network = self.replicas.network
        heads, dropout = network.heads, network.dropout
        n_features = heads.weight.shape[-1] if dropout and isinstance(heads, HeadTable) else 0
        chosen = self.settings
        self._augmentation = Augmentation(
            crop=chosen.crop,
            shift=chosen.shift,
            rotation=chosen.rotation,
            zoom=chosen.zoom,
            slant=chosen.slant,
            bend=chosen.bend,
        )
        tasks = [task for run in runs for task in run.tasks]
        self._store = store_of(tasks, device, as_ink=network.takes_ink)
        self._blocks = BlockMaker(
            runs, self._store, sum(network.layer_sizes), n_features, self._augmentation.n_draws
        )
        n_steps = self.settings.rounds * self.n_tasks
        charges = Charges([run.settings for run in runs], network.layer_sizes, n_steps)
        self.passes = Passes(runs, self.replicas, charges)
        self._learnt = [flat for _, flat in self.replicas.learnt()]
        self._optimizer = FlatAdam(
            list(self._optimizer_groups()), fused=True, capturable=device.type == "cuda"
        )
        self._falling = (
            FallingRates(self._optimizer, n_steps, device) if chosen.decay == "cosine" else None
        )
        self._average = (
            Average(self.replicas, chosen.average, self._tasks_per_step) if chosen.average else None
        )
        self._drawn = (0, self._blocks.make(0))
        self._losses_and_gradients: Gradients = self._eager
        self._graph: GraphSteps | None = None
        self._try_out(self._drawn[1].to(device), is_over)

    def _try_out(self, block: Block, is_over: bool) -> None:
        """Finds out how steps are best taken, and records one; what that moves is put back."""
        untouched = self.replicas.snapshot()
        with torch_stream(self._seed, "trial"), self.replicas.arithmetic(), fastest_convolutions():
            self.passes.check(self._batch(block, 0))
            is_wanted = self.settings.capture and not is_over
            if is_wanted and self.passes.can_be_recorded:
                self._capture(block)
            elif is_wanted and self.passes.what_differs:
                reason = self.passes.what_differs
                warnings.warn(f"{UNRECORDED}: {reason}.", stacklevel=3)
        if self._graph is None and self._losses_and_gradients == self._eager:
            self.passes.go_unrecorded()
        self.replicas.restore(untouched)
        if self._average is not None:
            self._average.restart()

    def _capture(self, block: Block) -> None:
        compiled, on_cpu = self.settings.compile, self.replicas.device.type == "cpu"
        if on_cpu or compiled:
            batch = self._batch(block, 0)
            self._losses_and_gradients = capture(
                self._eager, self._learnt, batch, compiled=compiled
            )
        if on_cpu:
            return
        try:
            self._graph = GraphSteps(
                self._step, block, self._tasks_per_step, self.replicas, self._optimizer
            )
        except torch.OutOfMemoryError as error:
            error.add_note("Fewer runs at a time take less memory.")
            raise
        except RuntimeError as error:
            warnings.warn(
                f"Training without a captured step, which is slower: {first_line(error)}",
                stacklevel=2,
            )

    def steps(self, number: int, n_batches: int) -> tuple[Tensor, Tensor]:
        """Takes the first ``S`` task batches of a block; returns losses and tasks, ``[S, R]``."""
        if self._drawn[0] != number:
            self._drawn = (number, self._blocks.make(number))
        block = self._drawn[1]
        tasks = block.tasks[:n_batches].clone()
        n_steps = n_batches // self._tasks_per_step
        with torch_stream(self._seed, "modules", number):
            if self._graph is None:
                losses = self._plain_steps(block.to(self.replicas.device), n_steps)
            else:
                losses = self._graph(block, n_steps)
        if self._graph is not None:
            self._drawn = (number + 1, self._blocks.make(number + 1))  # while the device works
        return losses.transpose(1, 2).flatten(0, 1), tasks

    def _plain_steps(self, block: Block, n_steps: int) -> Tensor:
        """Returns the losses of steps taken one by one, ``[n_steps, R, tasks per step]``."""
        with self.replicas.arithmetic(), threads_for(self.passes.n_operations):
            return torch.stack([self._step(block, index) for index in range(n_steps)])

    def state(self) -> dict[str, Tensor]:
        """Returns copies of all that steps change."""
        mean = self._average.state() if self._average is not None else {}
        return {**taken(self.replicas, self._optimizer), **mean}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a state, or forward to one of another program of the same runs."""
        put_back(tensors, self.replicas, self._optimizer)
        if self._average is not None:
            self._average.load(tensors)

    def averaged(self) -> AbstractContextManager[None]:
        """Puts the averaged weights, where there are any, in their place for a while."""
        return nullcontext() if self._average is None else self._average.in_place()

    def settle(self) -> None:
        """Puts the averaged weights, where there are any, in their place for good."""
        if self._average is not None:
            self._average.settle()

    def _step(self, block: Block, index: int | Tensor) -> Tensor:
        """Takes one step; returns losses without penalties, ``[R, tasks per step]``."""
        losses, gradients = self._losses_and_gradients(self._learnt, self._batch(block, index))
        for flat, gradient in zip(self._learnt, gradients, strict=True):
            flat.grad = gradient
        if self._falling is not None:
            self._falling.set(self.replicas.n_batches)
        self._optimizer.step()
        self.replicas.n_batches += self._tasks_per_step
        if self._average is not None:
            self._average.update()
        return losses.view(self.replicas.n_runs, -1)

    def _eager(self, learnt: list[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Returns each run's losses, and the clipped gradients, ``[R, P]`` each."""
        losses, penalties = self.passes(learnt, batch)
        # The runs share nothing, so the gradient of the sum holds each run's own gradient. A joint
        # step follows the mean over its tasks.
        total = (losses + penalties).sum() / self._tasks_per_step
        gradients = torch.autograd.grad(total, learnt)
        return losses.detach(), clipped_per_run(gradients, self.settings.clip_norm)

    def _batch(self, block: Block, index: int | Tensor) -> Batch:
        def entry(tensor: Tensor) -> Tensor:
            """Returns a step's part of a tensor, ``[R, ...]``; in a joint step ``[R * T, ...]``."""
            if self._tasks_per_step == 1:
                return _entry(tensor, index)
            steps = tensor.unflatten(0, (-1, self._tasks_per_step))
            return _entry(steps, index).transpose(0, 1).flatten(0, 1)

        if self._store is None:
            assert block.inputs is not None
            x, y = entry(block.inputs), tuple(entry(targets) for targets in block.targets)
        else:
            assert block.rows is not None and block.kinds is not None
            x, y = self._store.fetch(entry(block.rows), entry(block.kinds))
        if block.augmentation is not None:
            x = self._augmentation(x, entry(block.augmentation))
        dropout = None if block.dropout is None else entry(block.dropout)
        tasks, gates = entry(block.tasks), entry(block.gates)
        if self._tasks_per_step > 1:
            shape = (self.replicas.n_runs, self._tasks_per_step)
            tasks, x, gates = (part.unflatten(0, shape) for part in (tasks, x, gates))
            y = tuple(targets.unflatten(0, shape) for targets in y)
            dropout = None if dropout is None else dropout.unflatten(0, shape)
        return Batch(tasks, x, y, Noise(gates, dropout))

    def _optimizer_groups(self) -> Iterator[dict[str, object]]:
        chosen = self.settings
        rates = {"logits": chosen.logit_learning_rate or chosen.learning_rate}
        alike: dict[tuple[float, float], list[Tensor]] = {}  # one call of the optimizer for each
        for group, flat in self.replicas.learnt():
            decay = chosen.weight_decay if group in ("weights", "scales") else 0.0
            alike.setdefault((rates.get(group, chosen.learning_rate), decay), []).append(flat)
        for (rate, decay), tensors in alike.items():
            yield {"params": tensors, "lr": rate, "weight_decay": decay}


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
