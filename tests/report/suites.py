"""Made-up runs of the size of the paper's two large suites, with names as long as theirs."""

import numpy as np

from allotment._schema import Floats
from allotment.paper._omniglot import ALPHABETS as PUBLISHED
from allotment.paper._trends import trend_table
from allotment.records import RunRecord
from allotment.report import ReportRow, ReportSpec
from tests.records.made_up import a_header, a_record, an_evaluation, an_outcome

SUPERCLASSES = (
    "aquatic mammals",
    "fish",
    "flowers",
    "food containers",
    "fruit and vegetables",
    "household electrical devices",
    "household furniture",
    "insects",
    "large carnivores",
    "large man-made outdoor things",
    "large natural outdoor scenes",
    "large omnivores and herbivores",
    "medium mammals",
    "non-insect invertebrates",
    "people",
    "reptiles",
    "small mammals",
    "trees",
    "vehicles 1",
    "vehicles 2",
)
CLOTHES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag")
CLUSTER_TASKS = (
    *(f"CIFAR {name}" for name in SUPERCLASSES),
    *(f"MNIST without {digit}" for digit in range(10)),
    *(f"Fashion without {name}" for name in (*CLOTHES, "Ankle boot")),
)
ALPHABETS = tuple(alphabet.replace("_", " ") for alphabet in PUBLISHED)
FAMILIES = ("CIFAR-100",) * 20 + ("MNIST",) * 10 + ("Fashion-MNIST",) * 10

KINDS = (
    "conv3x3",
    "conv5x5",
    "conv7x7",
    "conv1x7-7x1",
    "max pool",
    "average pool",
    "identity",
)

OMNIGLOT = ReportSpec(
    experiment="omniglot",
    title="Twenty alphabets",
    place="Table II",
    measure="Test error",
    unit="%",
    shows="error",
    shown_task="Syriac (Estrangelo)",
    extra_tables=(trend_table,),
    rows=(
        ReportRow(method="shared_bottom", label="Shared bottom", paper="6.75 ± 0.33"),
        ReportRow(
            method="gumbel",
            label="Gumbel-Matrix",
            paper="6.48 ± 0.28",
            paper_distinct="10.1",
            learnt=True,
        ),
    ),
)


def clusters_matrix(seed: int = 0) -> Floats:
    """MNIST one row, Fashion-MNIST another with half of its gates in common, CIFAR varied."""
    draws = np.random.default_rng(seed)
    mnist = draws.permutation(np.repeat([1.0, 0.0], 24))
    fashion = mnist.copy()
    fashion[np.flatnonzero(mnist)[:8]] = 0.0
    fashion[np.flatnonzero(mnist == 0)[:8]] = 1.0
    cifar = 1.0 - mnist
    rows = np.stack([cifar] * 20 + [mnist] * 10 + [fashion] * 10)
    for task in range(0, 20, 2):
        rows[task, draws.choice(48, 6, replace=False)] = 1.0
    return rows


def clusters_run(seed: int = 0) -> RunRecord:
    """A run of forty tasks in three families over 48 components."""
    header = a_header(
        experiment="clusters",
        seed=seed,
        task_names=CLUSTER_TASKS,
        families=FAMILIES,
        layer_sizes=(16, 16, 16),
        component_names=tuple(f"conv{k}x{k} {c}" for k in (3, 5) for c in "ABCDEFGH") * 3,
        component_kinds=tuple(f"conv{k}x{k}" for k in (3, 5) for _ in range(8)) * 3,
        measure="accuracy",
        n_classes=(5,) * 20 + (9,) * 20,
        settings={"training": {"penalties": {"budget": 0.5}}},
    )
    rows = clusters_matrix(seed)
    test = an_evaluation(np.full(40, 0.9 + 0.001 * seed))
    return a_record(header, an_outcome(matrix=rows, probabilities=0.02 + 0.96 * rows, test=test))


def alphabets_matrix(seed: int = 0) -> Floats:
    """Allocations that follow the paper's trends: shape [20, 56], eight layers of seven kinds."""
    draws = np.random.default_rng(seed)
    gates = np.ones((20, 8, 7))
    for layer in range(4):
        gates[:, layer] = (draws.random((5, 7)) < 0.8)[np.arange(20) % 5]
    gates[::2, 4:7, KINDS.index("average pool")] = 0.0
    gates[:, 7, KINDS.index("average pool")] = 0.0
    return gates.reshape(20, 56)


def alphabets_run(
    seed: int = 0, *, method: str = "gumbel", matrix: Floats | None = None
) -> RunRecord:
    """A run of twenty alphabets without families, with validation checks."""
    rows = alphabets_matrix(seed) if matrix is None else matrix
    header = a_header(
        experiment="omniglot",
        method=method,
        seed=seed,
        task_names=ALPHABETS,
        families=(),
        layer_sizes=(7,) * 8,
        component_names=KINDS * 8,
        component_kinds=KINDS * 8,
        measure="accuracy",
        n_classes=(30,) * 20,
    )
    base = 0.93 + 0.001 * seed + 0.005 * (method == "gumbel")
    checks = tuple(
        (at, an_evaluation(np.full(20, base * (1 - np.exp(-at / 400))), "validation"))
        for at in range(250, 3001, 250)
    )
    outcome = an_outcome(
        best_round=3000,
        matrix=rows,
        probabilities=0.02 + 0.96 * rows,
        validation=an_evaluation(np.full(20, base + 0.01), "validation"),
        test=an_evaluation(np.full(20, base)),
    )
    return a_record(header, outcome, validation=checks)
