"""Forty tasks on three data sets: which of them share components?"""

from ..experiments import Experiment, GumbelSettings, Method, SharedBottomSettings, TaskChoice
from ..settings import Augmentation, Optimization, TrainingSettings
from ..tasks import Task
from .networks import clusters_network
from .suites import three_clusters


def _three_clusters(choice: TaskChoice) -> list[Task]:
    return three_clusters(choice.data_folder)


CLUSTERS = Experiment(
    name="clusters",
    title="Three clusters of tasks",
    summary="40 tasks on CIFAR-100, MNIST and Fashion-MNIST; which of them share?",
    place="Section V-C",
    data=("cifar100", "mnist", "fashion_mnist"),
    tasks=_three_clusters,
    network=clusters_network,
    methods=(
        Method(
            name="shared_bottom",
            label="Shared bottom",  # summed or averaged: the same under GroupNorm
            allocation=SharedBottomSettings(),
        ),
        Method(
            name="gumbel_budget",
            label="Gumbel-Matrix, budget 0.5",
            allocation=GumbelSettings(),
            training={"budget": 0.5},
        ),
        Method(name="gumbel", label="Gumbel-Matrix, no budget", allocation=GumbelSettings()),
    ),
    training=TrainingSettings(
        rounds=20_000,
        batch_size=32,
        optimization=Optimization(learning_rate=3e-4, allocation_learning_rate=6e-3),
        augmentation=Augmentation(crop=4),
    ),
    n_runs=3,
    measure="accuracy",
    measure_label="Test accuracy",
)
