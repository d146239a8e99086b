"""The interface of every way of sharing components between tasks."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from .._checks import check_count


class Allocation(nn.Module, ABC):
    """Decides how much of each of a layer's ``C`` components each of ``T`` tasks uses.

    A task is an index: an int, or a tensor with one, so that runs which stand at different tasks
    can be computed together. The attributes are facts that the rest of the library asks for.

    A subclass writes `weights`, `matrix` and `probabilities`, and what else it needs. Its
    parameters, at any depth, train at the allocation's learning rate and without weight decay.
    It computes with tensors alone and never looks at their values: then many runs train as one
    program.

    Attributes:
        n_tasks: ``T``.
        n_components: ``C``.
        is_binary: Whether a task uses a component or does not; else the matrix holds shares.
        sees_examples: Whether weights depend on the examples; then there are some for each.
        n_noise: Uniform numbers that the draw of a training pass takes, for each example where
            weights depend on them; 0: nothing is drawn.
        same_in_evaluation: Whether every evaluation of a task has the same weights.
        n_batches: Training batches that have passed, where ``counts_batches``; else None.
    """

    n_tasks: int
    n_components: int
    is_binary: bool = True
    sees_examples: bool = False
    n_noise: int = 0
    same_in_evaluation: bool = True
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

        ``weights`` are those of the pass, ``loss`` is the task's.
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
        Here it changes nothing.
        """

    def let_runs_differ(self) -> None:
        """Makes buffers of numbers in which runs that train together may differ.

        It is called on copies, and only where they do differ. Here there are no such numbers.
        """

    def extra_repr(self) -> str:
        return f"n_tasks={self.n_tasks}, n_components={self.n_components}"


def check_counts(n_tasks: int, n_components: int) -> None:
    """Raises unless both are whole numbers from 1 on."""
    for name, n in (("n_tasks", n_tasks), ("n_components", n_components)):
        check_count(name, n)


def row(table: Tensor, task: int | Tensor) -> Tensor:
    """Returns ``table[task]`` without making the host wait for a task that is on a device."""
    if isinstance(task, int):
        return table[task]
    return table.index_select(0, task.reshape(1)).squeeze(0)
