"""The training step of ``R`` runs, and their evaluation."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..network import HeadTable, Noise
from ..tasks import Split
from ._blocks import Block, BlockMaker
from ._capture import Gradients, capture
from ._charges import Charges
from ._passes import Batch, Passes
from ._replicas import Replicas
from ._run import Run, check_alike
from ._store import Store, fit_together


class Program:
    """``R`` runs on a device, and the step that takes all of them further."""

    def __init__(self, runs: Sequence[Run], device: torch.device) -> None:
        check_alike(runs)
        self.settings = runs[0].settings
        self.n_tasks = len(runs[0].tasks)
        self.n_steps = self.settings.rounds * self.n_tasks
        self.replicas = Replicas([run.network for run in runs], device)
        network = self.replicas.network
        self._store = _make_store(runs, device)
        heads, dropout = network.heads, network.dropout
        n_features = heads.weight.shape[-1] if dropout and isinstance(heads, HeadTable) else 0
        self.blocks = BlockMaker(runs, self._store, sum(network.layer_sizes), n_features)
        charges = Charges([run.settings for run in runs], network.layer_sizes, self.n_steps)
        self.passes = Passes(runs, self.replicas, charges)
        batch = self._batch(self.blocks.make(0).to(device), 0)
        self.passes.check(batch)
        self.optimizer = torch.optim.Adam(list(self._optimizer_groups()), fused=True)
        self._learnt = [flat for _, flat in self.replicas.learnt()]
        self._losses_and_gradients: Gradients = self._eager
        if self.settings.capture and self.passes.by_tensor and not self.replicas.keeps_statistics:
            self._losses_and_gradients = capture(self._eager, self._learnt, batch)

    def step(self, block: Block, index: int) -> Tensor:
        """Takes one optimizer step and returns each run's loss without penalties, ``[R]``."""
        losses, gradients = self._losses_and_gradients(self._learnt, self._batch(block, index))
        for flat, gradient in zip(self._learnt, gradients, strict=True):
            flat.grad = gradient
        self.optimizer.step()
        self.replicas.step += 1
        return losses

    def _eager(self, learnt: list[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Returns each run's loss, ``[R]``, and the clipped gradients, ``[R, P]`` each."""
        losses, penalties = self.passes(learnt, batch)
        # The runs share nothing, so the gradient of the sum holds each run's own gradient.
        gradients = torch.autograd.grad((losses + penalties).sum(), learnt)
        return losses.detach(), clipped_per_run(gradients, self.settings.clip_norm)

    def _batch(self, block: Block, index: int) -> Batch:
        dropout = None if block.dropout is None else block.dropout[index]
        noise = Noise(block.gates[index], dropout)
        if self._store is None:
            assert block.inputs is not None and block.targets is not None
            return Batch(block.tasks[index], block.inputs[index], block.targets[index], noise)
        assert block.rows is not None and block.views is not None
        x, y = self._store.fetch(block.rows[index], block.views[index])
        return Batch(block.tasks[index], x, y, noise)

    def _optimizer_groups(self) -> Iterator[dict[str, object]]:
        chosen = self.settings
        rates = {"logits": chosen.logit_learning_rate or chosen.learning_rate}
        for group, flat in self.replicas.learnt():
            yield {
                "params": [flat],
                "lr": rates.get(group, chosen.learning_rate),
                "weight_decay": chosen.weight_decay if group == "weights" else 0.0,
            }


def clipped_per_run(gradients: Sequence[Tensor], norm: float | None) -> list[Tensor]:
    """Returns gradients ``[R, P]``, each run's shortened to ``norm`` where it is longer."""
    if norm is None:
        return list(gradients)
    squares = torch.stack([gradient.square().sum(dim=1) for gradient in gradients])
    factor = (norm / (squares.sum(dim=0).sqrt() + 1e-6)).clamp_max(1.0)  # [R]
    return [gradient * factor.unsqueeze(1) for gradient in gradients]


def _make_store(runs: Sequence[Run], device: torch.device) -> Store | None:
    """Returns the training examples on the device; None where every batch is drawn afresh."""
    sources = [task.train for run in runs for task in run.tasks]
    splits = [source for source in sources if isinstance(source, Split)]
    if not splits:
        return None
    if len(splits) < len(sources) or not fit_together(splits):
        raise ValueError(
            "The tasks of a network should have training examples of one shape and type, "
            "all arrays or all fresh samples. Found different ones."
        )
    return Store(splits, device)
