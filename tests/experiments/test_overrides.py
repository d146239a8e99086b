from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

from pytest import mark, raises

from allotment.paper import EXPERIMENTS
from allotment.experiments import GumbelSettings, SharedBottomSettings, check_free, overridden

TWO_PAIRS = EXPERIMENTS["two_pairs"]


@mark.parametrize(
    ("assignment", "field", "value"),
    [
        ("training.batch_size=32", "batch_size", 32),
        ("batch_size=1_024", "batch_size", 1024),
        ("learning_rate=3e-4", "learning_rate", 3e-4),
        ("learning_rate=1", "learning_rate", 1.0),
        ("clip_norm=none", "clip_norm", None),
        ("clip_norm=None", "clip_norm", None),
        ("clip_norm=0.5", "clip_norm", 0.5),
        ("evaluate_every=20", "evaluate_every", 20),
        ("keep_best=false", "keep_best", False),
        ("capture=True", "capture", True),
        ("budget_scope=global", "budget_scope", "global"),
    ],
)
def test_a_setting_takes_the_type_of_its_field(assignment: str, field: str, value: Any) -> None:
    found = getattr(overridden(TWO_PAIRS, [assignment]).training, field)
    assert found == value
    assert type(found) is type(value)


@mark.parametrize(
    ("assignment", "expectation"),
    [
        ("batch_size=32", does_not_raise()),
        ("batch_size", raises(ValueError, match=r"field=value. Found 'batch_size'")),
        (
            "batchsize=32",
            raises(ValueError, match=r"settings are rounds, batch_size,.*'batchsize'"),
        ),
        ("trainer.batch_size=3", raises(ValueError, match=r"training\. or allocation\.")),
        ("budgt=1", raises(ValueError, match=r"Found 'budgt'\. Did you mean 'budget'")),
        ("p_int=0.9", raises(ValueError, match=r"'p_int'\. Did you mean 'allocation.p_init'\?$")),
        ("allocation.budgets=1", raises(ValueError, match=r"Did you mean 'training.budget'")),
        ("batch_size=big", raises(ValueError, match=r"`batch_size` should be of type int.*'big'")),
        ("batch_size=1.5", raises(ValueError, match=r"of type int. Found '1.5'")),
        ("batch_size=none", raises(ValueError, match=r"of type int. Found 'none'")),
        ("batch_size=", raises(ValueError, match=r"of type int. Found ''")),
        ("batch_size=0", raises(ValueError, match=r"`batch_size` should be at least 1. Found")),
        ("clip_norm=tight", raises(ValueError, match=r"of type float or none. Found 'tight'")),
        ("keep_best=1", raises(ValueError, match=r"`keep_best` should be of type bool. Found '1'")),
        ("budget=0", raises(ValueError, match=r"`budget` should be in \(0, 1\]. Found")),
        ("budget=1", does_not_raise()),
        ("budget_scope=layer", raises(ValueError, match=r"one of 'task', 'global'. Found")),
        ("allocation.p_init=0.9", does_not_raise()),
        ("allocation.p_init=often", raises(ValueError, match=r"`p_init` should be of type float")),
        ("allocation.q_init=0.9", raises(ValueError, match=r"are p_init, reduce. Found 'q_init'")),
    ],
)
def test_settings_are_checked_by_name_type_and_rule(
    assignment: str, expectation: AbstractContextManager[Any]
) -> None:
    with expectation:
        overridden(TWO_PAIRS, [assignment])


def test_an_allocation_s_setting_changes_the_methods_that_have_it() -> None:
    changed = overridden(TWO_PAIRS, ["allocation.p_init=0.9", "allocation.reduce=sum"])
    assert changed.method("no_sharing") == TWO_PAIRS.method("no_sharing")
    assert changed.method("shared_bottom").allocation == SharedBottomSettings(reduce="sum")
    assert changed.method("gumbel").allocation == GumbelSettings(p_init=0.9)


def test_what_a_method_declares_for_itself_cannot_be_changed_for_all() -> None:
    digits = EXPERIMENTS["digits"]
    gumbel, with_budget = digits.method("gumbel"), digits.method("gumbel_budget")
    check_free(["budget=0.5"], [gumbel])
    assert gumbel.settings(overridden(digits, ["budget=0.5"]).training).budget == 0.5
    check_free(["batch_size=8"], [gumbel, with_budget])
    for assignment in ("budget=0.5", "training.budget=0.5", "budget=none"):
        with raises(ValueError, match=r"Found the method 'gumbel_budget' with `budget = 0.75`"):
            check_free([assignment], [gumbel, with_budget])


def test_the_last_of_several_settings_counts() -> None:
    changed = overridden(TWO_PAIRS, ["rounds=5", "training.rounds=7"])
    assert changed.training.rounds == 7
    assert TWO_PAIRS.training.rounds == 3_000
