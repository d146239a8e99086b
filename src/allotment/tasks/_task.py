"""One thing to learn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import check_positive
from ._split import GeneratedDataset, Split, as_split, with_known_targets

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Task:
    """A named task with its examples.

    ``train``, ``validation`` and ``test`` are splits, pairs of tensors or arrays, or map-style
    datasets; ``train`` may be `GeneratedDataset` too. Integer targets of -100 are labels that are
    not known: examples without any known label are left out.

    Attributes:
        name: Different from the other tasks' names.
        train: Examples to learn from.
        validation: Examples to choose the best weights on, if any.
        test: Examples that are looked at once, at the end, if any.
        n_outputs: Numbers the network gives; 0: the largest label + 1, or the targets' width.
        loss: From outputs and targets to the mean over a batch; None: cross-entropy for integer
            targets (a classification), the mean squared error for others (a regression).
        family: The group the task is known to belong to, for analysis alone.
        weight: What its loss is multiplied by in training; losses are reported without it.
    """

    name: str
    train: Any
    validation: Any = None
    test: Any = None
    n_outputs: int = 0
    loss: Loss | None = None
    family: str = ""
    weight: float = 1.0

    def __repr__(self) -> str:
        sizes = [
            f"{len(split):,} {name} examples"
            for name in ("train", "validation", "test")
            if isinstance(split := getattr(self, name), Split)
        ]
        if isinstance(self.train, GeneratedDataset):
            sizes.insert(0, "generated examples")
        outputs = f"{self.n_outputs} output{'s' * (self.n_outputs != 1)}"
        return f"Task({self.name!r}: {', '.join([*sizes, outputs])})"

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            value = getattr(self, part)
            if value is None and part != "train":
                continue
            if isinstance(value, GeneratedDataset):
                if part == "train":
                    continue
                raise ValueError(
                    f"Task {self.name!r}: `{part}` should be fixed. Found GeneratedDataset."
                )
            try:
                object.__setattr__(self, part, with_known_targets(as_split(value)))
            except ValueError as error:
                raise ValueError(f"Task {self.name!r}, {part}: {error}") from error
        check_positive("weight", self.weight)
        if self.loss is not None and not callable(self.loss):
            raise TypeError(
                f"Task {self.name!r}: `loss` should be a function of outputs and targets, such as "
                "torch.nn.functional.l1_loss, or None: cross-entropy for integer targets, the "
                f"mean squared error for others. Found `loss = {self.loss!r}`."
            )
        if self.n_outputs == 0:
            object.__setattr__(self, "n_outputs", self._natural_n_outputs())

    @property
    def loss_function(self) -> Loss:
        """The loss that was chosen, or the natural one for the targets."""
        if self.loss is not None:
            return self.loss
        return F.cross_entropy if self._has_integers else mean_squared_error

    @property
    def is_classification(self) -> bool:
        """Whether targets are class labels: integers with an output for each class.

        With cross-entropy there may be several labels for an example; with any other loss there is
        one, and at least two outputs.
        """
        if not self._has_integers or _is_cross_entropy(self.loss_function):
            return self._has_integers
        return bool(self.train.targets.ndim == 1 and self.n_outputs != 1)

    @property
    def _has_integers(self) -> bool:
        return isinstance(self.train, Split) and not self.train.targets.is_floating_point()

    def split(self, name: str) -> Split | None:
        """Returns the split of this name, if the task has it."""
        value = getattr(self, name)
        return value if isinstance(value, Split) else None

    def _natural_n_outputs(self) -> int:
        if not isinstance(self.train, Split):
            return 1
        targets = self.train.targets
        if self.is_classification:
            own = targets if self.train.rows is None else targets[self.train.rows]
            return int(own.max()) + 1
        return 1 if targets.ndim == 1 else targets.shape[1]


def _is_cross_entropy(loss: Loss) -> bool:
    """Tells whether a loss is torch's cross-entropy, be it with weights or smoothed labels."""
    function = loss.func if isinstance(loss, partial) else loss
    return function is F.cross_entropy or isinstance(function, nn.CrossEntropyLoss)


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean squared error; outputs ``[B, 1]`` may stand against targets ``[B]``."""
    if outputs.numel() != targets.numel():
        raise ValueError(
            "Outputs should have as many numbers as targets. "
            f"Found shapes {list(outputs.shape)} and {list(targets.shape)}."
        )
    return (outputs.view_as(targets) - targets).square().mean()


def check_names(tasks: Sequence[Task]) -> None:
    """Raises unless there are tasks and their names are different."""
    names = [task.name for task in tasks]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"`tasks` should be tasks with different names. Found {names}.")
