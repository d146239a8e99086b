"""A model of one's own as a network: its task, its heads, and what it refuses."""

from typing import Any

import numpy as np
import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import MultiTaskModel, MultiTaskNetwork, TaskNetwork, extract, task_embeddings
from allotment.allocation import FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, as_network, difference

ONE_EACH = [[1, 0], [0, 1]]


def a_layer(n_tasks: int = 2) -> ModularLayer:
    components = [nn.Linear(4, 4) for _ in range(n_tasks)]
    return ModularLayer(components, FixedMatrix(torch.eye(n_tasks)))


class Told(nn.Module):
    """A body that does something with the task itself: it adds a row of a table."""

    def __init__(self, n_tasks: int = 2) -> None:
        super().__init__()
        self.layer = a_layer(n_tasks)
        self.offsets = nn.Parameter(torch.randn(n_tasks, 4))

    def forward(self, x: Tensor, *, task: int | Tensor) -> Tensor:
        y: Tensor = self.layer(x) + self.offsets[task]
        return y


@mark.parametrize("is_training", [True, False])
def test_a_body_with_an_argument_named_task_is_told_it(is_training: bool) -> None:
    body = Told()
    heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)}
    network = MultiTaskModel(body, heads).train(is_training)
    x = torch.randn(5, 4)
    for task, name in enumerate(heads):
        expected = heads[name](body.layer.components[task](x) + body.offsets[task])
        for told in (name, task, np.int64(task)):
            assert_close(network(x, told), expected)
    assert_close(network(x, torch.tensor(1))[:, 0], network(x, 1)[:, 0])


class Untold(nn.Module):
    """A body that takes anything by name, and says what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = a_layer()
        self.given: list[dict[str, Any]] = []

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        self.given.append(options)
        y: Tensor = self.layer(x)
        return y


def test_a_body_without_that_argument_is_given_what_the_caller_gives() -> None:
    body = Untold()
    network = MultiTaskModel(body)
    network(torch.randn(2, 4), 1, mask="all")
    assert body.given == [{"mask": "all"}]


def test_a_modular_layer_is_a_body() -> None:
    layer, x = a_layer(), torch.randn(5, 4)
    network = MultiTaskModel(layer, task_names=["a", "b"])
    for is_training in (True, False):
        assert_close(network.train(is_training)(x, "b"), layer.components[1](x))


def test_layers_are_found_at_any_depth_in_the_order_of_registration() -> None:
    components = [nn.Linear(4, 4) for _ in range(3)]
    first, second = a_layer(), ModularLayer(components, GumbelMatrix(2, 3))
    body = nn.Sequential(nn.Sequential(nn.ReLU(), first), nn.ModuleDict({"deep": second}))
    network = MultiTaskModel(body)
    assert network.modular_layers == [first, second]
    assert network.layer_sizes == (2, 3)
    assert network.matrix().shape == (2, 5)
    assert_close(task_embeddings(body), network.matrix())
    assert network.probabilities("1").shape == (5,)


def test_inputs_may_be_of_any_form() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = a_layer()

        def forward(self, x: dict[str, Tensor]) -> Tensor:
            y: Tensor = self.layer(x["left"] + x["right"])
            return y

    network, x = MultiTaskModel(Sum()).eval(), torch.randn(5, 4)
    assert_close(network({"left": x, "right": x}, 1), network.modular_layers[0](2 * x, task=1))


class Named(nn.Module):
    """A body with arguments by name, as those of Hugging Face have them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = a_layer()

    def forward(self, ids: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
        y: Tensor = self.layer(scale * ids * (1 if mask is None else mask))
        return y


def test_a_dict_gives_arguments_by_name_and_a_tuple_by_place() -> None:
    network, ids, mask = MultiTaskModel(Named()).eval(), torch.randn(5, 4), torch.ones(5, 1) / 2
    expected = network.modular_layers[0](ids * mask, task=1)
    assert_close(network({"ids": ids, "mask": mask}, 1), expected)
    assert_close(network((ids, mask), 1), expected)
    assert_close(network(ids, 1, mask), expected)
    doubled = network.modular_layers[0](2 * ids * mask, task=1)
    assert_close(network({"ids": ids}, 1, mask=mask, scale=2.0), doubled)
    assert_close(network((ids,), 1, mask), expected)
    for x in ({"ids": ids, "mask": mask}, (ids, mask)):
        assert torch.equal(extract(network, 1)(x), network(x, 1))


def test_what_a_body_returns_may_be_reduced_to_features() -> None:
    class Returns(Named):
        def forward(self, *arguments: Any, **options: Any) -> Any:
            return {"features": super().forward(*arguments, **options), "else": None}

    heads = [nn.Linear(4, 2) for _ in range(2)]
    network = MultiTaskModel(Returns(), heads, features=lambda y: y["features"]).eval()
    x = torch.randn(5, 4)
    assert_close(network(x, 0), heads[0](network.modular_layers[0](x, task=0)))
    assert torch.equal(extract(network, 0)(x), network(x, 0))
    with raises(TypeError, match=r"`features` should be a function\. Found a str\."):
        MultiTaskModel(Returns(), heads, features="features")  # type: ignore[arg-type]


def test_networks_with_one_line_of_features_train_together() -> None:
    def build(seed: int, column: int = 1) -> MultiTaskModel:
        torch.manual_seed(seed)
        return MultiTaskModel(a_layer(), features=lambda y: y[:, column])

    assert not difference(build(0), build(1))
    assert "`features`" in difference(build(0), build(1, column=2))


class AddPairs(nn.Module):
    """A component whose input is a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        y: Tensor = self.linear(x[0]) + x[1]
        return y


def test_components_may_take_what_is_no_tensor() -> None:
    components = [AddPairs() for _ in range(3)]
    network = MultiTaskModel(ModularLayer(components, SharedBottom(2, 3, reduce="mean")))
    pair = (torch.randn(5, 4), torch.randn(5, 4))
    expected = torch.stack([component(pair) for component in components]).mean(0)
    for is_training in (True, False):
        assert_close(network.train(is_training)(pair, 0), expected)


def takes(module: nn.Module, *dtypes: torch.dtype) -> nn.Module:
    module.accepted_dtypes = dtypes  # type: ignore[assignment]
    return module


def test_a_network_takes_the_types_that_its_first_module_says() -> None:
    types = (torch.bool, torch.int64)
    body = nn.Sequential(a_layer())
    assert MultiTaskModel(body).accepted_dtypes == ()
    assert MultiTaskModel(takes(nn.Sequential(a_layer()), *types)).accepted_dtypes == types
    assert MultiTaskNetwork(None, [a_layer()]).accepted_dtypes == ()
    assert MultiTaskNetwork(takes(nn.ReLU(), *types), [a_layer()]).accepted_dtypes == types


def test_a_network_is_itself_and_a_model_becomes_one() -> None:
    network, body = MultiTaskNetwork(None, [a_layer()]), nn.Sequential(a_layer())
    assert as_network(network) is network
    made = as_network(body, ["x", "y"])
    assert isinstance(made, TaskNetwork) and isinstance(made, MultiTaskModel)
    assert made.body is body
    assert made.task_names == ["x", "y"] and made.has_names
    assert not as_network(body).has_names


@mark.parametrize(
    ("model", "error", "words"),
    [
        (nn.Linear(2, 2), ValueError, r"hold at least one ModularLayer\. Found none\."),
        ("resnet", TypeError, r"a module with modular layers in it\. Found a str\.$"),
        ([a_layer()], TypeError, r"Found a list of .*train together as `train\(\[Run\(\.\.\.\), "),
    ],
)
def test_what_is_no_network_is_named(model: Any, error: type[Exception], words: str) -> None:
    with raises(error, match=words):
        as_network(model)


def test_a_body_is_a_module() -> None:
    with raises(TypeError, match=r"`body` should be a module\. Found the class Linear\."):
        MultiTaskModel(nn.Linear)  # type: ignore[arg-type]


def test_heads_and_allocations_have_the_same_number_of_tasks() -> None:
    with raises(ValueError, match=r"number of tasks\. Found \[2, 3\] in the layers and 2 heads\."):
        MultiTaskModel(nn.Sequential(a_layer(2), a_layer(3)), [nn.Linear(4, 1)] * 2)
