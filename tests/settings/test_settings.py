"""The settings of training, and what they refuse."""

import re
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
from pytest import mark, raises

from allotment.settings import TrainingSettings

NAN = float("nan")


def with_setting(name: str, value: Any) -> TrainingSettings:
    return TrainingSettings(**{name: value})


def refused(message: str) -> AbstractContextManager[object]:
    return raises(ValueError, match=rf"^{message}[.?]$")


def at_least(name: str, minimum: str, found: str) -> AbstractContextManager[object]:
    return refused(rf"`{name}` should be at least {minimum}\. Found `{name} = {found}`")


def above_zero(name: str, found: str) -> AbstractContextManager[object]:
    return refused(rf"`{name}` should be above 0\. Found `{name} = {found}`")


def multiple_of_ten(found: str) -> AbstractContextManager[object]:
    name = "evaluate_every"
    return refused(rf"`{name}` should be a multiple of 10\. Found `{name} = {found}`")


BUDGET = r"`budget` should be in \(0, 1\]\. Found `budget = "


@mark.parametrize(
    ("name", "value", "expectation"),
    [
        ("rounds", 0, at_least("rounds", "1", "0")),
        ("rounds", 1, does_not_raise()),
        ("batch_size", 0, at_least("batch_size", "1", "0")),
        ("batch_size", 1, does_not_raise()),
        ("learning_rate", -1e-3, above_zero("learning_rate", "-0.001")),
        ("learning_rate", 0.0, above_zero("learning_rate", "0.0")),
        ("learning_rate", 1e-9, does_not_raise()),
        ("learning_rate", NAN, above_zero("learning_rate", "nan")),
        ("logit_learning_rate", 0.0, above_zero("logit_learning_rate", "0.0")),
        ("logit_learning_rate", 1e-9, does_not_raise()),
        ("logit_learning_rate", None, does_not_raise()),
        ("clip_norm", 0.0, above_zero("clip_norm", "0.0")),
        ("clip_norm", 1e-9, does_not_raise()),
        ("clip_norm", None, does_not_raise()),
        ("budget", -0.1, refused(BUDGET + "-0.1`")),
        ("budget", 0.0, refused(BUDGET + "0.0`")),
        ("budget", 0.01, does_not_raise()),
        ("budget", 1.0, does_not_raise()),
        ("budget", 1.01, refused(BUDGET + "1.01`")),
        ("budget", NAN, refused(BUDGET + "nan`")),
        ("budget_scope", "task", does_not_raise()),
        ("budget_scope", "global", does_not_raise()),
        (
            "budget_scope",
            "layer",
            refused(r"`budget_scope` should be one of 'task', 'global'\. Found .* = 'layer'`"),
        ),
        ("schedule", "alternating", does_not_raise()),
        ("schedule", "joint", does_not_raise()),
        (
            "schedule",
            "together",
            refused(r"`schedule` should be one of 'alternating', 'joint'\. Found .* = 'together'`"),
        ),
        ("precision", "float32", does_not_raise()),
        ("precision", "tf32", does_not_raise()),
        ("precision", "bfloat16", does_not_raise()),
        (
            "precision",
            "float16",
            refused(
                r"`precision` should be one of 'float32', 'tf32', 'bfloat16'\. "
                r"Found `precision = 'float16'`\. Did you mean 'bfloat16' or 'float32'?"
            ),
        ),
        ("crop", -1, at_least("crop", "0", "-1")),
        ("crop", 4, does_not_raise()),
        ("shift", -0.1, at_least("shift", "0", "-0.1")),
        ("shift", 0.5, does_not_raise()),
        ("rotation", -0.1, at_least("rotation", "0", "-0.1")),
        ("rotation", 90.0, does_not_raise()),
        ("slant", -0.1, at_least("slant", "0", "-0.1")),
        ("bend", -0.1, at_least("bend", "0", "-0.1")),
        ("zoom", -0.1, at_least("zoom", "0", "-0.1")),
        ("zoom", NAN, at_least("zoom", "0", "nan")),
        ("zoom", 0.99, does_not_raise()),
        ("zoom", 1.0, refused(r"`zoom` should be below 1\. Found `zoom = 1.0`")),
        ("evaluate_every", None, does_not_raise()),
        ("evaluate_every", 0, at_least("evaluate_every", "1", "0")),
        ("evaluate_every", 9, multiple_of_ten("9")),
        ("evaluate_every", 10, does_not_raise()),
        ("evaluate_every", 11, multiple_of_ten("11")),
        ("evaluate_every", 250, does_not_raise()),
    ],
)
def test_ranges(name: str, value: object, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        with_setting(name, value)


def of_kind(name: str, kind: str, found: str) -> AbstractContextManager[object]:
    return raises(
        TypeError, match=rf"^`{name}` should be {kind}\. Found `{name} = {re.escape(found)}`\.$"
    )


@mark.parametrize(
    ("name", "value", "expectation"),
    [
        ("rounds", 300, does_not_raise()),
        ("rounds", np.int64(300), does_not_raise()),
        ("rounds", 300.0, of_kind("rounds", "a whole number", "300.0")),
        ("rounds", "300", of_kind("rounds", "a whole number", "'300'")),
        ("rounds", True, of_kind("rounds", "a whole number", "True")),
        ("rounds", None, of_kind("rounds", "a whole number", "None")),
        ("learning_rate", 1, does_not_raise()),
        ("learning_rate", np.float32(0.1), does_not_raise()),
        ("learning_rate", "0.1", of_kind("learning_rate", "a number", "'0.1'")),
        ("evaluate_every", 10.0, of_kind("evaluate_every", "a whole number or None", "10.0")),
        ("budget", [0.5], of_kind("budget", "a number or None", "[0.5]")),
        ("capture", 1, of_kind("capture", "True or False", "1")),
        ("schedule", None, of_kind("schedule", "a text", "None")),
    ],
)
def test_kinds(name: str, value: object, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        with_setting(name, value)


@mark.parametrize(
    "name",
    [
        "weight_decay",
        "budget_weight",
        "entropy_weight",
        "entropy_power",
        "connection_weight",
        "disconnect_weight",
    ],
)
def test_weights_are_not_negative(name: str) -> None:
    with_setting(name, 0.0)
    with at_least(name, "0.0", "-0.1"):
        with_setting(name, -0.1)


def test_settings_stay_as_they_are() -> None:
    with raises(FrozenInstanceError):
        TrainingSettings().rounds = 5  # type: ignore[misc]
