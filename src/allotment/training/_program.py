"""The training step of ``R`` runs."""

import warnings
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from .._checks import first_line
from .._streams import torch_stream
from ..network import HeadTable, Noise
from ..tasks import Split
from ._blocks import Block, BlockMaker
from ._capture import Gradients, capture
from ._charges import Charges
from ._graph import GraphSteps
from ._passes import Batch, Passes
from ._replicas import Replicas
from ._run import Run, check_alike
from ._state import put_back, taken
from ._store import Store, fit_together
from ._threads import threads_for


class Program:
    """``R`` runs on a device, and the step that takes all of them further."""

    def __init__(self, runs: Sequence[Run], device: torch.device) -> None:
        check_alike(runs)
        self.settings = runs[0].settings
        self._seed = runs[0].seed  # of draws that modules make by themselves, such as dropout
        self.n_tasks = len(runs[0].tasks)
        self.replicas = Replicas([run.network for run in runs], device)
        network = self.replicas.network
        self._store = _make_store(runs, device)
        heads, dropout = network.heads, network.dropout
        n_features = heads.weight.shape[-1] if dropout and isinstance(heads, HeadTable) else 0
        self._blocks = BlockMaker(runs, self._store, sum(network.layer_sizes), n_features)
        n_steps = self.settings.rounds * self.n_tasks
        charges = Charges([run.settings for run in runs], network.layer_sizes, n_steps)
        self.passes = Passes(runs, self.replicas, charges)
        self._learnt = [flat for _, flat in self.replicas.learnt()]
        self._optimizer = torch.optim.Adam(
            list(self._optimizer_groups()), fused=True, capturable=device.type == "cuda"
        )
        self._drawn = (0, self._blocks.make(0))
        first = self._drawn[1].to(device)
        self._losses_and_gradients: Gradients = self._eager
        self._graph: GraphSteps | None = None
        # Trying and recording are passes too; what they move is put back.
        untouched = self.replicas.snapshot()
        with torch_stream(self._seed, "trial"):
            self.passes.check(self._batch(first, 0))
            if self.settings.capture and self.passes.can_be_recorded:
                self._capture(first)
        self.replicas.restore(untouched)

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
            self._graph = GraphSteps(self._step, block, self.replicas, self._optimizer)
        except RuntimeError as error:
            warnings.warn(
                f"Training without a captured step, which is slower: {first_line(error)}",
                stacklevel=2,
            )

    def steps(self, number: int, n_steps: int) -> tuple[Tensor, Tensor]:
        """Takes the first steps of a block; returns their losses and tasks, ``[S, R]`` each."""
        if self._drawn[0] != number:
            self._drawn = (number, self._blocks.make(number))
        block = self._drawn[1]
        tasks = block.tasks[:n_steps].clone()
        if self._graph is None:
            on_device = block.to(self.replicas.device)
            with torch_stream(self._seed, "modules", number), threads_for(self.passes.n_operations):
                losses = [self._step(on_device, index) for index in range(n_steps)]
            return torch.stack(losses), tasks
        replayed = self._graph(block, n_steps)
        self._drawn = (number + 1, self._blocks.make(number + 1))  # while the device works
        return replayed, tasks

    def state(self) -> dict[str, Tensor]:
        """Returns copies of all that steps change."""
        return taken(self.replicas, self._optimizer)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a state, or forward to one of another program of the same runs."""
        put_back(tensors, self.replicas, self._optimizer)

    def _step(self, block: Block, index: int | Tensor) -> Tensor:
        """Takes one optimizer step and returns each run's loss without penalties, ``[R]``."""
        losses, gradients = self._losses_and_gradients(self._learnt, self._batch(block, index))
        for flat, gradient in zip(self._learnt, gradients, strict=True):
            flat.grad = gradient
        self._optimizer.step()
        self.replicas.step += 1
        return losses

    def _eager(self, learnt: list[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Returns each run's loss, ``[R]``, and the clipped gradients, ``[R, P]`` each."""
        losses, penalties = self.passes(learnt, batch)
        # The runs share nothing, so the gradient of the sum holds each run's own gradient.
        gradients = torch.autograd.grad((losses + penalties).sum(), learnt)
        return losses.detach(), clipped_per_run(gradients, self.settings.clip_norm)

    def _batch(self, block: Block, index: int | Tensor) -> Batch:
        dropout = None if block.dropout is None else _entry(block.dropout, index)
        noise = Noise(_entry(block.gates, index), dropout)
        tasks = _entry(block.tasks, index)
        if self._store is None:
            assert block.inputs is not None and block.targets is not None
            return Batch(tasks, _entry(block.inputs, index), _entry(block.targets, index), noise)
        assert block.rows is not None and block.kinds is not None
        x, y = self._store.fetch(_entry(block.rows, index), _entry(block.kinds, index))
        return Batch(tasks, x, y, noise)

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


def _entry(tensor: Tensor, index: int | Tensor) -> Tensor:
    """Returns ``tensor[index]``; an index on the device stays there."""
    return tensor[index] if isinstance(index, int) else tensor.index_select(0, index).squeeze(0)


def _make_store(runs: Sequence[Run], device: torch.device) -> Store | None:
    """Returns the training examples on the device; None where every batch is drawn afresh."""
    sources = [task.train for run in runs for task in run.tasks]
    splits = [source for source in sources if isinstance(source, Split)]
    if len(splits) == len(sources):
        alike = fit_together(splits)
    else:
        drawn = [source.draw(1, torch.Generator()) for source in sources if source not in splits]
        alike = not splits and len({(x.shape, x.dtype, y.shape, y.dtype) for x, y in drawn}) == 1
    if not alike:
        raise ValueError(
            "The tasks of a network should have training examples of one shape and type, "
            "all arrays or all fresh samples. Found different ones."
        )
    return Store(splits, device) if splits else None
