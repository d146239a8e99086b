"""Tasks of one network that have different targets or losses, and the network with its loss."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map

from .._checks import described
from ..allocation import Allocation
from ..modules import HeadTable, Noise, Pass, TaskNetwork
from ..tasks import UNKNOWN, Loss, TargetSpec, Task, some_targets, target_spec
from ._precision import rounded, widened
from ._recording import compiled_pass

# A step of tensors computes the loss of every spec and keeps the task's own, so that each spec
# costs a few small operations; with more of them a task is a Python number instead.
MOST_SPECS = 8

# The outputs that a loss sees in place of those of another spec: inside the domain of losses that
# take probabilities, scales or logarithms. Neither its value nor its gradient counts.
_NEUTRAL = 0.5


class LossSpec(NamedTuple):
    """How outputs and targets become a loss; tasks of one spec need not be told apart."""

    loss: Loss
    target: TargetSpec
    width: int | None  # how many outputs are the task's own; None: padding does not matter


class Losses:
    """The loss specs of all tasks of ``R`` runs, and the loss of a batch.

    A batch holds targets of every spec, of which the one of its task counts. Where they
    ``are_masked``, behind them is what each label counts: nothing where it is not known.
    """

    def __init__(
        self,
        tasks: Sequence[Sequence[Task]],
        network: TaskNetwork,
        device: torch.device,
        *,
        are_masked: bool = False,
    ) -> None:
        self._are_masked = are_masked
        self._names = [[task.name for task in own] for own in tasks]
        examples: dict[LossSpec, Tensor] = {}  # a target of each spec
        self._rows: list[list[LossSpec]] = []  # by run and task
        for own in tasks:
            targets = [some_targets(task.train) for task in own]
            specs = [
                _loss_spec(task, t, target_spec(targets[t]), network) for t, task in enumerate(own)
            ]
            self._rows.append(specs)
            for spec, found in zip(specs, targets, strict=True):
                examples.setdefault(spec, found[0].to(device, spec.target.dtype))
        self._target_specs = list(dict.fromkeys(spec.target for row in self._rows for spec in row))
        self._specs, self._examples = list(examples), list(examples.values())
        numbers = [self._specs.index(spec) for spec in self._rows[0]]
        self._numbers = torch.tensor(numbers, device=device)  # [T], of the first run

    @property
    def are_one(self) -> bool:
        """Whether a loss is the same function of outputs and targets for every task."""
        return len(self._specs) == 1

    def why_not_by_tensor(self) -> str:
        """Returns why a task cannot be a tensor, or nothing."""
        if any(row != self._rows[0] for row in self._rows):
            return "runs with different losses or targets take the task as a Python number."
        if len(self._specs) > MOST_SPECS:
            return (
                f"tasks with more than {MOST_SPECS} specs of loss and target take the task as a "
                "Python number."
            )
        return ""

    def __call__(
        self, outputs: Tensor, targets: Sequence[Tensor], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of one run's batch, given its targets ``[B, ...]`` of every target."""
        if not self._are_masked:
            return self._of_all(outputs, targets, task, run)
        *targets, shares = targets
        each = torch.where(shares > 0, self._each(outputs, targets, task, run), 0.0)
        return (each * shares).sum()  # the mean over examples whose label is known

    def of_each(
        self, outputs: Tensor, targets: Sequence[Tensor], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of each example of one run's batch, ``[B]``; NaN without a label."""
        if not self._are_masked:
            return self._each(outputs, targets, task, run)
        *targets, shares = targets
        return torch.where(shares > 0, self._each(outputs, targets, task, run), torch.nan)

    def share(self, targets: Sequence[Tensor]) -> Tensor | float:
        """Returns what the mean over a piece counts: 1 where each piece has as many labels."""
        return targets[-1].sum() if self._are_masked else 1.0

    def _each(
        self, outputs: Tensor, targets: Sequence[Tensor], task: int | Tensor, run: int
    ) -> Tensor:
        return loss_of_each(lambda y, own: self._of_all(y, own, task, run), outputs, list(targets))

    def _of_all(
        self, outputs: Tensor, targets: Sequence[Tensor], task: int | Tensor, run: int
    ) -> Tensor:
        if self.are_one:
            first = self._names[run][0]
            return one_number(self._specs[0].loss(outputs, targets[0]), first, outputs.dtype)
        if isinstance(task, int):
            return self._loss_of(self._rows[run][task], outputs, targets, self._names[run][task])
        return self._chosen(outputs, targets, self._numbers.index_select(0, task.reshape(1))[0])

    def _loss_of(
        self, spec: LossSpec, outputs: Tensor, targets: Sequence[Tensor], name: str
    ) -> Tensor:
        try:
            loss = spec.loss(outputs, self._own(targets, spec))
        except Exception as error:
            error.add_note(f"This is the loss of task {name!r}.")
            raise
        return one_number(loss, name, outputs.dtype)

    def _chosen(self, outputs: Tensor, targets: Sequence[Tensor], number: Tensor) -> Tensor:
        """Returns the loss of the spec of this number.

        Other losses see values of their own kind, so that none of them meets a label that it has
        no class for; what comes back from them stops at `torch.where`, even where it is NaN.
        """
        chosen = outputs.new_zeros(())
        for index, spec in enumerate(self._specs):
            is_own = number == index
            seen = torch.where(is_own, outputs[..., : spec.width], _NEUTRAL)
            known = torch.where(is_own, self._own(targets, spec), self._examples[index])
            name = self._names[0][self._rows[0].index(spec)]
            loss = one_number(spec.loss(seen, known), name, outputs.dtype)
            chosen = torch.where(is_own, loss, chosen)
        return chosen

    def _own(self, targets: Sequence[Tensor], spec: LossSpec) -> Tensor:
        return targets[self._target_specs.index(spec.target)]


class StreamedLosses:
    """The loss of a batch, by its task's number."""

    are_one = False

    def __init__(self, tasks: Sequence[Sequence[Task]], why_apart: str) -> None:
        self._tasks = tasks
        self._why_apart = why_apart

    def why_not_by_tensor(self) -> str:
        """Returns why a task cannot be a tensor."""
        return self._why_apart

    def __call__(
        self, outputs: Tensor, targets: Sequence[Any], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of one run's batch."""
        own = self._tasks[run][int(task)]
        try:
            loss = own.loss_function(outputs, targets[0])
        except Exception as error:
            check_labels(own.name, "train", outputs, targets[0])
            error.add_note(f"This is the loss of task {own.name!r}.")
            raise
        return one_number(loss, own.name, outputs.dtype)

    def of_each(
        self, outputs: Tensor, targets: Sequence[Any], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of each example of one run's batch, ``[B]``; NaN without a label."""
        each = loss_of_each(lambda y, own: self(y, own, task, run), outputs, [targets[0]])
        return torch.where(has_label(targets[0], len(each)).to(each.device), each, torch.nan)

    def share(self, targets: Sequence[Any]) -> float:
        """Returns what a mean over a piece's examples counts: pieces are averaged as they are."""
        return 1.0


def has_label(targets: Any, n: int) -> Tensor:
    """Returns which of ``n`` examples have a label: all, but where labels are all -100.

    >>> has_label(torch.tensor([[0, -100], [-100, -100]]), 2)
    tensor([ True, False])
    """
    if not isinstance(targets, Tensor) or targets.is_floating_point():
        return torch.tensor(True).expand(n)
    return (targets != UNKNOWN).reshape(n, -1).any(dim=1)


def loss_of_each(loss_of: Callable[[Tensor, Any], Tensor], outputs: Tensor, targets: Any) -> Tensor:
    """Returns the loss of each example, ``[B]``: that of a batch of this one alone.

    Where it has no value for one example, as a standard deviation has none, it is infinite: not a
    number would stand for a label that is not known, and the training would go on in silence.
    """

    def one(example: Any) -> Tensor:
        output, target = tree_map(lambda part: part.unsqueeze(0), example)
        return loss_of(output, target)

    try:
        found: Tensor = vmap(one, randomness="different")((outputs, targets))
    except RuntimeError as error:
        error.add_note(
            "A loss should be one that `torch.func.vmap` takes where the loss of each example is "
            "asked for: some labels are not known, or an allocation `rewards_examples`."
        )
        raise
    return torch.where(found.isnan(), torch.inf, found)


def one_number(loss: object, name: str, dtype: torch.dtype) -> Tensor:
    """Returns the loss of a task as a scalar; raises unless it is a tensor of one number."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        found = described(loss)
        if isinstance(loss, Tensor):
            found = f"{str(loss.dtype).removeprefix('torch.')} of shape {list(loss.shape)}"
        raise ValueError(
            f"The loss of task {name!r} should be a tensor of one floating-point number, the mean "
            f"over a batch. Found {found}."
        )
    return loss.reshape(()).to(dtype)


class LossModule(nn.Module):
    """A network and its loss as one module: its state has a prefix, and a pass ends in a number."""

    def __init__(
        self,
        network: TaskNetwork,
        losses: Losses | StreamedLosses,
        mixed_precision: str,
        *,
        is_compiled: bool,
    ) -> None:
        super().__init__()
        self.network = network
        self._compute = compiled_pass(network) if is_compiled else network.compute
        self._losses = losses
        self._mixed_precision = mixed_precision
        allocations = [layer.allocation for layer in network.modular_layers]
        self._has_auxiliary = any(
            type(allocation).auxiliary_loss is not Allocation.auxiliary_loss
            for allocation in allocations
        )
        self._rewards_examples = any(allocation.rewards_examples for allocation in allocations)

    def forward(
        self, task: int | Tensor, x: Any, y: tuple[Tensor, ...], noise: Noise, run: int
    ) -> tuple[Tensor, ...]:
        """Returns the loss, and what allocations add to it."""
        running = Pass(task, noise)
        outputs = widened(self._compute(rounded(x, self._mixed_precision), running))
        loss = self._losses(outputs, y, task, run)
        if not self._has_auxiliary:
            return (loss,)
        if not self._rewards_examples:
            return loss, *running.charges(loss)
        each = self._losses.of_each(outputs.detach(), y, task, run)
        return loss, *running.charges(loss, each, self._losses.share(y))


def _loss_spec(task: Task, index: int, target: TargetSpec, network: TaskNetwork) -> LossSpec:
    loss, heads = task.loss_function, network.heads
    ignores_padding = loss is F.cross_entropy and target.dtype == torch.int64
    if isinstance(heads, HeadTable) and heads.is_padded and not ignores_padding:
        return LossSpec(loss, target, heads.widths[index])
    return LossSpec(loss, target, None)


def check_labels(name: str, split: str, outputs: Tensor, targets: object) -> None:
    """Raises where labels have no output; to be called when a loss has failed."""
    if not isinstance(targets, Tensor) or targets.is_floating_point() or outputs.ndim < 2:
        return
    width, known = outputs.shape[1], targets[targets != UNKNOWN]
    beyond = known[(known < 0) | (known >= width)]
    if len(beyond):
        raise ValueError(
            f"Task {name!r} should have labels from 0 to {width - 1}, since the network has "
            f"{width} output{'s' * (width > 1)} for it. "
            f"Found the label {int(beyond[0])} in `{split}`."
        )
