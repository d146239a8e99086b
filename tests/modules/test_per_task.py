"""A module for each task, at any place of a network."""

from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

import allotment as al
from allotment import MultiTaskModel, MultiTaskNetwork, PerTask, extract
from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, TaskNetwork

TASKS = ["a", "b.c"]  # a name may have a dot


def a_layer() -> ModularLayer:
    return ModularLayer([nn.Linear(4, 4) for _ in range(2)], GumbelMatrix(2, 2, p_init=0.9))


def encoders() -> PerTask:
    return PerTask({"b.c": nn.Linear(3, 4), "a": nn.Embedding(9, 4)})  # in another order


def as_stem() -> TaskNetwork:
    heads = {name: nn.Linear(4, 1) for name in TASKS}
    return MultiTaskNetwork(encoders(), [a_layer()], heads)


class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.ModuleList([encoders()])
        self.layer = a_layer()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(self.encode[0](x))
        return y


def at_depth() -> TaskNetwork:
    return MultiTaskModel(Body(), {name: nn.Linear(4, 1) for name in TASKS})


INPUTS = {"a": torch.tensor([0, 3, 8]), "b.c": torch.randn(3, 3)}


@mark.parametrize("build", [as_stem, at_depth])
@mark.parametrize("as_tensor", [True, False])
def test_each_task_has_its_own_module(build: Any, as_tensor: bool) -> None:
    network = build().eval()
    (encode,) = [module for module in network.modules() if isinstance(module, PerTask)]
    (layer,) = network.modular_layers
    for index, (task, x) in enumerate(INPUTS.items()):
        told = torch.tensor(index) if as_tensor else task
        expected = network.heads[task](layer(encode[task](x), task=index))
        assert_close(network(x, told), expected)
        own = extract(network, task)
        assert torch.equal(own(x), network(x, index))
        assert not any(isinstance(module, PerTask) for module in own.modules())


@mark.parametrize("build", [as_stem, at_depth])
def test_other_tasks_modules_get_no_gradient(build: Any) -> None:
    network = build()
    network(INPUTS["a"], "a").sum().backward()
    (encode,) = [module for module in network.modules() if isinstance(module, PerTask)]
    assert encode["a"].weight.grad is not None and encode["b.c"].weight.grad is None


def shape_alike(seed: int = 0) -> TaskNetwork:
    torch.manual_seed(seed)
    stem = PerTask({"b.c": nn.Linear(3, 4), "a": nn.Sequential(nn.Linear(3, 4), nn.Tanh())})
    return MultiTaskNetwork(stem, [a_layer()], {name: nn.Linear(4, 1) for name in TASKS})


@mark.parametrize("schedule", ["alternating", "joint"])
def test_fit_trains_the_module_of_each_task(schedule: str) -> None:
    x = torch.randn(60, 3)
    tasks = [al.Task(name, (x, x[:, n]), (x, x[:, n])) for n, name in enumerate(TASKS)]
    rounds = 150
    settings = al.TrainingSettings(
        rounds=rounds,
        batch_size=20,
        schedule=schedule,
        optimization=al.Optimization(learning_rate=0.02),
    )
    network = shape_alike()
    plan = al.plan([al.Run(network, tasks, 0, settings)])
    assert "PerTask" in plan.task.reason and plan.task.value == "number"
    result = al.fit(network, tasks, settings)
    assert result.validation is not None and result.validation.losses.max() < 0.5
    for n, name in enumerate(TASKS):
        assert_close(network(x, name).squeeze(1), x[:, n], rtol=0, atol=2.0)


@mark.filterwarnings("ignore:Training one run at a time")
def test_several_runs_go_one_by_one() -> None:
    x = torch.randn(20, 3)
    tasks = [al.Task(name, (x, x[:, 0])) for name in TASKS]
    settings = al.TrainingSettings(rounds=10, batch_size=5)
    runs = [al.Run(shape_alike(seed), tasks, seed, settings) for seed in range(2)]
    assert al.plan(runs).runs.value == "one by one"
    *_, last = al.train(runs)
    assert last.outcomes is not None and len(last.outcomes) == 2


def test_a_dict_reaches_the_module_of_the_task() -> None:
    class Add(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return left + right

    stem = PerTask({"a": Add(), "b": nn.Identity()})
    layer = ModularLayer([nn.Identity()], SharedBottom(2, 1))
    network = MultiTaskNetwork(stem, [layer], task_names=["a", "b"])
    x = torch.randn(5, 4)
    assert_close(network({"left": x, "right": x}, "a"), 2 * x)
    assert_close(network((x, x), "a"), 2 * x)
    assert_close(network(x, "b"), x)
    own = extract(network, "a")
    assert_close(own((x, x)), 2 * x)


def test_without_names_the_order_is_its_own() -> None:
    network = MultiTaskNetwork(encoders(), [a_layer()]).eval()
    assert network(INPUTS["b.c"], 0).shape == (3, 4)


@mark.parametrize(
    ("names", "words"),
    [(["a", "c"], r"Found \['b\.c', 'a'\] for \['a', 'c'\]"), (["a", "b.c"], "")],
)
def test_names_are_those_of_the_network(names: list[str], words: str) -> None:
    if not words:
        MultiTaskNetwork(encoders(), [a_layer()], task_names=names)
        return
    with raises(ValueError, match=r"`PerTask` should have a module for each.*" + words):
        MultiTaskNetwork(encoders(), [a_layer()], task_names=names)


@mark.parametrize("modules", [[nn.Linear(2, 2)], {"a": 3}, {}, nn.Linear(2, 2)])
def test_bad_input(modules: Any) -> None:
    with raises(TypeError, match=r"`modules` should be a dict with a module for each task"):
        PerTask(modules)


def test_without_a_task_it_says_so() -> None:
    with raises(ValueError, match=r"within `for_task\(task\)`. Found no task"):
        encoders()(INPUTS["a"])
    with al.for_task(0):
        assert encoders()(INPUTS["b.c"]).shape == (3, 4)
    with raises(KeyError, match=r"one of \['b\.c', 'a'\]\. Found 'd'"):
        encoders()["d"]


def test_names_that_are_one_are_refused() -> None:
    with raises(ValueError, match="`modules` should have different names"):
        PerTask({1: nn.Identity(), "1": nn.Identity()})  # type: ignore[dict-item]
