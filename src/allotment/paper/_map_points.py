"""The points of the map of pairs: relatedness, examples, width, number; and the tasks at each."""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from .._streams import stream
from ..tasks import Split, Task
from ._synthetic import N_INPUTS, SineSamples, synthetic_pairs

RHOS = tuple(step / 10 for step in range(11))
EXAMPLES = (50, 200, 1_000, 5_000, None)  # labelled ones of a task; None: as many as are asked for
# Width and number of tasks are varied one at a time, over fewer points of the first two axes: a
# full grid would have nine times as many. With 50 and 200 examples of 128 numbers there is little
# to be learnt in any network, and unlimited ones take the most memory.
FEWER_RHOS, FEWER_EXAMPLES = RHOS[::2], (1_000, 5_000)
WIDTH, OTHER_WIDTHS = 16, (4, 64)
N_TASKS, OTHER_TASKS = 4, (8, 16)
VALIDATION = 0.2  # of the labelled examples
MOST_EXAMPLES = 5_000
N_VALIDATION, N_TEST = 1_000, 2_000  # where examples are unlimited, and always


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of the map."""

    rho: float
    n_examples: int | None
    width: int = WIDTH
    n_tasks: int = N_TASKS

    def __str__(self) -> str:
        found = {"rho": f"{self.rho:g}", "n": self.n_examples or "unlimited"}
        if self.width != WIDTH:
            found["width"] = self.width
        if self.n_tasks != N_TASKS:
            found["tasks"] = self.n_tasks
        return " ".join(f"{name}={value}" for name, value in found.items())


def points() -> list[Point]:
    """Returns all points of the map, those of the usual network and number of tasks first."""
    usual = [Point(rho=rho, n_examples=n) for n in EXAMPLES for rho in RHOS]
    fewer = [Point(rho=rho, n_examples=n) for n in FEWER_EXAMPLES for rho in FEWER_RHOS]
    wider = [replace(point, width=width) for width in OTHER_WIDTHS for point in fewer]
    more = [replace(point, n_tasks=n_tasks) for n_tasks in OTHER_TASKS for point in fewer]
    return [*usual, *wider, *more]


POINTS = {str(point): point for point in points()}


@lru_cache(maxsize=256)  # so that all points and methods of a seed hold one copy
def _inputs(seed: int, use: str, n: int) -> Tensor:
    return torch.randn(n, N_INPUTS, generator=stream(seed, f"map/{use}"))


def pairs_at(point: Point, *, seed: int) -> list[Task]:
    """Returns pairs of tasks with so many labelled examples, a fifth of them for validation.

    Fewer examples are a part of more, relatedness changes targets alone, and test examples are
    never trained on: what differs between points of one seed is what their names say.
    """
    n = point.n_examples or N_VALIDATION
    n_validation = N_VALIDATION if point.n_examples is None else round(VALIDATION * n)
    rows = torch.arange(n).split([n - n_validation, n_validation])
    test = _inputs(seed, "test", N_TEST)
    tasks = []
    for place, task in enumerate(synthetic_pairs(point.n_tasks // 2, point.rho, seed=seed)):
        samples: SineSamples = task.train
        x = _inputs(seed, f"examples/{place}", MOST_EXAMPLES)
        y = samples.labels(x, stream(seed, f"map/noise/{place}"))
        y_test = samples.labels(test, stream(seed, f"map/test noise/{place}"))
        train = samples if point.n_examples is None else Split(x, y, rows[0])
        tasks.append(
            replace(task, train=train, validation=Split(x, y, rows[1]), test=Split(test, y_test))
        )
    return tasks
