"""Pairs of regression tasks whose relatedness is chosen, and the paper's experiments on them."""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from .._checks import check_at_least
from .._streams import stream
from ..allocation import FixedMatrix, SharedBottom
from ..experiments import DataOptions, Experiment, Method, ReportOptions, using
from ..settings import Optimization, TrainingSettings
from ..tasks import GeneratedDataset, Split, Task
from ._methods import GUMBEL, NO_SHARING
from .networks import pairs_network, transfer_network

N_INPUTS = 128  # d
SCALE = 1.0  # c
N_SINES = 6  # m
NOISE = 0.01  # standard deviation of a label's noise
WIDTH, N_TASKS = 16, 4  # of components and of tasks, where nothing else is said
VALIDATION = 0.2  # of the labelled examples
MOST_EXAMPLES = 5_000
N_VALIDATION, N_TEST = 1_000, 2_000  # where examples are unlimited, and always


class SineSamples(GeneratedDataset):
    """``y = z + sum_i sin(i z + (i - 1)^2) + noise`` with ``z`` the input along a direction."""

    def __init__(self, direction: Tensor) -> None:
        self.direction = direction  # w, [d]
        self._frequencies = torch.arange(1.0, N_SINES + 1)  # alpha_i = i
        self._phases = (self._frequencies - 1).square()  # beta_i = (i - 1)^2

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, len(self.direction), generator=generator)
        return x, self.labels(x, generator)

    def labels(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Returns targets for inputs ``[n, d]``, with noise."""
        z = x @ self.direction
        angles = torch.addcmul(self._phases, z.unsqueeze(1), self._frequencies)  # [n, m]
        noise = torch.randn(len(x), generator=generator)
        return angles.sin_().sum(dim=1).add_(z).add_(noise, alpha=NOISE)


def synthetic_pairs(n_pairs: int, rho: float, *, seed: int) -> list[Task]:
    """Returns ``2 * n_pairs`` tasks: relatedness ``rho`` in a pair, none between pairs.

    The directions of all pairs are orthogonal, and are drawn from the seed.

    >>> [task.name for task in synthetic_pairs(1, rho=1.0, seed=0)]
    ['1a', '1b']

    Args:
        n_pairs: How many pairs of tasks.
        rho: The relatedness of the two tasks of a pair, 0 to 1.
        seed: Of the directions.
    """
    if not 0.0 <= rho <= 1.0:
        raise ValueError(f"`rho` should be in [0, 1]. Found `rho = {rho}`.")
    check_at_least("n_pairs", n_pairs, 1)
    if 2 * n_pairs > N_INPUTS:
        raise ValueError(f"`n_pairs` should be at most {N_INPUTS // 2}. Found {n_pairs}.")
    normals = torch.randn(N_INPUTS, 2 * n_pairs, generator=stream(seed, "directions"))
    directions = torch.linalg.qr(normals).Q.T  # orthonormal, uniform up to sign
    tasks = []
    for pair in range(n_pairs):
        first, second = directions[2 * pair], directions[2 * pair + 1]
        related = rho * first + (1 - rho**2) ** 0.5 * second
        for letter, direction in (("a", first), ("b", related)):
            samples = SineSamples(SCALE * direction.contiguous())
            tasks.append(Task(f"{pair + 1}{letter}", samples, family=f"pair {pair + 1}"))
    return tasks


@dataclass(frozen=True, kw_only=True)
class Point:
    """How related pairs of tasks are, what is known of them, and how large all is."""

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


def pairs_share(n_tasks: int, n_components: int) -> FixedMatrix:
    """Returns the oracle pattern: the tasks of a pair share their components, pairs do not.

    >>> pairs_share(4, 4).matrix()
    tensor([[1., 1., 0., 0.],
            [1., 1., 0., 0.],
            [0., 0., 1., 1.],
            [0., 0., 1., 1.]])
    """
    own = torch.eye(n_tasks // 2).repeat_interleave(2 * n_components // n_tasks, dim=1)
    return FixedMatrix(own.repeat_interleave(2, dim=0))


# The paper gives batch, rate, clipping and length for the second experiment (Appendix A-3); the
# same are ours for the first.
SYNTHETIC = TrainingSettings(
    rounds=3_000,
    batch_size=64,
    optimization=Optimization(learning_rate=0.01, clip_norm=1.0),
)
RHO = {"rho=0": 0.0, "rho=1": 1.0}  # relatedness under each condition
SHARED_BOTTOM = Method(
    name="shared_bottom",
    label="Shared bottom",
    allocation=using(SharedBottom, reduce="mean"),  # Section II: averaged
)


TRANSFER = Experiment(
    name="transfer",
    summary="two synthetic tasks, unrelated and equal, with and without sharing",
    tasks=lambda choice: synthetic_pairs(1, RHO[choice.condition], seed=choice.seed),
    network=transfer_network,
    methods=(NO_SHARING, SHARED_BOTTOM),
    training=SYNTHETIC,
    n_runs=30,
    data=DataOptions(conditions=tuple(RHO), by_seed=True),
    report=ReportOptions(
        title="Sharing helps related tasks and hurts unrelated ones",
        place="Figure 1",
        least=0.0,  # a squared error
    ),
)

TWO_PAIRS = Experiment(
    name="two_pairs",
    summary="two pairs of equal tasks; does the allocation find the pairs?",
    tasks=lambda choice: synthetic_pairs(2, 1.0, seed=choice.seed),
    network=pairs_network,
    methods=(NO_SHARING, SHARED_BOTTOM, GUMBEL),
    training=SYNTHETIC,
    n_runs=20,
    data=DataOptions(by_seed=True),
    report=ReportOptions(
        title="Which of four tasks are related is found while they are learnt",
        place="Appendix, Gumbel-Matrix on synthetic data",
        structure="the two pairs",
        least=0.0,
    ),
)
