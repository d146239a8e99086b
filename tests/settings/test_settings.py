"""The settings of training, and what they refuse."""

import re
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import numpy as np
from pytest import mark, raises

from allotment.settings import (
    GROUPS,
    OLD_NAMES,
    Augmentation,
    Execution,
    Optimization,
    Penalties,
    TrainingSettings,
    from_record,
    group_of,
    setting_names,
)

NAN = float("nan")


def with_setting(name: str, value: Any) -> TrainingSettings:
    return TrainingSettings().changed(**{name: value})


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
        ("allocation_learning_rate", 0.0, above_zero("allocation_learning_rate", "0.0")),
        ("allocation_learning_rate", 1e-9, does_not_raise()),
        ("allocation_learning_rate", None, does_not_raise()),
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
            refused(
                r"`schedule` should be one of 'alternating', 'joint', .*\. Found .* = 'together'`"
            ),
        ),
        ("mixed_precision", "off", does_not_raise()),
        ("mixed_precision", "tf32", does_not_raise()),
        ("mixed_precision", "bfloat16", does_not_raise()),
        (
            "mixed_precision",
            "float16",
            refused(
                r"`mixed_precision` should be one of 'off', 'tf32', 'bfloat16'\. "
                r"Found `mixed_precision = 'float16'`\. Did you mean 'bfloat16'?"
            ),
        ),
        ("lr_schedule", "cosine", does_not_raise()),
        ("lr_schedule", lambda optimizer: None, does_not_raise()),
        (
            "lr_schedule",
            "linear",
            refused(r"`lr_schedule` should be one of 'constant', 'cosine'\. Found .* = 'linear'`"),
        ),
        (
            "allocation_held_out",
            -0.1,
            refused(r"`allocation_held_out` should be in \[0, 1\)\. Found .* = -0.1`"),
        ),
        ("allocation_held_out", 0.0, does_not_raise()),
        ("allocation_held_out", 0.2, does_not_raise()),
        (
            "allocation_held_out",
            1.0,
            refused(r"`allocation_held_out` should be in \[0, 1\)\. Found .* = 1.0`"),
        ),
        ("ema_decay", 0.0, does_not_raise()),
        ("ema_decay", 0.999, does_not_raise()),
        ("ema_decay", 1.0, refused(r"`ema_decay` should be in \[0, 1\)\. Found .* = 1.0`")),
        ("crop", -1, at_least("crop", "0", "-1")),
        ("crop", 4, does_not_raise()),
        ("shift", -0.1, at_least("shift", "0", "-0.1")),
        ("shift", 0.5, does_not_raise()),
        ("rotation", -0.1, at_least("rotation", "0", "-0.1")),
        ("rotation", 90.0, does_not_raise()),
        ("shear", -0.1, at_least("shear", "0", "-0.1")),
        ("elastic", -0.1, at_least("elastic", "0", "-0.1")),
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
        ("budget", [0.5], does_not_raise()),
        ("budget", {"a": 1}, does_not_raise()),
        ("budget", "0.5", of_kind("budget", "a number", "'0.5'")),
        ("compile", 1, of_kind("compile", "True or False", "1")),
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
    settings = TrainingSettings()
    for value in (settings, *(getattr(settings, name) for name, _ in GROUPS)):
        with raises(FrozenInstanceError):
            setattr(value, fields(value)[0].name, 5)


def test_a_change_goes_to_the_group_of_its_name_and_leaves_the_rest() -> None:
    settings = TrainingSettings(optimization=Optimization(clip_norm=1.0))
    changed = settings.changed(rounds=20, learning_rate=0.01, budget=0.5, crop=2, trace=False)
    assert changed == TrainingSettings(
        rounds=20,
        optimization=Optimization(clip_norm=1.0, learning_rate=0.01),
        penalties=Penalties(budget=0.5),
        augmentation=Augmentation(crop=2),
        execution=Execution(trace=False),
    )
    assert settings.rounds == 1_000 and settings.penalties.budget is None


def test_a_change_may_be_a_group_and_fields_of_it() -> None:
    changed = TrainingSettings().changed(clip_norm=1.0, optimization=Optimization(ema_decay=0.9))
    assert changed.optimization == Optimization(clip_norm=1.0, ema_decay=0.9)


def test_every_setting_has_a_name_of_its_own_and_is_found_by_it() -> None:
    names = setting_names()
    assert len(set(names)) == len(names)
    for name in names:
        owner = (
            getattr(TrainingSettings(), group_of(name)) if group_of(name) else TrainingSettings()
        )
        assert hasattr(owner, name)


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    with raises(ValueError, match=r"Found 'learning_rat'\. Did you mean 'learning_rate'"):
        TrainingSettings().changed(learning_rat=0.1)
    with raises(ValueError, match=r"Found 'lr'\. It is called `learning_rate`\.$"):
        TrainingSettings().changed(lr=0.1)


@mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_a_name_of_version_0_1_is_answered_with_the_new_one(old: str, new: str) -> None:
    with raises(ValueError, match=rf"Found '{old}'\. It is called `{new}` now\.$"):
        group_of(old)


@mark.parametrize(("group", "kind"), GROUPS)
def test_a_group_is_of_its_class(group: str, kind: type) -> None:
    with raises(TypeError, match=rf"`{group}` should be {kind.__name__}\. Found a dict\."):
        with_setting(group, {})


def test_an_optimizer_is_a_function() -> None:
    with raises(TypeError, match=r"`optimizer` should be None or a function .*Found .*'adam'"):
        Optimization(optimizer="adam")  # type: ignore[arg-type]


@mark.parametrize(
    ("changes", "depends"),
    [
        ({}, False),
        ({"lr_schedule": "cosine"}, True),
        ({"lr_schedule": lambda optimizer: None}, True),
        ({"entropy_weight": 0.1}, True),
        ({"budget": 0.1}, False),
    ],
)
def test_which_settings_make_first_steps_depend_on_the_rounds(
    changes: dict[str, Any], depends: bool
) -> None:
    assert TrainingSettings().changed(**changes).depends_on_rounds is depends


def test_budgets_alone_may_differ_between_runs_of_one_program() -> None:
    settings = TrainingSettings()
    assert settings.changed(budget=0.3, budget_weight=9.0).in_common() == settings.in_common()
    assert settings.changed(budget_scope="global").in_common() != settings.in_common()


def test_records_of_the_first_version_are_read() -> None:
    old = {
        "rounds": 30,
        "logit_learning_rate": 0.1,
        "decay": "none",
        "average": 0.9,
        "slant": 0.2,
        "bend": 0.5,
        "precision": "float32",
        "capture": False,
        "budget": None,
        "schedule": "joint",
    }
    assert from_record(old) == {
        "rounds": 30,
        "schedule": "joint",
        "optimization": {
            "allocation_learning_rate": 0.1,
            "lr_schedule": "constant",
            "ema_decay": 0.9,
        },
        "augmentation": {"shear": 0.2, "elastic": 0.5},
        "execution": {"mixed_precision": "off", "trace": False},
        "penalties": {"budget": None},
    }
    new = asdict(TrainingSettings())
    assert from_record(new) == new


@mark.parametrize(
    ("kind", "name", "message"),
    [
        (TrainingSettings, "lr", r"Found 'lr'\. `learning_rate` is in a group: optimization=Optim"),
        (
            TrainingSettings,
            "learning_rate",
            r"in a group: optimization=Optimization\(learning_",
        ),
        (TrainingSettings, "epochs", r"Found 'epochs'\. It is called `rounds`\."),
        (TrainingSettings, "bach_size", r"Found 'bach_size'\. Did you mean 'batch_size'\?"),
        (
            Optimization,
            "lr",
            r"^Optimization has learning_rate, .* It is called `learning_rate`",
        ),
    ],
)
def test_an_unknown_setting_is_told_where_it_belongs(kind: type, name: str, message: str) -> None:
    with raises(TypeError, match=message):
        kind(**{name: 1})
