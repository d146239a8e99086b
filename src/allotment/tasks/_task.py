"""One thing to learn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import check_count, check_number, check_positive, described
from ._labels import MultiLabel, TaskLabels
from ._split import GeneratedDataset, Split, with_known_targets
from ._stream import ArrayExamples, IndexedExamples, Stream, as_inputs, as_source, as_targets

Loss = Callable[[Tensor, Tensor], Tensor]
# From the outputs and targets of a whole split to a number, or a metric of torchmetrics.
Metric = Callable[[Tensor, Tensor], Any]
HeldOut = Split | IndexedExamples | Stream | TaskLabels


@dataclass(frozen=True, eq=False)
class Task:
    """A named task with its examples.

    ``train``, ``validation`` and ``test`` are pairs of tensors or arrays, of which inputs may be a
    dict or a tuple of arrays; map-style datasets; or whatever gives batches: a `DataLoader`, an
    iterable, a function that returns an iterator. What has targets of several tasks is a
    `MultiLabel`, given to each. ``train`` may be a `GeneratedDataset` too.
    Arrays lie on the device as a whole; all else is fetched batch by batch. Integer targets of -100
    are labels that are not known: examples without any known label are left out.

    >>> import torch
    >>> import allotment as al
    >>> x = torch.randn(30, 8)
    >>> al.Task("size", train=(x[:20], x[:20].sum(1)), test=(x[20:], x[20:].sum(1)))
    Task('size': 20 train examples, 10 test examples, 1 output)
    >>> al.Task("sign", train=(x, (x[:, 0] > 0).long()), weight=2.0)
    Task('sign': 30 train examples, 2 outputs)

    Attributes:
        name: Different from the other tasks' names.
        train: Examples to learn from.
        validation: Examples to choose the best weights on, if any.
        test: Examples that are looked at once, at the end, if any.
        n_outputs: Numbers the network gives; 0: the largest label + 1, or the targets' width, where
            the examples are arrays.
        loss: From outputs and targets to the mean over a batch; None: cross-entropy for integer
            targets (a classification), the mean squared error for others (a regression).
        family: The group the task is known to belong to, for analysis alone.
        weight: What its loss is multiplied by in training; losses are reported without it.
        sampling: How often it is drawn beside the others; where all are alike, a round has one
            batch of each. See `sampling_power` of the settings.
        metrics: By name, functions of the outputs and targets of a whole split, or metrics of
            torchmetrics; for validation and test.
    """

    name: str
    train: Any
    validation: Any = None
    test: Any = None
    n_outputs: int = 0
    loss: Loss | None = None
    family: str = ""
    weight: float = 1.0
    sampling: float = 1.0
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = [
            f"{len(split):,} {name} examples"
            for name in ("train", "validation", "test")
            if isinstance(split := getattr(self, name), Split | IndexedExamples)
        ]
        if isinstance(self.train, GeneratedDataset):
            sizes.insert(0, "generated examples")
        if isinstance(self.train, Stream):
            sizes.insert(0, "batches that stream")
        if isinstance(self.train, TaskLabels):
            sizes.insert(0, "shared batches")
        if self.n_outputs:
            sizes.append(f"{self.n_outputs} output{'s' * (self.n_outputs != 1)}")
        return f"Task({self.name!r}: {', '.join(sizes)})"

    def __post_init__(self) -> None:
        self._check_values()
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
                source = self._source(value)
                known = with_known_targets(source) if isinstance(source, Split) else source
                object.__setattr__(self, part, known)
            except ValueError as error:
                raise ValueError(f"Task {self.name!r}, {part}: {error}") from error
        if self.n_outputs == 0:
            object.__setattr__(self, "n_outputs", self._natural_n_outputs())

    def _source(self, value: Any) -> HeldOut:
        """Returns where examples come from, given any of the forms they may have."""
        if isinstance(value, MultiLabel):
            return TaskLabels(value, self.name)
        return value if isinstance(value, TaskLabels) else as_source(value)

    def _check_values(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"`name` should be a text that is not empty. Found {self.name!r}.")
        check_count("n_outputs", self.n_outputs, 0)
        for name, value in (("weight", self.weight), ("sampling", self.sampling)):
            check_number(name, value)
            check_positive(name, value)
        if self.loss is not None and not callable(self.loss):
            raise TypeError(
                f"Task {self.name!r}: `loss` should be a function of outputs and targets, such as "
                "torch.nn.functional.l1_loss, or None: cross-entropy for integer targets, the "
                f"mean squared error for others. Found `loss = {self.loss!r}`."
            )
        if not isinstance(self.metrics, Mapping):
            raise TypeError(
                f"Task {self.name!r}: `metrics` should be a dict of functions by name, such as "
                f'{{"auc": f}}. Found {described(self.metrics)}.'
            )
        for name, metric in self.metrics.items():
            if not callable(metric) or isinstance(metric, type):
                raise TypeError(
                    f"Task {self.name!r}: `metrics` should be functions of outputs and targets, or "
                    "metrics of torchmetrics, such as `BinaryAUROC()`. "
                    f"Found {described(metric)} for {name!r}."
                )

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
        return bool(self._some_targets.ndim == 1 and self.n_outputs != 1)

    @property
    def _has_integers(self) -> bool:
        if isinstance(self.train, GeneratedDataset):
            return False
        targets = self._some_targets
        return isinstance(targets, Tensor) and not targets.is_floating_point()

    @property
    def _some_targets(self) -> Any:
        if isinstance(self.train, Split | ArrayExamples):
            return self.train.targets
        try:
            return self.train.first()[1]
        except ValueError as error:
            raise ValueError(f"Task {self.name!r}, train: {error}") from error

    def split(self, name: str) -> Split | None:
        """Returns the arrays of a split, where it has this split and they are arrays."""
        value = getattr(self, name)
        return value if isinstance(value, Split) else None

    def held_out(self, name: str) -> HeldOut | None:
        """Returns where the examples of a split come from, if the task has it."""
        value: HeldOut | None = getattr(self, name)
        return value

    def _natural_n_outputs(self) -> int:
        if isinstance(self.train, GeneratedDataset):
            return 1
        if not isinstance(self.train, Split | ArrayExamples):
            return 0  # not known before all labels are seen
        targets = self.train.targets
        if self.is_classification:
            rows = self.train.rows if isinstance(self.train, Split) else None
            own = targets if rows is None else targets[rows]
            return int(own.max()) + 1
        return 1 if targets.ndim == 1 else targets.shape[1]


def _is_cross_entropy(loss: Loss) -> bool:
    """Tells whether a loss is torch's cross-entropy, be it with weights or smoothed labels."""
    function = loss.func if isinstance(loss, partial) else loss
    return function is F.cross_entropy or isinstance(function, nn.CrossEntropyLoss)


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean squared error; outputs ``[B, 1]`` may stand against targets ``[B]``.

    >>> mean_squared_error(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [4.0]]))
    tensor(2.)

    Args:
        outputs: Of the network, ``[B, O]``.
        targets: Of the same shape.
    """
    if outputs.numel() != targets.numel():
        raise ValueError(
            "Outputs should have as many numbers as targets. "
            f"Found shapes {list(outputs.shape)} and {list(targets.shape)}."
        )
    return (outputs.view_as(targets) - targets).square().mean()


def check_names(tasks: Sequence[Task]) -> None:
    """Raises unless there are tasks and their names are different.

    >>> check_names([Task("a", (torch.zeros(2, 1), torch.zeros(2)))])
    """
    names = [task.name for task in tasks]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"`tasks` should be tasks with different names. Found {names}.")


def two_examples(source: HeldOut | GeneratedDataset) -> tuple[Any, Any]:
    """Returns two inputs or a batch of them, as a network sees them, and their targets."""
    if isinstance(source, GeneratedDataset):
        return source.draw(2, torch.Generator())
    if isinstance(source, Split):
        x, y = source.fetch(torch.arange(2) % len(source))
    else:
        x, y = source.first()
    return as_inputs(x), as_targets(y)
