"""Tasks of one network that have different targets or losses."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..network import HeadTable, MultiTaskNetwork
from ..tasks import FreshSamples, Loss, Split, Task
from ._run import Run

# A step of tensors computes the loss of every form and keeps the task's own, so that each form
# costs a few small operations; with more of them a task is a Python number instead.
MOST_FORMS = 8

# The outputs that a loss sees in place of those of another form: inside the domain of losses that
# take probabilities, scales or logarithms. Neither its value nor its gradient counts.
_NEUTRAL = 0.5


class Layout(NamedTuple):
    """The type and the shape of one target; targets of one layout lie in one array."""

    dtype: torch.dtype
    shape: torch.Size


class Form(NamedTuple):
    """How outputs and targets become a loss; tasks of one form need not be told apart."""

    loss: Loss
    layout: Layout
    width: int | None  # how many outputs are the task's own; None: padding does not matter


def layout_of(targets: Tensor) -> Layout:
    """Returns the layout of targets ``[N, ...]``; integers of any kind are to be 64 bits wide."""
    dtype = targets.dtype if targets.is_floating_point() else torch.int64
    return Layout(dtype, targets.shape[1:])


def some_targets(source: Split | FreshSamples) -> Tensor:
    """Returns one target or more from the examples of a task, ``[N, ...]``."""
    if not isinstance(source, Split):
        return source.draw(1, torch.Generator())[1]
    return source.targets if source.rows is None else source.targets[source.rows[:1]]


class Forms:
    """The forms of all tasks of ``R`` runs, and the loss of a batch.

    A batch holds targets of every layout, of which the one of its task counts.
    """

    def __init__(
        self, runs: Sequence[Run], network: MultiTaskNetwork, device: torch.device
    ) -> None:
        self._names = [[task.name for task in run.tasks] for run in runs]
        examples: dict[Form, Tensor] = {}  # a target of each form
        self._rows: list[list[Form]] = []  # by run and task
        for run in runs:
            targets = [some_targets(task.train) for task in run.tasks]
            layouts = [layout_of(found) for found in targets]
            forms = [_form(task, t, layouts[t], network) for t, task in enumerate(run.tasks)]
            self._rows.append(forms)
            for form, found in zip(forms, targets, strict=True):
                examples.setdefault(form, found[0].to(device, form.layout.dtype))
        self._layouts = list(dict.fromkeys(form.layout for row in self._rows for form in row))
        self._forms, self._examples = list(examples), list(examples.values())
        numbers = [self._forms.index(form) for form in self._rows[0]]
        self._numbers = torch.tensor(numbers, device=device)  # [T], of the first run

    @property
    def are_one(self) -> bool:
        """Whether a loss is the same function of outputs and targets for every task."""
        return len(self._forms) == 1

    def why_not_by_tensor(self) -> str:
        """Returns why a task cannot be a tensor, or nothing."""
        if any(row != self._rows[0] for row in self._rows):
            return "runs with different losses or targets take the task as a Python number."
        if len(self._forms) > MOST_FORMS:
            return (
                f"tasks with more than {MOST_FORMS} forms of loss and target take the task as a "
                "Python number."
            )
        return ""

    def loss(
        self, outputs: Tensor, targets: Sequence[Tensor], task: int | Tensor, run: int
    ) -> Tensor:
        """Returns the loss of one run's batch, given its targets ``[B, ...]`` of every layout."""
        if self.are_one:
            return self._forms[0].loss(outputs, targets[0])
        if isinstance(task, int):
            return self._loss_of(self._rows[run][task], outputs, targets, self._names[run][task])
        return self._chosen(outputs, targets, self._numbers.index_select(0, task.reshape(1))[0])

    def _loss_of(self, form: Form, outputs: Tensor, targets: Sequence[Tensor], name: str) -> Tensor:
        try:
            return form.loss(outputs, self._own(targets, form)).to(outputs.dtype)
        except Exception as error:
            error.add_note(f"This is the loss of task {name!r}.")
            raise

    def _chosen(self, outputs: Tensor, targets: Sequence[Tensor], number: Tensor) -> Tensor:
        """Returns the loss of the form of this number.

        Other losses see values of their own kind, so that none of them meets a label that it has
        no class for; what comes back from them stops at `torch.where`, even where it is NaN.
        """
        chosen = outputs.new_zeros(())
        for index, form in enumerate(self._forms):
            is_own = number == index
            seen = torch.where(is_own, outputs[..., : form.width], _NEUTRAL)
            known = torch.where(is_own, self._own(targets, form), self._examples[index])
            chosen = torch.where(is_own, form.loss(seen, known).to(outputs.dtype), chosen)
        return chosen

    def _own(self, targets: Sequence[Tensor], form: Form) -> Tensor:
        return targets[self._layouts.index(form.layout)]


def _form(task: Task, index: int, layout: Layout, network: MultiTaskNetwork) -> Form:
    loss, heads = task.loss_function, network.heads
    ignores_padding = loss is F.cross_entropy and layout.dtype == torch.int64
    if isinstance(heads, HeadTable) and heads.is_padded and not ignores_padding:
        return Form(loss, layout, heads.widths[index])
    return Form(loss, layout, None)
