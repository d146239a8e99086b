from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor, nn

import allotment as al
from allotment.allocation import MetadataMatrix, ScoreFunctionMatrix, TopKExperts
from allotment.modules import MultiTaskNetwork, TaskNetwork
from tests.training.toy import N_INPUTS, SETTINGS, classes

# All that could move what no batch reaches: decay, averages, another optimizer, joint steps.
HOSTILE = SETTINGS.changed(rounds=20, weight_decay=0.3, ema_decay=0.9, allocation_learning_rate=0.3)


def component() -> nn.Module:
    return nn.Sequential(nn.Linear(N_INPUTS, 4), nn.BatchNorm1d(4), nn.Tanh())


def grown(allocation: al.Allocation, *, like: Any = "classes 0") -> MultiTaskNetwork:
    """Returns a network that was trained on two tasks, and has a third."""
    layer = al.ModularLayer([component() for _ in range(allocation.n_components)], allocation)
    heads = {"classes 0": nn.Linear(4, 3), "classes 1": nn.Linear(4, 2)}
    network = MultiTaskNetwork(None, [layer], heads)
    al.fit(network, TASKS[:2], SETTINGS.changed(schedule="joint"))
    al.add_task(network, "classes 2", nn.Linear(4, 4), like=like)
    return network


TASKS = classes(3, 2, 4)


def outputs(network: TaskNetwork) -> list[Tensor]:
    x = torch.randn(9, N_INPUTS, generator=torch.Generator().manual_seed(1))
    network.eval()
    with torch.no_grad():
        return [network(x, task) for task in range(3)]


def states(network: nn.Module) -> dict[str, Tensor]:
    return deepcopy(network.state_dict())


WAYS: dict[str, tuple[Callable[[], al.Allocation], Any]] = {
    "gumbel": (lambda: al.GumbelMatrix(2, 3), "classes 0"),
    "reward": (lambda: ScoreFunctionMatrix(2, 3), None),
    "metadata": (lambda: MetadataMatrix(2, 3, features=[[0.0, 1.0], [1.0, 0.0]]), [0.5, 1.0]),
    "top_k": (lambda: TopKExperts(2, 3, n_features=N_INPUTS), None),
}


def sgd(groups: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, momentum=0.9)


@mark.parametrize("way", WAYS)
@mark.parametrize("changes", [{}, {"optimizer": sgd, "schedule": "joint"}], ids=["adam", "sgd"])
def test_only_what_is_the_new_task_s_own_learns_and_all_else_stays_to_the_bit(
    way: str, changes: dict[str, Any]
) -> None:
    make, like = WAYS[way]
    network = grown(make(), like=like)
    before, state = outputs(network), states(network)
    result = al.fit(network, TASKS[2:], HOSTILE.changed(**changes), only=["classes 2"])
    after = outputs(network)
    assert torch.equal(after[0], before[0]) and torch.equal(after[1], before[1])
    assert not torch.equal(after[2], before[2])
    assert result.task_names == ("classes 2",) and result.drift is None
    allocation = network.modular_layers[0].allocation
    tables = {f"layers.0.allocation.{name}" for name, letters in allocation.axes if "T" in letters}
    for name, value in network.state_dict().items():
        if name in tables:
            assert torch.equal(value[:2], state[name][:2]), name
        elif not name.startswith("heads.2") and not name.endswith("allocation.n_batches"):
            assert torch.equal(value, state[name]), name
    assert not torch.equal(network.get_parameter("heads.2.weight"), state["heads.2.weight"])


def test_the_new_row_learns_and_annealing_goes_on() -> None:
    network = grown(al.GumbelMatrix(2, 3), like=None)
    n_before = 20  # ten rounds of two tasks
    al.fit(network, TASKS[2:], HOSTILE, only=["classes 2"])
    allocation = network.modular_layers[0].allocation
    assert isinstance(allocation, al.GumbelMatrix)
    assert int(allocation.n_batches) == n_before + 20
    assert (allocation.probabilities(2) != 0.5).all()


def test_what_was_learnt_is_what_the_result_says() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    result = al.fit(network, TASKS, HOSTILE, only=["classes 2"])
    assert result.test is not None
    found = al.evaluate(network, TASKS[2:])
    assert abs(found.losses[0] - result.test.losses[0]) < 1e-6
    assert torch.equal(network.matrix()[2:], torch.tensor(result.embeddings).float())


def test_what_tasks_share_learns_too_with_a_stated_drift() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    before, state = outputs(network), states(network)
    start = al.evaluate(network, TASKS[:2], "validation")
    result = al.fit(network, TASKS, HOSTILE, only=["classes 2"], shared_learns=True)
    after, drift = outputs(network), result.drift
    assert drift is not None
    assert not torch.equal(after[0], before[0])
    assert drift.before.by_task() == start.by_task()
    assert drift.after.by_task() == al.evaluate(network, TASKS[:2], "validation").by_task()
    assert drift.before.task_names == ("classes 0", "classes 1")
    assert "Drift of the other tasks on validation:\n  classes 0: loss" in str(result)
    logits = network.state_dict()["layers.0.allocation.logits"]
    assert torch.equal(logits[:2], state["layers.0.allocation.logits"][:2])
    assert torch.equal(network.get_parameter("heads.0.weight"), state["heads.0.weight"])


def test_two_tasks_are_trained_alone_together() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    before = outputs(network)
    result = al.fit(network, TASKS[::-1], HOSTILE, only=["classes 2", "classes 0"])
    after = outputs(network)
    assert result.task_names == ("classes 0", "classes 2")
    assert torch.equal(after[1], before[1]) and not torch.equal(after[0], before[0])


def test_a_module_of_the_new_task_learns_and_one_that_it_shares_does_not() -> None:
    stem = al.PerTask({f"classes {n}": nn.Linear(N_INPUTS, N_INPUTS) for n in range(2)})
    layer = al.ModularLayer([component() for _ in range(2)], al.GumbelMatrix(2, 2))
    heads = {"classes 0": nn.Linear(4, 3), "classes 1": nn.Linear(4, 2)}
    network = MultiTaskNetwork(stem, [layer], heads)
    own = nn.Linear(N_INPUTS, N_INPUTS)
    stem.add("classes 2", own)
    al.add_task(network, "classes 2", nn.Linear(4, 4), like="classes 1")
    start, before = own.weight.detach().clone(), outputs(network)
    al.fit(network, TASKS[2:], HOSTILE, only=["classes 2"])
    assert not torch.equal(own.weight, start)
    after = outputs(network)
    assert torch.equal(after[0], before[0]) and torch.equal(after[1], before[1])


def test_what_a_failing_callback_leaves_is_the_new_task_s_own() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    before = outputs(network)

    def fails(progress: al.Progress) -> None:
        raise KeyError("mine")

    with raises(KeyError, match="mine"):
        al.fit(network, TASKS[2:], HOSTILE, only=["classes 2"], on_progress=fails)
    after = outputs(network)
    assert torch.equal(after[0], before[0]) and not torch.equal(after[2], before[2])


def test_a_grown_network_is_stopped_and_resumed_to_the_bit() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    runs = [al.Run(network, TASKS, 0, SETTINGS.changed(rounds=20, schedule="joint"))]
    *_, whole = al.train(runs)
    for progress in al.train(runs):
        assert progress.state is not None
        state = progress.state()
        break
    *_, resumed = al.train(runs, resume_from=state)
    assert whole.outcomes and resumed.outcomes
    weights = resumed.outcomes[0].weights
    assert all(torch.equal(weights[k], value) for k, value in whole.outcomes[0].weights.items())
    assert weights["layers.0.allocation.logits"].shape == (3, 3, 2)


@mark.parametrize(
    ("only", "tasks", "options", "message"),
    [
        ("classes 2", TASKS, {}, "`only` should be a list of names of tasks. Found a str"),
        ([], TASKS, {}, "`only` should be a list of names of tasks"),
        (["z"], TASKS, {}, r"`only` should name tasks of the network, .* Found 'z'"),
        (["classes 2"], TASKS[:2], {}, "`tasks` should hold those of `only`. Found no task"),
        (["classes 2"], TASKS[2:], {"shared_learns": True}, "Found no task 'classes 0'"),
    ],
)
def test_what_cannot_be_trained_alone_is_told(
    only: Any, tasks: list[al.Task], options: dict[str, Any], message: str
) -> None:
    network = grown(al.GumbelMatrix(2, 3))
    with raises((TypeError, ValueError), match=message):
        al.fit(network, tasks, SETTINGS, only=only, **options)


def test_drift_needs_validation_splits() -> None:
    network = grown(al.GumbelMatrix(2, 3))
    bare = [al.Task(task.name, task.train) for task in TASKS]
    with raises(ValueError, match=r"far the others drift. Found no validation split"):
        al.fit(network, bare, SETTINGS, only=["classes 2"], shared_learns=True)


def test_a_bare_module_has_no_tasks_to_train_alone() -> None:
    layer = al.ModularLayer([nn.Linear(N_INPUTS, 3)], al.SharedBottom(1, 1))
    with raises(TypeError, match=r"where `only` some of its tasks learn. Found a ModularLayer"):
        al.fit(layer, TASKS[:1], SETTINGS, only=["classes 0"])
