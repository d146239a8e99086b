"""Forty tasks on three data sets: which of them share components?"""

from ..allocation import GumbelMatrix, SharedBottom
from ..experiments import DataOptions, Experiment, Method, ReportOptions, using
from ..settings import Augmentation, Optimization, TrainingSettings
from .networks import clusters_network
from .suites import three_clusters

CLUSTERS = Experiment(
    name="clusters",
    summary="40 tasks on CIFAR-100, MNIST and Fashion-MNIST; which of them share?",
    tasks=lambda choice: three_clusters(choice.data_folder),
    network=clusters_network,
    methods=(
        Method(
            name="shared_bottom",
            label="Shared bottom",  # summed or averaged: the same under GroupNorm
            allocation=using(SharedBottom),
        ),
        Method(
            name="gumbel_budget",
            label="Gumbel-Matrix, budget 0.5",
            allocation=using(GumbelMatrix),
            training={"budget": 0.5},
        ),
        Method(name="gumbel", label="Gumbel-Matrix, no budget", allocation=using(GumbelMatrix)),
    ),
    training=TrainingSettings(
        rounds=20_000,
        batch_size=32,
        optimization=Optimization(learning_rate=3e-4, allocation_learning_rate=6e-3),
        augmentation=Augmentation(crop=4),
    ),
    n_runs=3,
    data=DataOptions(sets=("cifar100", "mnist", "fashion_mnist")),
    report=ReportOptions(title="Three clusters of tasks", place="Section V-C"),
)
