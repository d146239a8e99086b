"""Ways of sharing that evolve: whose turn it is, who wins, and that all layers agree."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment import extract
from allotment._engine._sampler import held_out
from allotment.allocation import ChampionChallenger, PathNet
from allotment.allocation._tournament import Tournament, hashed
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Split, Task
from allotment.training import Run, fit
from tests.allocation.ways import both_schedules
from tests.engine.test_trainer import assert_one_program_of_plain_loops, nightly
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_run,
    assert_resumed_to_the_bit,
    outcomes_of,
)

DECISIONS = ("contestants", "losses", "counts", "n_over", "fitness")
N = 4  # components of a layer


def paths(depth: int) -> Tournament:
    return PathNet(2, N, n_active=2, n_members=6, n_each=2, n_layers=3)


def champions(depth: int) -> Tournament:
    return ChampionChallenger(2, N, n_each=2, depth=depth, n_layers=3)


KINDS = [param(paths, id="PathNet"), param(champions, id="ChampionChallenger")]
Make = Callable[[int], Tournament]


def three_layers(make: Make) -> MultiTaskNetwork:
    layers = [
        ModularLayer([nn.Linear(N_INPUTS, N_INPUTS) for _ in range(N)], make(depth))
        for depth in range(3)
    ]
    return MultiTaskNetwork(None, [*layers, nn.Linear(N_INPUTS, 1)])


def runs_of(make: Make, n_runs: int, **changes: Any) -> list[Run]:
    settings = SETTINGS.changed(**{"rounds": 20} | changes)
    return [a_run(seed, settings, build=lambda: three_layers(make)) for seed in range(n_runs)]


@mark.usefixtures("double")
@both_schedules
@mark.parametrize("make", KINDS)
def test_runs_are_vmapped_and_traced_and_equal_plainly_written_loops(
    make: Make, schedule: str
) -> None:
    assert_one_program_of_plain_loops(runs_of(make, 2, schedule=schedule))


@mark.usefixtures("double")
@mark.parametrize("make", KINDS)
def test_a_run_alone_ends_as_it_does_with_others(make: Make) -> None:
    together = outcomes_of(runs_of(make, 3, allocation_held_out=0.2))[0]
    alone = outcomes_of(runs_of(make, 1, allocation_held_out=0.2))[0]
    for name, value in alone.weights.items():
        assert_close(together.weights[name], value, rtol=0, atol=1e-9, msg=f"{name}: {{}}".format)


@mark.parametrize("make", [KINDS[0], *nightly(KINDS[1:])])
def test_going_on_from_a_state_ends_the_same_to_the_bit(make: Make) -> None:
    assert_resumed_to_the_bit(lambda: runs_of(make, 2))


@mark.parametrize("make", KINDS)
def test_all_layers_of_a_network_decide_as_one(make: Make) -> None:
    for outcome in outcomes_of(runs_of(make, 2)):
        for name in DECISIONS:
            first, *others = (outcome.weights[f"layers.{i}.allocation.{name}"] for i in range(3))
            for other in others:
                assert torch.equal(first, other), name
        # 20 batches of each task, of which 4 make a tournament.
        assert outcome.weights["layers.0.allocation.n_over"].tolist() == [5, 5]


def told(allocation: Tournament, task: int, *losses: float) -> None:
    for loss in losses:
        allocation.observe(task, torch.tensor(loss))
        allocation.advance()


@mark.parametrize("make", KINDS)
@mark.parametrize(
    ("losses", "winner"),
    [
        ((1.0, 2.0, 1.0, 2.0), 0),
        ((2.0, 1.0, 2.0, 1.0), 1),
        ((9.0, 5.0, 0.0, 5.0), 0),  # by the mean of both
        ((float("nan"), 2.0, 1.0, 2.0), 1),  # who leaves the numbers has lost
    ],
)
def test_the_loser_becomes_a_changed_copy_of_the_winner(
    make: Make, losses: tuple[float, ...], winner: int
) -> None:
    allocation = make(0)
    before, pair = allocation.members.clone(), allocation.contestants.clone()
    told(allocation, 1, *losses[:3])
    assert torch.equal(allocation.members, before)
    told(allocation, 1, losses[3])
    places = pair[1].tolist()
    best = allocation.fitness[1].tolist()
    assert best[places[winner]] == sum(losses[winner::2]) / 2
    assert best[places[1 - winner]] == float("inf")
    expected = before.clone()
    copies = torch.stack([before[0, 0], before[1, places[winner]]])
    expected[1, places[1 - winner]] = allocation.mutated(copies)[1]
    assert torch.equal(allocation.members, expected)
    assert allocation.n_over.tolist() == [0, 1]
    assert allocation.counts.tolist() == [0, 0]
    assert allocation.losses.tolist() == [[0, 0], [0, 0]]
    assert torch.equal(allocation.contestants[0], pair[0])  # the other task's goes on


@mark.parametrize("make", KINDS)
def test_batches_of_a_task_go_to_its_contestants_in_turn(make: Make) -> None:
    allocation = make(0).train()
    for batch in range(4):
        for task in range(2):
            place = allocation.contestants[task, batch % 2]
            used = allocation.weights(task) > 0
            assert torch.equal(used, allocation.opened(allocation.members[task, place]))
        if batch < 3:
            told(allocation, 0, 1.0)
            told(allocation, 1, 1.0)


@mark.parametrize("make", KINDS)
def test_evaluation_uses_the_member_that_won_with_the_smallest_loss(make: Make) -> None:
    allocation = make(0).eval()

    def assert_used(members: Tensor) -> None:
        used = allocation.opened(members)
        assert torch.equal(allocation.matrix() > 0, used)
        assert torch.equal(torch.stack([allocation.weights(t) for t in range(2)]) > 0, used)

    assert_used(allocation.members[:, 0])  # nobody has won yet
    winner = int(allocation.contestants[0, 1])
    told(allocation, 0, 2.0, 1.0, 2.0, 1.0)
    assert_used(torch.stack([allocation.members[0, winner], allocation.members[1, 0]]))
    allocation.fitness[1, 1] = 7.0
    allocation.fitness[0, 1 - min(winner, 1)] = 0.5
    best = allocation.members[0, 1 - min(winner, 1)], allocation.members[1, 1]
    assert_used(torch.stack(best))


@mark.parametrize("make", KINDS)
def test_many_tasks_at_once_are_each_by_itself(make: Make) -> None:
    allocation = make(0).train()
    told(allocation, 1, 1.0)
    together = vmap(allocation.weights)(torch.arange(2))
    assert_close(together, torch.stack([allocation.weights(task) for task in range(2)]))
    shares = vmap(allocation.probabilities)(torch.arange(2))
    assert_close(shares, allocation.probabilities())
    by_hand = allocation.opened(allocation.members).float().mean(dim=1)
    assert_close(allocation.probabilities(), by_hand)


def test_contestants_are_different_and_each_member_comes_as_often() -> None:
    n_tasks, n_members = 6_000, 5
    allocation = PathNet(n_tasks, 2, n_members=n_members)
    first, second = allocation.contestants.T
    assert (first != second).all()
    for places in (first, second):
        shares = places.bincount(minlength=n_members) / n_tasks
        standard_error = (0.2 * 0.8 / n_tasks) ** 0.5
        assert_close(shares, torch.full((n_members,), 0.2), rtol=0, atol=4 * standard_error)


def test_hashes_are_as_if_drawn() -> None:
    n = 40_000
    draws = hashed(torch.arange(200).unsqueeze(1), torch.arange(200), 7).flatten()
    assert draws.min() >= 0 and draws.max() < 2**32
    assert len(draws.unique()) > n - 5  # 0.2 pairs alike are expected
    shares = (draws // 2**28).bincount(minlength=16) / n
    error = (1 / 16 * 15 / 16 / n) ** 0.5
    assert_close(shares, torch.full((16,), 1 / 16), rtol=0, atol=4 * error)
    low = (draws % 5).bincount(minlength=5) / n
    assert_close(low, torch.full((5,), 0.2), rtol=0, atol=4 * (0.16 / n) ** 0.5)
    u = draws.double() / 2**32
    following = torch.corrcoef(torch.stack([u[:-1], u[1:]]))[0, 1]
    assert abs(float(following)) < 4 / n**0.5  # the standard error of no correlation


class Fixed(nn.Module):
    """A component that does not learn."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def two_answers(share: float) -> list[Task]:
    """Returns tasks whose held-out examples have other answers than those that weights see."""
    x = torch.randn(40, 1)
    tasks = []
    for name, factors in (("a", (1.0, -1.0)), ("b", (-1.0, 1.0))):
        unlabelled = Task(name, Split(x, torch.zeros(40, 1)))
        is_held_out = held_out(unlabelled, share, 0).unsqueeze(1)
        y = torch.where(is_held_out, factors[1] * x, factors[0] * x)
        tasks.append(Task(name, Split(x, y)))
    return tasks


def kind_of(make: type[Tournament], **options: Any) -> MultiTaskNetwork:
    allocation: Any = make
    layer = ModularLayer(
        [Fixed(1.0), Fixed(-1.0), Fixed(9.0)], allocation(2, 3, n_each=3, reduce="mean", **options)
    )
    scale = nn.Linear(1, 1, bias=False)
    nn.init.ones_(scale.weight)
    return MultiTaskNetwork(None, [layer, scale], task_names=["a", "b"])


@mark.parametrize("is_held_out", [False, True])
@mark.parametrize(
    ("kind", "options"),
    [(PathNet, {"n_active": 1, "n_members": 6}), (ChampionChallenger, {})],
)
def test_evolution_finds_the_component_that_fits_and_held_out_examples_decide(
    kind: type[Tournament], options: dict[str, Any], is_held_out: bool
) -> None:
    torch.manual_seed(0)
    network = kind_of(kind, **options)
    changes = {"rounds": 150, "learning_rate": 1e-6, "batch_size": 8}
    # Without it few have the other answer, so that none of them decides a tournament.
    share = 0.2 if is_held_out else 0.05
    settings = SETTINGS.changed(**changes, allocation_held_out=share * is_held_out)
    result = fit(network, two_answers(share), settings)
    expected = [[0, 1, 0], [1, 0, 0]] if is_held_out else [[1, 0, 0], [0, 1, 0]]
    assert result.embeddings.tolist() == expected
    x = torch.randn(5, 1)
    for task in range(2):
        assert_close(extract(network, task)(x), network(x, task))


@mark.parametrize("make", KINDS)
def test_training_changes_it_though_it_has_no_parameters(make: Make) -> None:
    assert make(0).is_learnt
    assert list(make(0).parameters()) == []


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n_each": 0}, ValueError, r"^`n_each` should be at least 1\. Found `n_each = 0`\.$"),
    ({"n_each": 1.5}, TypeError, r"^`n_each` should be a whole number\. Found `n_each = 1.5`\.$"),
    ({"n_layers": 0}, ValueError, r"^`n_layers` should be at least 1\. Found `n_layers = 0`\.$"),
    ({"reduce": "max"}, ValueError, r"^`reduce` should be one of 'sum', 'mean'\. Found .*'max'`\."),
]


@mark.parametrize("kind", [PathNet, ChampionChallenger])
@mark.parametrize(("options", "error", "message"), BAD)
def test_bad_options_are_refused(
    kind: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        kind(2, 3, **options)
    kind(2, 3, n_each=1, n_layers=1, reduce="sum")
