"""Twenty alphabets of handwritten characters."""

from ..network import omniglot_network
from ..tasks import Task, omniglot
from ..training import TrainingSettings
from ._experiment import Experiment, TaskChoice
from ._methods import GumbelSettings, Method, SharedBottomSettings

CLEAN = "clean split"
PUBLISHED = "published split (leaks)"  # the paper's numbers come from this one
SPLITS = {CLEAN: "clean", PUBLISHED: "published"}


def _omniglot(choice: TaskChoice) -> list[Task]:
    return omniglot(choice.data_folder, split=SPLITS[choice.condition])


OMNIGLOT = Experiment(
    name="omniglot",
    title="Twenty alphabets of Omniglot",
    summary="the characters of 20 alphabets; --split clean, or published, which leaks",
    place="Table II",
    data=("omniglot",),
    conditions=tuple(SPLITS),
    splits=SPLITS,
    tasks=_omniglot,
    network=omniglot_network,
    methods=(
        Method(
            name="shared_bottom",
            label="Shared bottom",  # summed or averaged: the same under GroupNorm
            allocation=SharedBottomSettings(),
            paper={PUBLISHED: "6.75 ± 0.33 (validation 6.16 ± 0.50)"},
        ),
        Method(
            name="gumbel",
            label="Gumbel-Matrix",
            allocation=GumbelSettings(p_init=0.97),
            paper={PUBLISHED: "6.48 ± 0.28 (validation 5.69 ± 0.22)"},
            paper_distinct="10.1",
        ),
    ),
    training=TrainingSettings(
        rounds=8_000,
        batch_size=16,
        learning_rate=1e-4,
        logit_learning_rate=2e-3,
        weight_decay=3e-4,
        evaluate_every=250,
        precision="bfloat16",  # ours: on a GPU the convolutions are most of the time
    ),
    n_runs=10,
    measure="accuracy",
    measure_label="Test error",
    shows="error",
    shown_task="Syriac_(Estrangelo)",
)
