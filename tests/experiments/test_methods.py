"""Ways of sharing as values."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor

from allotment.allocation import (
    Allocation,
    Annealing,
    FixedMatrix,
    GumbelMatrix,
    MMoE,
    NoSharing,
    SharedBottom,
)
from allotment.experiments import Method, using
from allotment.experiments._methods import AllocationSpec
from tests.allocation.made_up import ByExample, Shares


def halves(n_tasks: int, n_components: int, *, first: bool = True) -> FixedMatrix:
    """A function does where a class would."""
    half = n_components // 2
    return FixedMatrix([[first] * half + [not first] * (n_components - half)] * n_tasks)


def test_a_way_of_sharing_is_built_with_its_options() -> None:
    built = using(GumbelMatrix, p_init=0.75, evaluation="sampled")(2, 3)
    assert isinstance(built, GumbelMatrix)
    assert (built.n_tasks, built.n_components, built.evaluation) == (2, 3, "sampled")
    torch.testing.assert_close(built.probabilities().detach(), torch.full((2, 3), 0.75))
    assert using(halves)(1, 4).matrix().tolist() == [[1, 1, 0, 0]]


def test_it_is_a_value() -> None:
    both = [using(GumbelMatrix, p_init=0.9, evaluation="sampled") for _ in range(2)]
    both.append(using(GumbelMatrix, evaluation="sampled", p_init=0.9))
    assert len(set(both)) == 1
    assert using(GumbelMatrix, p_init=[[0.5]]) == using(GumbelMatrix, p_init=[[0.5]])
    assert hash(using(GumbelMatrix, p_init=[[0.5]]))
    different = {*both, using(GumbelMatrix), using(GumbelMatrix, p_init=0.8), using(SharedBottom)}
    assert len(different) == 4
    assert both[0].changed(p_init=0.8) == using(GumbelMatrix, p_init=0.8, evaluation="sampled")


@mark.parametrize(
    ("spec", "is_learnt"),
    [
        (using(GumbelMatrix), True),
        (using(GumbelMatrix, p_init=[[0.5, 0.5, 0.5]]), True),  # of other sizes than any trial
        (using(SharedBottom), False),
        (using(NoSharing), False),
        (using(halves), False),
        (using(Shares), True),
        (using(ByExample), True),  # cannot be built without the number of features
    ],
)
def test_whether_it_is_learnt_is_asked_of_an_allocation(
    spec: AllocationSpec, is_learnt: bool
) -> None:
    assert Method(name="a", allocation=spec).is_learnt is is_learnt


def test_what_a_network_offers_is_given_to_those_who_take_it() -> None:
    router = using(ByExample)(2, 3, n_features=5)
    assert isinstance(router, ByExample)
    assert router.router.shape == (2, 5, 3)
    assert using(SharedBottom)(2, 3, n_features=5).n_components == 3
    declared = using(ByExample, n_features=7)(2, 3, n_features=5)
    assert declared.get_parameter("router").shape == (2, 7, 3)


@mark.parametrize(
    ("kind", "options", "message"),
    [
        (GumbelMatrix, {"p_int": 0.9}, r"GumbelMatrix are p_init, .*'p_int'. Did you mean 'p_init"),
        (Shares, {"p_init": 0.9}, r"The options of Shares are none\. Found 'p_init'\."),
        (halves, {"second": True}, r"The options of halves are first\."),
    ],
)
def test_an_option_that_is_not_there_is_answered(
    kind: Callable[..., Allocation], options: dict[str, Any], message: str
) -> None:
    with raises(ValueError, match=message):
        using(kind, **options)


@mark.parametrize("kind", ["GumbelMatrix", SharedBottom(2, 2), None])
def test_what_is_used_should_be_a_class(kind: Any) -> None:
    with raises(TypeError, match=r"should be the class of an allocation\. Found"):
        using(kind)


@mark.parametrize("allocation", [GumbelMatrix, SharedBottom(2, 2), "gumbel"])
def test_a_method_says_how_its_allocation_is_given(allocation: Any) -> None:
    with raises(TypeError, match=r"made by `using`, such as .* for the method 'mine'"):
        Method(name="mine", allocation=allocation)


class Sharp(GumbelMatrix):
    """An allocation whose options have no types, and one of which no record can hold."""

    def __init__(self, n_tasks, n_components, rate=1.0, start: Tensor = torch.ones(1), **rest):  # type: ignore[no-untyped-def]
        super().__init__(n_tasks, n_components, **rest)
        self.rate, self.start = rate, start


@mark.parametrize(
    ("declared", "record", "expected"),
    [
        (using(GumbelMatrix), {"kind": "Gumbel", "p_init": 0.9}, using(GumbelMatrix, p_init=0.9)),
        (using(SharedBottom), {"kind": "SharedBottom"}, using(SharedBottom)),
        (
            using(GumbelMatrix, p_init=0.9),
            {"kind": "GumbelMatrix", "p_init": 0.7, "temperature": {"start": 5.0, "floor": 0.1}},
            using(GumbelMatrix, p_init=0.7, temperature=Annealing(start=5.0, floor=0.1)),
        ),
        (using(Sharp), {"kind": "Sharp", "rate": 2.0}, using(Sharp, rate=2.0)),
    ],
)
def test_options_come_back_from_a_record(
    declared: AllocationSpec, record: dict[str, Any], expected: AllocationSpec
) -> None:
    assert declared.as_recorded(record) == expected


def test_what_no_record_can_hold_comes_back_as_declared() -> None:
    found = using(Sharp).as_recorded({"kind": "Sharp", "start": [2.0]})
    assert torch.equal(dict(found.options)["start"], torch.ones(1))
    assert using(Sharp, evaluation="sampled")(2, 2).same_in_evaluation is False


def test_an_option_that_a_way_of_sharing_needs_is_asked_of_the_network() -> None:
    rule = r"MMoE should be given `n_features`: the network should call `allocate\(n_components, "
    with raises(ValueError, match=rule + r"n_features=\.\.\.\)`.* Found no option\."):
        using(MMoE)(2, 3)
    for spec, offered in ((using(MMoE), {"n_features": 8}), (using(MMoE, n_features=8), {})):
        assert spec(2, 3, **offered).weights(0, torch.ones(4, 8)).shape == (4, 3)


def test_a_setting_that_is_none_is_refused_when_a_method_is_made() -> None:
    with raises(ValueError, match=r"Found 'learnin_rate'\. Did you mean 'learning_rate'"):
        Method(name="a", allocation=using(GumbelMatrix), training={"learnin_rate": 0.1})
    Method(name="a", allocation=using(GumbelMatrix), training={"learning_rate": 0.1})
