"""The interface of every way of sharing components between tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_count, described


class Allocation(nn.Module, ABC):
    """Decides how much of each of a layer's ``C`` components each of ``T`` tasks uses.

    A task is an index: an int, or a tensor with one, so that runs which stand at different tasks
    can be computed together. The attributes are facts that the rest of the library asks for.

    A subclass writes `weights`, `matrix` and `probabilities`, and what else it needs. Its
    parameters, at any depth, train at the allocation's learning rate and without weight decay.
    It computes with tensors alone and never looks at their values: then many runs train as one
    program.

    >>> import torch
    >>> from torch import nn
    >>> from allotment.allocation import Allocation, row
    >>> class Shares(Allocation):
    ...     is_binary = False
    ...     def __init__(self, n_tasks, n_components):
    ...         super().__init__(n_tasks, n_components)
    ...         self.scores = nn.Parameter(torch.zeros(n_tasks, n_components))
    ...     def weights(self, task, x=None, *, noise=None):
    ...         return self.probabilities(task)
    ...     def probabilities(self, task=None):
    ...         scores = self.scores if task is None else row(self.scores, task)
    ...         return scores.softmax(-1)
    ...     def matrix(self):
    ...         return self.probabilities().detach()
    >>> Shares(2, 4).matrix()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])

    Attributes:
        n_tasks: ``T``.
        n_components: ``C``.
        is_binary: Whether a task uses a component or does not; else the matrix holds shares.
        sees_examples: Whether weights depend on the examples; then there are some for each.
        rewards_examples: Whether `auxiliary_loss` is given the loss of each example.
        n_noise: Uniform numbers that the draw of a training pass takes, for each example where
            weights depend on them; 0: nothing is drawn.
        same_in_evaluation: Whether every evaluation of a task has the same weights.
        keeps_one: Whether the most likely gate opens where all others are shut, in training and in
            evaluation, so that no task is left with nothing of a layer.
        n_batches: Training batches that have passed, where ``counts_batches``; else None.
        axes: The tensors that grow and shrink with tasks and components, by name, with a letter for
            each dimension: ``(("logits", "TC"),)``. Without any, no task is added or dropped.

    Args:
        n_tasks: Number of tasks, ``T``.
        n_components: Number of components in the layer, ``C``.
        counts_batches: Whether ``n_batches`` counts the training batches that have passed.
    """

    n_tasks: int
    n_components: int
    is_binary: bool = True
    sees_examples: bool = False
    rewards_examples: bool = False
    n_noise: int = 0
    same_in_evaluation: bool = True
    keeps_one: bool = False
    _version = 2  # of its state: networks that were saved as version 1 left tasks with nothing
    axes: tuple[tuple[str, str], ...] = ()
    stands_alone = True  # a component with an allocation inside is not stacked with others
    n_batches: Tensor | None

    def __init__(self, n_tasks: int, n_components: int, *, counts_batches: bool = False) -> None:
        super().__init__()
        check_counts(n_tasks, n_components)
        self.n_tasks = n_tasks
        self.n_components = n_components
        # A count that travels with the weights, so that annealing goes on where it stood.
        count = torch.zeros((), dtype=torch.int64) if counts_batches else None
        self.register_buffer("n_batches", count)

    @property
    def is_learnt(self) -> bool:
        """Whether training changes it."""
        return any(parameter.requires_grad for parameter in self.parameters())

    @abstractmethod
    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        """Returns the final weight of each component in this pass, ``[C]``.

        Where it sees examples: ``[B, C]``, given the layer's input ``x``, ``[B, ...]``.
        ``noise``, uniform on (0, 1), of shape ``[n_noise]`` or ``[B, n_noise]``, makes the draw of
        a training pass a pure function; without it a draw comes from torch's generator.
        """

    @abstractmethod
    def matrix(self) -> Tensor:
        """Returns what evaluation uses, shape ``[T, C]``: 0 or 1, or shares where not binary."""

    @abstractmethod
    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        """Returns the probability of each gate to be open, ``[T, C]``, or ``[C]`` for a task.

        Where not binary: the shares.
        """

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        """Returns what the method adds to the loss of a training batch, or None for nothing.

        ``weights`` are those of the pass, ``loss`` is the task's. One that ``rewards_examples`` is
        given the loss of each example, ``[B]``, NaN where its label is not known, which the task's
        loss has to give by `torch.func.vmap`. In a loop of one's own it may be the task's mean.
        """
        return None

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        """Takes note of a task's loss in a training batch, for methods that learn by reward.

        It is the loss as it is told: no weight of the task and no penalty is in it. `fit` and
        `train` call it after each step, before `advance`, and leave out a batch without labels of
        the task; in a loop of one's own it is to be called. What changes here is a buffer, as in
        `advance`.
        """

    def advance(self) -> None:
        """Takes note that a training batch has passed.

        What changes here is a buffer, never a Python number: a recorded step would not see it.
        """
        if self.n_batches is not None:
            self.n_batches += 1

    def expect(self, n_batches: int) -> None:
        """Is told, before the first, how many training batches there will be.

        `fit`, `train` and the Lightning module call it; in a loop of one's own it is to be called.
        Here it changes nothing; it is for allocations that go by the length of a training.
        """

    def let_runs_differ(self) -> None:
        """Makes buffers of numbers in which runs that train together may differ.

        It is called on copies, and only where they do differ. Here there are no such numbers.
        """

    def add_task(self, like: Any = None) -> None:
        """Adds a task behind the others, with a copy of the row of the task ``like``.

        None: with a row that favours no component, see `new_row`.
        """
        if not isinstance(like, int | None):
            raise ValueError(
                "`like` should be one of the network's tasks, or None, where gates do not follow "
                f"from what is known of a task. Found {described(like)} for {type(self).__name__}."
            )

        def grown(name: str, table: Tensor) -> Tensor:
            own = self.new_row(name, table) if like is None else table[like]
            return torch.cat([table, own.unsqueeze(0)])

        self._change("T", grown)
        self.n_tasks += 1

    def new_row(self, name: str, table: Tensor) -> Tensor:
        """Returns what a task that is like no other starts with, in one of its tables: zeros."""
        return torch.zeros_like(table[0])

    def keep_tasks(self, tasks: Sequence[int]) -> None:
        """Takes these tasks alone, in this order."""
        self._change("T", lambda name, table: table[list(tasks)])
        self.n_tasks = len(tasks)

    def keep_components(self, components: Sequence[int]) -> None:
        """Takes these components alone; weights of the others should be zero for every task."""
        places = torch.tensor(list(components))
        if self.n_noise == self.n_components:  # a draw for each component
            self.n_noise = len(components)
        for name, letters in self._tables("C"):
            dim = letters.index("C")
            self._replace(name, lambda t, dim=dim: t.index_select(dim, places.to(t.device)))  # type: ignore[misc]
        self.n_components = len(components)

    def task_tables(self) -> list[Tensor]:
        """Returns the tensors that have a row for each task."""
        found = (self._owner(name)[2] for name, _ in self._tables("T"))
        return [table for table in found if table is not None]

    @torch.no_grad()
    def take_rows(self, other: "Allocation", tasks: Sequence[int]) -> None:
        """Copies the rows of another, which has these tasks alone, into those of the tasks."""
        for own, theirs in zip(self.task_tables(), other.task_tables(), strict=True):
            own[list(tasks)] = theirs.to(own)

    @property
    def can_lose_components(self) -> bool:
        """Whether components that no task uses in evaluation can be told, and taken away."""
        is_told = self.same_in_evaluation and not self.sees_examples
        return is_told and bool(self._tables("C"))

    def _tables(self, letter: str) -> list[tuple[str, str]]:
        """Returns the names and axes of the tensors that have an axis, those that there are."""
        return [
            (name, letters)
            for name, letters in self.axes
            if letter in letters and self._owner(name)[2] is not None
        ]

    def _owner(self, name: str) -> tuple[nn.Module, str, Tensor | None]:
        path, _, leaf = name.rpartition(".")
        owner = self.get_submodule(path)
        return owner, leaf, getattr(owner, leaf)

    def _change(self, letter: str, changed: Callable[[str, Tensor], Tensor]) -> None:
        tables = self._tables(letter)
        if not tables:
            raise ValueError(
                "`network` should have allocations whose tasks may come and go, such as say in "
                f"`axes` which tensors have a row for each. Found {type(self).__name__}."
            )
        for name, _ in tables:
            self._replace(name, lambda table, name=name: changed(name, table))  # type: ignore[misc]

    @torch.no_grad()
    def _replace(self, name: str, changed: Callable[[Tensor], Tensor]) -> None:
        """Puts another tensor in the place of one, a parameter where that is one."""
        owner, leaf, old = self._owner(name)
        assert old is not None
        new = changed(old.detach()).clone()
        if isinstance(old, nn.Parameter):
            new = nn.Parameter(new, requires_grad=old.requires_grad)
        setattr(owner, leaf, new)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", self._version) < 2:
            self.keeps_one = False  # so that its outputs are those that it had
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return f"n_tasks={self.n_tasks}, n_components={self.n_components}"


def check_counts(n_tasks: int, n_components: int) -> None:
    """Raises unless both are whole numbers from 1 on."""
    for name, n in (("n_tasks", n_tasks), ("n_components", n_components)):
        check_count(name, n)


def row(table: Tensor, task: int | Tensor) -> Tensor:
    """Returns ``table[task]`` without making the host wait for a task that is on a device.

    >>> import torch
    >>> row(torch.tensor([[1, 2], [3, 4]]), 1)
    tensor([3, 4])

    Args:
        table: A row for each task, ``[T, ...]``.
        task: The task's index, a number or a tensor.
    """
    if isinstance(task, int):
        return table[task]
    return table.index_select(0, task.reshape(1)).squeeze(0)
