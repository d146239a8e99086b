from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import (
    CGC,
    PLE,
    SNR,
    Allocation,
    ChampionChallenger,
    CrossStitch,
    DSelectK,
    EntmaxMatrix,
    FixedMatrix,
    GumbelByExample,
    GumbelMatrix,
    HardConcreteMatrix,
    MetadataMatrix,
    MMoE,
    NoSharing,
    PathNet,
    RoutingPolicy,
    ScoreFunctionByExample,
    ScoreFunctionMatrix,
    SharedBottom,
    SoftMatrix,
    SoftmaxMatrix,
    StraightThroughMatrix,
    TopKExperts,
)
from tests.allocation.ways import assert_tasks_are_batched_over
from tests.training.toy import N_INPUTS

T, C = 3, 6

MAKE: dict[str, Callable[[], Allocation]] = {
    "gumbel": lambda: GumbelMatrix(T, C),
    "metadata": lambda: MetadataMatrix(T, C, features=torch.randn(T, 2), hidden=3),
    "straight_through": lambda: StraightThroughMatrix(T, C),
    "score_function": lambda: ScoreFunctionMatrix(T, C),
    "soft": lambda: SoftMatrix(T, C),
    "softmax": lambda: SoftmaxMatrix(T, C),
    "entmax": lambda: EntmaxMatrix(T, C),
    "hard_concrete": lambda: HardConcreteMatrix(T, C),
    "routing": lambda: RoutingPolicy(T, C),
    "shared": lambda: SharedBottom(T, C),
    "none_shared": lambda: NoSharing(T, C),
    "mmoe": lambda: MMoE(T, C, n_features=N_INPUTS),
    "cgc": lambda: CGC(T, C, n_features=N_INPUTS, n_shared=3),
    "top_k": lambda: TopKExperts(T, C, n_features=N_INPUTS),
    "dselect_k": lambda: DSelectK(T, C),
    "dselect_k_by_example": lambda: DSelectK(T, C, by_example=True, n_features=N_INPUTS),
    "gumbel_by_example": lambda: GumbelByExample(T, C, n_features=N_INPUTS),
    "masks_by_example": lambda: ScoreFunctionByExample(T, C, n_features=N_INPUTS),
    "pathnet": lambda: PathNet(T, C, n_members=4),
    "champion": lambda: ChampionChallenger(T, C),
}
every_way = mark.parametrize("way", MAKE)


def moved(way: str) -> Allocation:
    """Returns an allocation whose parameters are not those that it starts with."""
    allocation = MAKE[way]()
    with torch.no_grad():
        for parameter in allocation.parameters():
            parameter.add_(torch.randn_like(parameter))
    return allocation


def weights(allocation: Allocation, task: int) -> Tensor:
    """Returns the weights of an evaluation."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, N_INPUTS, generator=generator) if allocation.sees_examples else None
    return allocation.eval().weights(task, x)


def assert_same_tasks(new: Allocation, places: list[int], old: Allocation) -> None:
    """Asserts that the first tasks of one are those at places of another, to the bit."""
    for task, place in enumerate(places):
        assert torch.equal(weights(new, task), weights(old, place))
        assert torch.equal(new.matrix()[task], old.matrix()[place])
        assert torch.equal(new.probabilities(task), old.probabilities(place))


@every_way
def test_a_task_like_another_has_its_weights_and_moves_no_one_else(way: str) -> None:
    old = moved(way)
    new = deepcopy(old)
    new.add_task(1)
    assert_same_tasks(new, [0, 1, 2, 1], old)
    assert new.n_tasks == T + 1 and new.matrix().shape == (T + 1, C)
    assert_tasks_are_batched_over(new)


@every_way
def test_a_task_like_no_other_moves_no_one_else(way: str) -> None:
    old = moved(way)
    if way in ("none_shared", "metadata"):
        with raises(ValueError, match="`like` should be a task"):
            old.add_task(None)
        return
    new = deepcopy(old)
    new.add_task(None)
    assert_same_tasks(new, [0, 1, 2], old)
    assert new.probabilities(T).isfinite().all()
    assert (new.matrix()[T] != 0).any()
    assert_tasks_are_batched_over(new)


@every_way
def test_a_task_that_is_dropped_takes_no_other_with_it(way: str) -> None:
    old = moved(way)
    new = deepcopy(old)
    new.keep_tasks([2, 0])
    assert new.n_tasks == 2
    assert_same_tasks(new, [2, 0], old)
    new.add_task(1)
    assert_same_tasks(new, [2, 0, 0], old)


@mark.parametrize("way", ["gumbel", "straight_through", "soft", "softmax", "score_function"])
def test_gates_of_a_new_task_are_undecided(way: str) -> None:
    allocation = moved(way)
    allocation.add_task()
    row = allocation.probabilities(T)
    assert_close(row, torch.full_like(row, 1 / C if way == "softmax" else 0.5))


def test_gates_that_l0_charges_start_undecided() -> None:
    allocation = HardConcreteMatrix(T, C)
    allocation.add_task()
    assert_close(allocation.probabilities(T), torch.full((C,), 0.5))


@every_way
def test_a_row_that_is_taken_over_moves_no_other(way: str) -> None:
    old, other = moved(way), moved(way)
    other.keep_tasks([1])
    new = deepcopy(old)
    new.take_rows(other, [1])
    for before, after, theirs in zip(
        old.task_tables(), new.task_tables(), other.task_tables(), strict=True
    ):
        assert torch.equal(after[[0, 2]], before[[0, 2]])
        assert torch.equal(after[1], theirs[0])


def test_what_is_known_of_a_task_is_its_row() -> None:
    allocation = moved("metadata")
    assert isinstance(allocation, MetadataMatrix)
    allocation.add_task([0.3, -1.0])
    assert_close(allocation.probabilities(T), allocation.row_for([0.3, -1.0]))


@mark.parametrize("like", [[0.3], "a", None, [[0.3, 1.0]], [0.3, float("nan")]])
def test_features_that_are_none_are_refused(like: Any) -> None:
    with raises(ValueError, match="`like` should be a task, or the new one's features, 2 finite"):
        MAKE["metadata"]().add_task(like)


@mark.parametrize("like", [[0.3, 1.0], "a"])
def test_features_are_refused_where_gates_do_not_follow_from_them(like: Any) -> None:
    with raises(ValueError, match=r"`like` should be one of the network's tasks, or None.*Found"):
        MAKE["gumbel"]().add_task(like)


@mark.parametrize(
    "allocation",
    [CrossStitch(2, 2), PLE(2, 3, n_features=4), SNR(2, 3)],
    ids=lambda a: type(a).__name__,
)
def test_streams_keep_their_tasks(allocation: Allocation) -> None:
    with raises(ValueError, match=r"whose tasks may come and go.*Found "):
        allocation.add_task()
    with raises(ValueError, match=r"whose tasks may come and go.*Found "):
        allocation.keep_tasks([0])


def test_a_new_task_has_no_components_of_its_own() -> None:
    allocation = moved("cgc")
    allocation.add_task()
    assert (allocation.matrix()[T] > 0).tolist() == [False] * 3 + [True] * 3
    with raises(ValueError, match="`like` should be a task where CGC has no shared components"):
        CGC(T, C, n_features=2, n_shared=0).add_task()


def with_unused(way: str) -> tuple[Allocation, list[int]]:
    """Returns an allocation of which no task uses some component, and the places of the others."""
    for _ in range(100):
        allocation = moved(way)
        is_used = (allocation.matrix() != 0).any(dim=0)
        if not is_used.all():
            return allocation, is_used.nonzero().flatten().tolist()
    raise AssertionError(f"{way} uses every component in a hundred draws.")


@mark.parametrize(
    "way", ["gumbel", "metadata", "straight_through", "soft", "hard_concrete", "routing"]
)
def test_components_that_are_kept_keep_their_weights(way: str) -> None:
    allocation, kept = with_unused(way)
    before = [weights(allocation, task)[kept] for task in range(T)]
    allocation.keep_components(kept)
    assert allocation.n_components == len(kept)
    assert allocation.n_noise == {"soft": 0, "routing": 1}.get(way, len(kept))
    assert all(torch.equal(weights(allocation, task), before[task]) for task in range(T))
    assert_tasks_are_batched_over(allocation)


def test_what_learns_goes_on_learning() -> None:
    allocation = GumbelMatrix(T, C)
    allocation.n_batches.fill_(7)
    allocation.logits.requires_grad_(False)
    allocation.add_task(0)
    assert not allocation.logits.requires_grad
    assert int(allocation.n_batches) == 7


def test_tables_say_the_same_after_they_have_grown() -> None:
    allocation = FixedMatrix([[1, 0], [1, 1]])
    allocation.add_task(0)
    assert allocation.matrix().tolist() == [[1, 0], [1, 1], [1, 0]]
    assert SharedBottom(2, 2).state_dict().keys() == allocation.state_dict().keys()
