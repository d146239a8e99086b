"""The interface of every way of sharing components between tasks."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ..._checks import check_at_least, check_whole


class Allocation(nn.Module, ABC):
    """Decides how much of each of a layer's ``C`` components each of ``T`` tasks uses.

    A task is an index: an int, or a tensor with one, so that runs which stand at different tasks
    can be computed together.
    """

    n_tasks: int
    n_components: int

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__()
        check_counts(n_tasks, n_components)
        self.n_tasks = n_tasks
        self.n_components = n_components

    @abstractmethod
    def weights(self, task: int | Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Returns the final weight of each component in this pass, shape ``[C]``.

        ``noise``, shape ``[C]``, uniform on (0, 1), makes the draw of a training pass a pure
        function; without it a draw comes from torch's generator.
        """

    @abstractmethod
    def matrix(self) -> Tensor:
        """Returns the binary allocation used for evaluation, shape ``[T, C]``."""

    @abstractmethod
    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        """Returns the probability of each gate to be open, ``[T, C]``, or ``[C]`` for a task."""

    def extra_repr(self) -> str:
        return f"n_tasks={self.n_tasks}, n_components={self.n_components}"


def check_counts(n_tasks: int, n_components: int) -> None:
    """Raises unless both are whole numbers from 1 on."""
    for name, n in (("n_tasks", n_tasks), ("n_components", n_components)):
        check_whole(name, n)
        check_at_least(name, n, 1)


def row(table: Tensor, task: int | Tensor) -> Tensor:
    """Returns ``table[task]`` without making the host wait for a task that is on a device."""
    if isinstance(task, int):
        return table[task]
    return table.index_select(0, task.reshape(1)).squeeze(0)
