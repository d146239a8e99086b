"""Four offices that code the same drawings by two books: real images, made-up labels."""

import torch
from torch import Tensor

from .._streams import stream
from ..allocation import GumbelMatrix
from ..experiments import Experiment, Method, ReportOptions, using
from ..settings import Optimization, TrainingSettings
from ..tasks import Split, Task
from ._image_data import SHARES, SPLIT_SEED, digit_images, split_rows
from ._methods import NO_SHARING, SHARED_BOTTOM_MEAN
from ._synthetic import pairs_share
from .networks import codebooks_network

OFFICES = ("A1", "A2", "B1", "B2")  # by book
N_LABELLED = 100  # by each office, all of them others


def codebooks() -> list[Task]:
    """Returns a task for each office: which code it gives to a drawing of a digit.

    Book A gives a digit its own number, and book B another one. Offices learn from drawings of
    their own, so that two with one book know twice as much together.
    """
    images, labels = digit_images()
    train, validation, test = split_rows(len(images), SHARES, seed=SPLIT_SEED)
    order = train[torch.randperm(len(train), generator=stream(SPLIT_SEED, "offices"))]
    other = torch.randperm(10, generator=stream(SPLIT_SEED, "book B"))
    codes = {"A": labels, "B": other[labels]}

    def task(office: str, own: Tensor) -> Task:
        book = office[0]
        known, held, tested = (Split(images, codes[book], r) for r in (own, validation, test))
        return Task(office, known, held, tested, family=f"book {book}")

    return [task(*pair) for pair in zip(OFFICES, order.split(N_LABELLED), strict=False)]


CODEBOOKS = Experiment(
    name="codebooks",
    summary="8x8 digits coded by two books, twice each; data that comes with the package",
    tasks=lambda choice: codebooks(),
    network=codebooks_network,
    methods=(
        NO_SHARING,
        SHARED_BOTTOM_MEAN,
        Method(name="oracle", label="Offices with one book share", allocation=using(pairs_share)),
        Method(name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix)),
    ),
    # Ours; chosen by validation results of seeds 1000 to 1009, which no table has.
    training=TrainingSettings(
        rounds=1_000,
        batch_size=32,
        evaluate_every=50,
        optimization=Optimization(learning_rate=0.005, allocation_learning_rate=0.02),
    ),
    n_runs=10,
    report=ReportOptions(title="Two code books for real images", structure="the two books"),
)
