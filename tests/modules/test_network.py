"""A network for several tasks: tasks, noise, dropout, copies, and what it refuses."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from copy import deepcopy
from typing import Any

import torch
from pytest import mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork, Noise, task_embeddings


def linears(allocation: Allocation, n_outputs: int = 4) -> ModularLayer:
    """Returns a layer of linear components from four features."""
    components = [nn.Linear(4, n_outputs) for _ in range(allocation.n_components)]
    return ModularLayer(components, allocation)


def a_network(dropout: float = 0.0) -> MultiTaskNetwork:
    """Returns a stem, two modular layers with a plain one between, and heads for a and b."""
    layers = [
        linears(GumbelMatrix(2, 3, p_init=[[0.9, 0.1, 0.8], [0.2, 0.7, 0.6]])),
        nn.Tanh(),
        linears(FixedMatrix([[True, False], [True, True]])),
    ]
    heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)}
    return MultiTaskNetwork(nn.Linear(6, 4), layers, heads, dropout=dropout)


def test_a_pass_goes_through_stem_layers_and_the_tasks_head() -> None:
    network = a_network()
    x, gates = torch.randn(5, 6), torch.rand(5)
    for task, name in enumerate("ab"):
        first, middle, second = network.layers
        y = middle(first(network.stem(x), task=task, noise=gates[:3]))
        assert isinstance(network.heads, nn.ModuleList)
        expected = network.heads[task](second(y, task=task, noise=gates[3:]))
        assert_close(network(x, task, noise=Noise(gates)), expected)
        assert_close(network(x, name, noise=Noise(gates)), expected)
        assert_close(network(x, torch.tensor(task), noise=Noise(gates)), expected)


def test_noise_is_divided_over_layers_in_order() -> None:
    network = MultiTaskNetwork(None, [linears(GumbelMatrix(1, 2)), linears(GumbelMatrix(1, 3))])
    noise = Noise(torch.tensor([0.9, 0.1, 0.9, 0.1, 0.1]))
    network(torch.randn(2, 4), 0, noise=noise).sum().backward()
    weights = [p for name, p in network.named_parameters() if name.endswith("weight")]
    moved = [weight.grad is not None and bool((weight.grad != 0).any()) for weight in weights]
    assert moved == [True, False, True, False, False]


def test_without_heads_the_last_layer_is_the_output() -> None:
    network = MultiTaskNetwork(None, [linears(SharedBottom(2, 3), n_outputs=1)])
    x = torch.randn(5, 4)
    assert network.heads is None
    assert_close(network(x, 0), network.layers[0](x, task=0))


@mark.parametrize(
    ("task", "expectation"),
    [
        ("a", does_not_raise()),
        ("b", does_not_raise()),
        ("c", raises(ValueError, match=r"`task` should be one of \['a', 'b'\]\. Found 'c'\.")),
        ("0", raises(ValueError, match=r"`task` should be one of \['a', 'b'\]\. Found '0'\.")),
        (-1, raises(ValueError, match=r"`task` should be in 0 to 1\. Found -1\.")),
        (0, does_not_raise()),
        (1, does_not_raise()),
        (2, raises(ValueError, match=r"`task` should be in 0 to 1\. Found 2\.")),
    ],
)
@mark.parametrize("is_training", [True, False])
def test_a_task_is_a_name_or_an_index_that_exists(
    task: int | str, expectation: AbstractContextManager[object], is_training: bool
) -> None:
    network = a_network().train(is_training)
    with expectation:
        network(torch.randn(2, 6), task)
    with expectation:
        network.probabilities(task)


def test_names_come_from_the_heads_or_the_caller_or_are_numbers() -> None:
    layers = [linears(SharedBottom(2, 3))]
    heads = [nn.Linear(4, 1), nn.Linear(4, 1)]
    assert a_network().task_names == ["a", "b"]
    assert MultiTaskNetwork(None, layers, heads, task_names=["x", "y"]).task_names == ["x", "y"]
    assert MultiTaskNetwork(None, layers, heads).task_names == ["0", "1"]


@mark.parametrize(
    ("names", "expectation"),
    [
        (["x", "y"], does_not_raise()),
        (["x", "x"], raises(ValueError, match=r"be 2 different names\. Found \['x', 'x'\]\.")),
        (["x"], raises(ValueError, match=r"be 2 different names\. Found \['x'\]\.")),
        (["x", "y", "z"], raises(ValueError, match=r"be 2 different names\. Found .*'z'\]\.")),
    ],
)
def test_names_are_different(names: list[str], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        MultiTaskNetwork(None, [linears(SharedBottom(2, 3))], task_names=names)


@mark.parametrize(
    ("names", "expectation"),
    [
        (None, does_not_raise()),
        (["a", "b"], does_not_raise()),
        (["b", "a"], raises(ValueError, match=r"those of the heads.*Found \['b', 'a'\] for \['a'")),
    ],
)
def test_names_are_not_given_twice_in_different_ways(
    names: list[str] | None, expectation: AbstractContextManager[object]
) -> None:
    heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)}
    with expectation:
        MultiTaskNetwork(None, [linears(SharedBottom(2, 3))], heads, task_names=names)


@mark.parametrize(
    ("part", "value", "expectation"),
    [
        ("stem", nn.Identity(), does_not_raise()),
        (
            "stem",
            [nn.Identity()],
            raises(TypeError, match=r"a module or None\. Found a list of Id"),
        ),
        ("layers", nn.ModuleList([linears(SharedBottom(2, 3))]), does_not_raise()),
        (
            "layers",
            linears(SharedBottom(2, 3)),
            raises(
                TypeError, match=r"`layers` should be a list of modules\. Found a ModularLayer\."
            ),
        ),
        ("heads", nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)}), does_not_raise()),
        (
            "heads",
            nn.Linear(4, 1),
            raises(TypeError, match=r"`heads` should be a dict or a list .*Found a Linear\."),
        ),
        ("heads", [nn.Linear, nn.Linear], raises(TypeError, match=r"Found a list of class Linear")),
    ],
)
def test_parts_are_modules(
    part: str, value: object, expectation: AbstractContextManager[object]
) -> None:
    parts: dict[str, Any] = {"stem": None, "layers": [linears(SharedBottom(2, 3))]}
    with expectation:
        MultiTaskNetwork(**parts | {part: value})


def test_heads_in_a_module_dict_give_the_names() -> None:
    heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})
    network = MultiTaskNetwork(None, [linears(SharedBottom(2, 3))], heads)
    assert network.task_names == ["a", "b"]
    assert network(torch.randn(5, 4), "b").shape == (5, 2)


SAME_NUMBER = r"Every allocation and the heads should have the same number of tasks\. Found "


@mark.parametrize(
    ("counts", "n_heads", "expectation"),
    [
        ([2, 2], 2, does_not_raise()),
        ([2, 2], None, does_not_raise()),
        ([2, 3], None, raises(ValueError, match=SAME_NUMBER + r"\[2, 3\] in the layers\.")),
        ([2], 3, raises(ValueError, match=SAME_NUMBER + r"\[2\] in the layers and 3 heads\.")),
        ([], 2, raises(ValueError, match=r"at least one ModularLayer\. Found none\.")),
    ],
)
def test_every_part_has_the_same_number_of_tasks(
    counts: list[int], n_heads: int | None, expectation: AbstractContextManager[object]
) -> None:
    layers = [linears(SharedBottom(count, 2)) for count in counts]
    heads = None if n_heads is None else [nn.Linear(4, 1) for _ in range(n_heads)]
    with expectation:
        MultiTaskNetwork(None, layers, heads)


@mark.parametrize(
    ("dropout", "expectation"),
    [
        (0.0, does_not_raise()),
        (0.99, does_not_raise()),
        (1.0, raises(ValueError, match=r"`dropout` should be in \[0, 1\)\. Found .* = 1.0`")),
        (-0.1, raises(ValueError, match=r"`dropout` should be in \[0, 1\)\. Found .* = -0.1`")),
    ],
)
def test_dropout_range(dropout: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        a_network(dropout)


def dropping(dropout: float) -> MultiTaskNetwork:
    """Returns a network that hands its inputs through, but for dropout."""
    return MultiTaskNetwork(
        None, [ModularLayer([nn.Identity()], SharedBottom(1, 1))], dropout=dropout
    )


@mark.parametrize("dropout", [0.2, 0.5, 0.8])
@mark.parametrize("from_noise", [True, False])
def test_dropout_leaves_out_its_share_and_scales_the_rest(dropout: float, from_noise: bool) -> None:
    n = 100_000
    x = torch.ones(n // 100, 100)
    noise = Noise(None, torch.rand_like(x)) if from_noise else Noise()
    y = dropping(dropout)(x, 0, noise=noise)
    share = (y == 0).float().mean().item()
    assert abs(share - dropout) < 4 * (dropout * (1 - dropout) / n) ** 0.5
    assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - dropout)))


def test_dropout_is_a_function_of_its_noise() -> None:
    noise = torch.tensor([[0.1, 0.5, 0.49, 0.9]])
    y = dropping(0.5)(torch.ones(1, 4), 0, noise=Noise(None, noise))
    assert_close(y, torch.tensor([[0.0, 2.0, 0.0, 2.0]]))


def test_evaluation_drops_nothing() -> None:
    x = torch.randn(5, 4)
    assert_close(dropping(0.5).eval()(x, 0, noise=Noise(None, torch.zeros(5, 4))), x)


def test_gates_of_all_layers_stand_in_one_row() -> None:
    network = a_network()
    expected = torch.tensor([[0.9, 0.1, 0.8, 1.0, 0.0], [0.2, 0.7, 0.6, 1.0, 1.0]])
    assert network.layer_sizes == (3, 2)
    assert_close(network.probabilities(), expected)
    assert_close(network.probabilities("b"), expected[1])
    assert_close(network.probabilities(torch.tensor(1)), expected[1])
    assert_close(network.matrix(), (expected >= 0.5).float())


def test_embeddings_are_binary_rows_of_what_evaluation_uses() -> None:
    network = a_network()
    embeddings = task_embeddings(network)
    assert embeddings.shape == (2, 5)
    assert not embeddings.requires_grad
    for task in range(2):
        weights = torch.cat(
            [layer.allocation.eval().weights(task) for layer in network.modular_layers]
        )
        assert_close(embeddings[task], (weights != 0).float())


def test_single_values_are_of_their_kind() -> None:
    layers = [linears(SharedBottom(2, 3))]
    with raises(TypeError, match=r"`dropout` should be a number\. Found `dropout = 'half'`\."):
        MultiTaskNetwork(None, layers, dropout="half")  # type: ignore[arg-type]
    one_text = r"`task_names` should be a list of names, such as \['ab'\]\. Found 'ab'\."
    with raises(TypeError, match=one_text):
        MultiTaskNetwork(None, layers, task_names="ab")
    with raises(TypeError, match=r"`task_names` should be a list of names\. Found an int\."):
        MultiTaskNetwork(None, layers, task_names=2)  # type: ignore[arg-type]


def test_heads_are_found_by_name_and_by_index() -> None:
    heads = {"a": nn.Linear(4, 1), "b.c": nn.Linear(4, 2)}
    layer = ModularLayer([nn.Identity(), nn.Identity()], SharedBottom(2, 2))
    network = MultiTaskNetwork(None, [layer], heads)
    found: Any = network.heads
    assert [found["a"], found["b.c"]] == [found[0], found[1]] == list(heads.values())
    assert found[-1] is heads["b.c"] and list(found[:1]) == [heads["a"]]
    assert [name for name in network.state_dict() if "weight" in name] == [
        "heads.0.weight",
        "heads.1.weight",
    ]
    copy: Any = deepcopy(network).heads
    assert copy["a"].weight.equal(heads["a"].weight)
    with raises(KeyError, match=r"one of \['a', 'b\.c'\]\. Found 'b'"):
        found["b"]


def test_the_embeddings_of_a_module_without_modular_layers_are_refused() -> None:
    with raises(ValueError, match=r"at least one ModularLayer\. Found none\."):
        task_embeddings(nn.Linear(4, 4))
