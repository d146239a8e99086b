from copy import deepcopy
from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor, nn

import allotment as al
from allotment.allocation import MetadataMatrix, MMoE
from allotment.modules import MultiTaskNetwork, TaskMask, TaskNetwork, own_modules

D = 5


def parts(n: int = 3) -> list[nn.Module]:
    return [nn.Sequential(nn.Linear(D, D), nn.Tanh()) for _ in range(n)]


def a_network(*allocations: al.Allocation, heads: bool = True) -> MultiTaskNetwork:
    layers = [al.ModularLayer(parts(own.n_components), own) for own in allocations]
    own_heads = {"a": nn.Linear(D, 2), "b": nn.Linear(D, 3)} if heads else None
    names = None if heads else ["a", "b"]
    return MultiTaskNetwork(nn.Linear(D, D), layers, own_heads, task_names=names)


def learnt(n: int = 3) -> al.GumbelMatrix:
    allocation = al.GumbelMatrix(2, n)
    nn.init.normal_(allocation.logits)
    with torch.no_grad():
        allocation.logits[:, 0, 0] = 5.0  # one gate is open, so that nothing is all zeros
    return allocation


def outputs(network: TaskNetwork, x: Tensor, *names: str) -> list[Tensor]:
    network.eval()
    with torch.no_grad():
        return [network(x, name) for name in names]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@mark.parametrize("like", [None, "a", 1])
def test_a_new_task_leaves_the_outputs_of_the_others_to_the_bit(like: Any) -> None:
    network, x = a_network(learnt(), learnt(4)), torch.randn(7, D)
    before = outputs(network, x, "a", "b")
    al.add_task(network, "c", nn.Linear(D, 4), like=like)
    assert_equal(outputs(network, x, "a", "b"), before)
    assert network.task_names == ["a", "b", "c"] and network.n_tasks == 3
    assert outputs(network, x, "c")[0].shape == (7, 4)
    assert isinstance(network.heads, nn.ModuleList)
    assert network.heads["c"] is network.heads[2]
    if like is not None:
        rows = network.matrix()
        assert torch.equal(rows[2], rows[network.task_index(like)])


def test_a_task_that_is_added_and_dropped_leaves_no_trace() -> None:
    network = a_network(learnt())
    before = deepcopy(network.state_dict())
    al.add_task(network, "c", nn.Linear(D, 4))
    al.drop_task(network, "c")
    after = network.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_task_that_is_dropped_leaves_the_outputs_of_the_others_to_the_bit() -> None:
    network, x = a_network(learnt()), torch.randn(7, D)
    before = outputs(network, x, "b")
    al.drop_task(network, "a")
    assert network.task_names == ["b"]
    assert_equal(outputs(network, x, "b"), before)
    with raises(ValueError, match="`network` should have another task than 'b'"):
        al.drop_task(network, "b")


def test_a_grown_network_is_one_that_was_built_with_all_tasks() -> None:
    network, x = a_network(learnt()), torch.randn(7, D)
    al.add_task(network, "c", nn.Linear(D, 4))
    heads = {"a": nn.Linear(D, 2), "b": nn.Linear(D, 3), "c": nn.Linear(D, 4)}
    layer = al.ModularLayer(parts(), al.GumbelMatrix(3, 3))
    anew = MultiTaskNetwork(nn.Linear(D, D), [layer], heads)
    anew.load_state_dict(network.state_dict())
    assert_equal(outputs(anew, x, *"abc"), outputs(network, x, *"abc"))
    alone = al.extract(network, "c")
    assert torch.equal(alone(x), outputs(network, x, "c")[0])


def test_annealing_goes_on_where_it_stood() -> None:
    network = a_network(learnt())
    allocation = network.modular_layers[0].allocation
    assert allocation.n_batches is not None
    allocation.n_batches.fill_(120)
    al.add_task(network, "c", nn.Linear(D, 4))
    assert int(network.modular_layers[0].allocation.n_batches) == 120  # type: ignore[arg-type]


def test_a_network_without_heads_grows_too() -> None:
    network = a_network(learnt(), heads=False)
    al.add_task(network, "c")
    assert outputs(network, torch.randn(7, D), "c")[0].shape == (7, D)
    with raises(ValueError, match="`head` should be None where a network has no heads"):
        al.add_task(network, "d", nn.Linear(D, 4))


def test_what_is_known_of_a_task_gives_it_a_row() -> None:
    network = a_network(MetadataMatrix(2, 3, features=[[1.0, 0.0], [0.0, 1.0]]))
    al.add_task(network, "c", nn.Linear(D, 4), like=[0.5, 0.5])
    allocation = network.modular_layers[0].allocation
    assert isinstance(allocation, MetadataMatrix)
    assert torch.equal(network.probabilities(2), allocation.row_for([0.5, 0.5]))


def test_gates_that_see_examples_grow_too() -> None:
    network, x = a_network(MMoE(2, 3, n_features=D)), torch.randn(7, D)
    before = outputs(network, x, "a", "b")
    al.add_task(network, "c", nn.Linear(D, 4), like="a")
    assert_equal(outputs(network, x, "a", "b"), before)


def with_own_parts() -> MultiTaskNetwork:
    """Returns a network with a module and a mask for each task."""
    stem = al.PerTask({"b": nn.Linear(D, D), "a": nn.Linear(D, D)})
    layers = [TaskMask(2, D), al.ModularLayer(parts(), learnt())]
    heads = {"a": nn.Linear(D, 2), "b": nn.Linear(D, 3)}
    return MultiTaskNetwork(stem, layers, heads)


def test_a_module_of_each_task_is_shared_or_given() -> None:
    network, x = with_own_parts(), torch.randn(7, D)
    stem = network.stem
    assert isinstance(stem, al.PerTask)
    before = outputs(network, x, "a", "b")
    with raises(ValueError, match="`like` should be a task whose module in `PerTask` task 'c'"):
        al.add_task(network, "c", nn.Linear(D, 4))
    assert network.n_tasks == 2
    al.add_task(network, "c", nn.Linear(D, 4), like="a")
    assert stem["c"] is stem["a"]
    stem.add("d", nn.Linear(D, D))
    al.add_task(network, "d", nn.Linear(D, 4))
    assert_equal(outputs(network, x, "a", "b"), before)
    assert network(x, "d").shape == (7, 4)
    assert own_modules(network, [2]) == [network.heads[2]]  # type: ignore[index]
    assert own_modules(network, [3]) == [network.heads[3], stem["d"]]  # type: ignore[index]
    al.drop_task(network, "a")
    al.drop_task(network, "c")
    assert_equal(outputs(network, x, "b"), before[1:])
    assert stem.names == ["b", "d"]


def test_a_module_that_is_there_is_not_given_again() -> None:
    stem = al.PerTask({"a": nn.Linear(D, D)})
    with raises(ValueError, match=r"A new task should have a module, and none of the names"):
        stem.add("a", nn.Linear(D, D))


@mark.parametrize(
    ("name", "head", "like", "message"),
    [
        ("a", nn.Linear(D, 2), None, r"`name` should be a text, and none of \['a', 'b'\]"),
        (3, nn.Linear(D, 2), None, "`name` should be a text"),
        ("c", None, None, "`head` should be a module, as the others'. Found None"),
        ("c", nn.Linear(D + 1, 2), None, "The head of task 'c' should take 5 features.*takes 6"),
        ("c", nn.Sequential(nn.Linear(4, 2)), None, "should take 5 features.*takes 4"),
        ("c", nn.Linear(D, 2), "z", r"`task` should be one of \['a', 'b'\]. Found 'z'"),
        ("c", nn.Linear(D, 2), 2, "`task` should be in 0 to 1. Found 2"),
        ("c", nn.Linear(D, 2), [1.0], "`like` should be one of the network's tasks, or None"),
    ],
)
def test_what_cannot_be_added_is_told_and_changes_nothing(
    name: Any, head: Any, like: Any, message: str
) -> None:
    network = a_network(learnt(), learnt())
    before = deepcopy(network.state_dict())
    with raises((ValueError, TypeError), match=message):
        al.add_task(network, name, head, like=like)
    assert network.n_tasks == 2 and network.state_dict().keys() == before.keys()


def test_nothing_has_grown_where_one_layer_cannot() -> None:
    network = a_network(learnt(), al.FixedMatrix([[1, 0], [0, 1]]))
    with raises(ValueError, match="`like` should be a task where allocations are decided by hand"):
        al.add_task(network, "c", nn.Linear(D, 2))
    assert [layer.allocation.n_tasks for layer in network.modular_layers] == [2, 2]
    al.add_task(network, "c", nn.Linear(D, 2), like="b")
    assert network.matrix()[2, -2:].tolist() == [0, 1]


def test_only_networks_grow() -> None:
    layer: Any = al.ModularLayer(parts(), learnt())
    with raises(TypeError, match="`network` should be a MultiTaskNetwork or a MultiTaskModel"):
        al.add_task(layer, "c")
    with raises(ValueError, match=r"`task` should be one of \['a', 'b'\]. Found 'z'"):
        al.drop_task(a_network(learnt()), "z")


def sparse() -> MultiTaskNetwork:
    """Returns a network in which no task uses the second and third components of a layer."""
    used = learnt(4)
    with torch.no_grad():
        used.logits[:, 1:3, 0] = -9.0
        used.logits[:, 3, 0] = 9.0
    return a_network(used, al.SharedBottom(2, 2), al.FixedMatrix([[0, 0], [0, 0]]))


def test_components_that_no_task_uses_are_removed_and_outputs_stay_to_the_bit() -> None:
    network, x = sparse(), torch.randn(7, D)
    before = outputs(network, x, "a", "b")
    kept = list(network.modular_layers[0].components)[::3]
    n_before = sum(p.numel() for p in network.parameters())
    found = al.prune(network)
    assert_equal(outputs(network, x, "a", "b"), before)
    assert list(network.modular_layers[0].components) == kept
    assert network.layer_sizes == (2, 2, 1)  # a layer keeps one
    assert found.components == {"layers.0": [1, 2], "layers.2": [1]}
    n_after = sum(p.numel() for p in network.parameters())
    assert (found.n_parameters_before, found.n_parameters) == (n_before, n_before - n_after)
    assert "3 components that no task uses (sequential 1, sequential 2, sequential 1)" in str(found)
    assert [layer.span for layer in network.modular_layers] == [(0, 2), (2, 2), (2, 2)]
    assert str(al.prune(network)) == "Every component is used by some task; nothing was removed."


def test_what_was_removed_is_removed_from_a_network_that_is_built_anew() -> None:
    network, x = sparse(), torch.randn(7, D)
    found = al.prune(network)
    anew = a_network(al.GumbelMatrix(2, 4), al.SharedBottom(2, 2), al.FixedMatrix([[0, 0]] * 2))
    al.prune(anew, found.components)
    anew.load_state_dict(network.state_dict())
    assert_equal(outputs(anew, x, "a", "b"), outputs(network, x, "a", "b"))


def test_a_pruned_network_still_trains() -> None:
    network = sparse()
    al.prune(network)
    network.train()
    network(torch.randn(7, D), "a", noise=al.Noise(gates=torch.rand(2))).sum().backward()


@mark.parametrize("components", [{"layers.9": [0]}, {"layers.0": [4]}, {"layers.0": [0, 1, 2, 3]}])
def test_components_that_cannot_be_removed_are_told(components: dict[str, list[int]]) -> None:
    with raises(ValueError, match="`components` should have places of components by layer"):
        al.prune(sparse(), components)


def test_layers_in_which_examples_decide_stay_whole() -> None:
    network = a_network(MMoE(2, 3, n_features=D))
    assert al.prune(network).names == ()


def test_layers_with_one_allocation_lose_the_same_components() -> None:
    allocation = learnt()
    with torch.no_grad():
        allocation.logits[:, 1, 0] = -9.0
        allocation.logits[:, 2, 0] = 9.0
    layers = [al.ModularLayer(parts(), allocation) for _ in range(2)]
    network = MultiTaskNetwork(None, layers, task_names=["a", "b"])
    x = torch.randn(7, D)
    before = outputs(network, x, "a", "b")
    al.prune(network)
    assert network.layer_sizes == (2, 2)
    assert_equal(outputs(network, x, "a", "b"), before)
    al.add_task(network, "c", like="a")
    assert layers[0].allocation is layers[1].allocation
