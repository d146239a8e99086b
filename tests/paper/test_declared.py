"""What experiments train with, against the paper and its authors' code."""

from typing import Any

from pytest import mark

from allotment.paper import EXPERIMENTS
from allotment.experiments import GumbelSettings

# Rounds, batch, learning rate, rate of the logits, L2, largest norm, rounds between looks, border.
TRAINING = {
    "transfer": (3_000, 64, 0.01, 0.01, 0.0, 1.0, None, 0),
    "two_pairs": (3_000, 64, 0.01, 0.01, 0.0, 1.0, None, 0),
    "mnist": (37_500, 16, 0.005, 0.005, 0.0, None, None, 0),
    "omniglot": (8_000, 16, 1e-4, 2e-3, 3e-4, None, 250, 0),
    "clusters": (20_000, 32, 3e-4, 6e-3, 0.0, None, None, 4),
}


@mark.parametrize("name", TRAINING)
def test_the_paper_s_experiments_train_with_its_settings(name: str) -> None:
    found = EXPERIMENTS[name].training
    rate = found.logit_learning_rate or found.learning_rate
    declared = (found.rounds, found.batch_size, found.learning_rate, rate, found.weight_decay)
    assert (*declared, found.clip_norm, found.evaluate_every, found.crop) == TRAINING[name]
    assert (found.schedule, found.decay, found.average) == ("alternating", "none", 0.0)
    assert not any((found.shift, found.rotation, found.zoom, found.slant, found.bend))


@mark.parametrize(
    ("name", "method", "p_init", "training"),
    [
        ("two_pairs", "gumbel", 0.5, {}),
        ("mnist", "gumbel", 0.5, {}),
        ("mnist", "gumbel_budget", 0.5, {"budget": 0.75}),
        ("omniglot", "gumbel", 0.97, {}),
        ("clusters", "gumbel_budget", 0.5, {"budget": 0.5}),
    ],
)
def test_learnt_methods_begin_and_are_limited_as_in_the_paper(
    name: str, method: str, p_init: float, training: dict[str, Any]
) -> None:
    declared = EXPERIMENTS[name].method(method)
    assert declared.allocation == GumbelSettings(p_init=p_init)
    assert declared.training == training
    settings = declared.settings(EXPERIMENTS[name].training)
    assert settings.budget == training.get("budget")
    assert settings.budget_weight == 1.0
    assert settings.budget_scope == "task"
