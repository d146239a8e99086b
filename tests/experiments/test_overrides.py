from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import replace
from typing import Any

from pytest import mark, raises

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.experiments import check_free, overridden, using
from allotment.paper import EXPERIMENTS
from allotment.settings import OLD_NAMES, TrainingSettings, group_of
from tests.allocation.made_up import ByExample

TWO_PAIRS = EXPERIMENTS["two_pairs"]


def setting(training: TrainingSettings, name: str) -> Any:
    group = group_of(name)
    return getattr(getattr(training, group) if group else training, name)


@mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("training.batch_size=32", "batch_size", 32),
        ("batch_size=1_024", "batch_size", 1024),
        ("learning_rate=3e-4", "learning_rate", 3e-4),
        ("learning_rate=1", "learning_rate", 1.0),
        ("optimization.learning_rate=0.01", "learning_rate", 0.01),
        ("training.optimization.learning_rate=0.01", "learning_rate", 0.01),
        ("training.learning_rate=0.01", "learning_rate", 0.01),
        ("clip_norm=none", "clip_norm", None),
        ("clip_norm=None", "clip_norm", None),
        ("clip_norm=0.5", "clip_norm", 0.5),
        ("lr_schedule=cosine", "lr_schedule", "cosine"),
        ("optimizer=none", "optimizer", None),
        ("evaluate_every=20", "evaluate_every", 20),
        ("keep_best=false", "keep_best", False),
        ("execution.trace=True", "trace", True),
        ("augmentation.elastic=2", "elastic", 2.0),
        ("budget_scope=global", "budget_scope", "global"),
    ],
)
def test_a_setting_takes_the_type_of_its_field(assignment: str, name: str, value: Any) -> None:
    found = setting(overridden(TWO_PAIRS, [assignment]).training, name)
    assert found == value
    assert type(found) is type(value)


@mark.parametrize(
    ("assignment", "expectation"),
    [
        ("batch_size=32", does_not_raise()),
        ("batch_size", raises(ValueError, match=r"name=value. Found 'batch_size'")),
        (
            "batchsize=32",
            raises(
                ValueError, match=r"settings are rounds, batch_size,.*allocation\.p_init, .*'batchs"
            ),
        ),
        ("trainer.batch_size=3", raises(ValueError, match=r"_size'\. Did you mean 'batch_size'")),
        ("penalties.clip_norm=1", raises(ValueError, match=r"you mean 'optimization\.clip_norm'")),
        ("budgt=1", raises(ValueError, match=r"Found 'budgt'\. Did you mean 'budget'")),
        ("p_int=0.9", raises(ValueError, match=r"'p_int'\. Did you mean 'allocation.p_init'\?$")),
        ("allocation.budgets=1", raises(ValueError, match=r"Did you mean 'penalties.budget'")),
        ("batch_size=big", raises(ValueError, match=r"`batch_size` should be of type int.*'big'")),
        ("batch_size=1.5", raises(ValueError, match=r"of type int. Found '1.5'")),
        ("batch_size=none", raises(ValueError, match=r"of type int. Found 'none'")),
        ("batch_size=", raises(ValueError, match=r"of type int. Found ''")),
        ("batch_size=0", raises(ValueError, match=r"`batch_size` should be at least 1. Found")),
        ("clip_norm=tight", raises(ValueError, match=r"of type float or none. Found 'tight'")),
        ("compile=1", raises(ValueError, match=r"`compile` should be of type bool. Found '1'")),
        ("keep_best=-mae", does_not_raise()),
        (
            "optimizer=sgd",
            raises(ValueError, match=r"`optimizer` should be set in Python, .*'sgd'"),
        ),
        ("budget=0", raises(ValueError, match=r"`budget` should be in \(0, 1\]. Found")),
        ("budget=1", does_not_raise()),
        ("budget_scope=layer", raises(ValueError, match=r"one of 'task', 'global'. Found")),
        ("allocation.p_init=0.9", does_not_raise()),
        (
            "allocation.p_init=often",
            raises(ValueError, match=r"`p_init` should be of type float\."),
        ),
        ("allocation.temperature=5", raises(ValueError, match=r"`temperature` should be set in")),
        ("allocation.q_init=0.9", raises(ValueError, match=r"Did you mean 'allocation.p_init'")),
    ],
)
def test_settings_are_checked_by_name_type_and_rule(
    assignment: str, expectation: AbstractContextManager[Any]
) -> None:
    with expectation:
        overridden(TWO_PAIRS, [assignment])


@mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_a_name_of_version_0_1_is_answered_with_the_new_one(old: str, new: str) -> None:
    for name in (old, f"training.{old}"):
        with raises(ValueError, match=rf"Found '{name}'\. Its name is '{new}' now\.$"):
            overridden(TWO_PAIRS, [f"{name}=1"])


@mark.parametrize("name", ["batchsize", "training.batchsize", "training.logit_learning_rate"])
def test_a_refusal_lists_each_name_once(name: str) -> None:
    with raises(ValueError, match="The settings are ") as refusal:
        overridden(TWO_PAIRS, [f"{name}=1"])
    listed = str(refusal.value).removeprefix("The settings are ").partition(". Found")[0]
    names = [each.rpartition(".")[2] for each in listed.split(", ")]
    assert "p_init" in names
    assert len(set(names)) == len(names)


def test_an_allocation_s_option_changes_the_methods_that_have_it() -> None:
    changed = overridden(TWO_PAIRS, ["allocation.p_init=0.9", "allocation.reduce=sum"])
    assert changed.method("shared_bottom").allocation == using(SharedBottom, reduce="sum")
    assert changed.method("gumbel").allocation == using(GumbelMatrix, p_init=0.9, keeps_one=False)
    only_learnt = overridden(TWO_PAIRS, ["allocation.p_init=0.9"])
    for name in ("no_sharing", "shared_bottom"):
        assert only_learnt.method(name) == TWO_PAIRS.method(name)


def test_an_allocation_of_one_s_own_has_its_options_too() -> None:
    own = replace(TWO_PAIRS.methods[0], allocation=using(ByExample, n_features=128))
    changed = overridden(replace(TWO_PAIRS, methods=[own]), ["allocation.n_noise=4"])
    assert changed.methods[0].allocation == using(ByExample, n_features=128, n_noise=4)


def test_what_a_method_declares_for_itself_cannot_be_changed_for_all() -> None:
    digits = EXPERIMENTS["digits"]
    gumbel, with_budget = digits.method("gumbel"), digits.method("gumbel_budget")
    check_free(["budget=0.5"], [gumbel])
    training = gumbel.settings(overridden(digits, ["budget=0.5"]).training)
    assert training.penalties.budget == 0.5
    check_free(["batch_size=8"], [gumbel, with_budget])
    for assignment in ("budget=0.5", "penalties.budget=0.5", "budget=none"):
        with raises(ValueError, match=r"Found the method 'gumbel_budget' with `budget = 0.75`"):
            check_free([assignment], [gumbel, with_budget])


def test_the_last_of_several_settings_counts() -> None:
    changed = overridden(TWO_PAIRS, ["rounds=5", "training.rounds=7"])
    assert changed.training.rounds == 7
    assert TWO_PAIRS.training.rounds == 3_000
