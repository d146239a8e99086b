"""The temperature of the gates over the course of training."""

from dataclasses import dataclass
from math import sqrt
from typing import overload

from torch import Tensor

from .._checks import check_field_types, check_positive


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """A temperature that falls as ``start / sqrt(step + 1)`` down to ``floor``.

    The paper says "annealing temperature"; the form and both numbers are those of the authors'
    code. With them the floor is reached at step 9,999.
    """

    start: float = 50.0
    floor: float = 0.5

    def __post_init__(self) -> None:
        check_field_types(self)
        check_positive("start", self.start)
        check_positive("floor", self.floor)

    @overload
    def __call__(self, step: int) -> float: ...

    @overload
    def __call__(self, step: Tensor) -> Tensor: ...

    def __call__(self, step: int | Tensor) -> float | Tensor:
        """Returns the temperature at this step, counted from 0."""
        if isinstance(step, Tensor):
            return (self.start / (step + 1.0).sqrt()).clamp_min(self.floor)
        return max(self.floor, self.start / sqrt(step + 1))
