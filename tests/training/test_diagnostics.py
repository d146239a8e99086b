"""Which part of a network does not take what it is given."""

from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from numpy.testing import assert_allclose
from pytest import mark, param, raises
from torch import Tensor, nn

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork, modularize
from allotment.tasks import MultiLabel, Task
from allotment.training import evaluate, fit
from tests.training.toy import N_INPUTS, SETTINGS, a_network, lines

GIVES = "Each part of a network should take what the part before it gives. Found "


def of(
    stem: nn.Module, component: nn.Module, after: nn.Module, head: nn.Module
) -> MultiTaskNetwork:
    """Returns a network for two tasks whose second component, second layer and head are given."""
    layers = [ModularLayer([nn.Linear(6, 4), component], GumbelMatrix(2, 2)), after]
    return MultiTaskNetwork(stem, layers, {"line 0": nn.Linear(4, 1), "line 1": head})


STEM, COMPONENT, AFTER, HEAD = nn.Linear(N_INPUTS, 6), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)


@mark.parametrize(
    ("network", "part", "shape"),
    [
        param(of(nn.Linear(9, 6), COMPONENT, AFTER, HEAD), "the stem", N_INPUTS, id="stem"),
        param(
            of(STEM, nn.Sequential(nn.Linear(7, 4)), AFTER, HEAD),
            "component 1 (sequential) of `layers[0]`",
            6,
            id="component",
        ),
        param(of(STEM, COMPONENT, nn.Linear(5, 4), HEAD), "`layers[1]` (Linear)", 4, id="layer"),
        param(
            of(STEM, COMPONENT, AFTER, nn.Sequential(nn.Tanh(), nn.Linear(3, 1))),
            "the head of task 'line 1'",
            4,
            id="head",
        ),
    ],
)
def test_the_part_and_the_shape_are_named(network: MultiTaskNetwork, part: str, shape: int) -> None:
    with raises(ValueError) as raised:
        fit(network, lines(2), SETTINGS)
    assert str(raised.value).startswith(
        f"{GIVES}{part} with an input of shape [B, {shape}] (float32): mat1 and mat2 shapes cannot"
    )
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_loss_that_does_not_take_the_outputs_is_named() -> None:
    x = torch.randn(8, N_INPUTS)
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 3)])
    task = Task("a", (x, torch.randn(8)), loss=lambda outputs, y: outputs[:, 0] @ y[:, 0])
    with raises(
        ValueError, match=r"^The loss of task 'a' .*outputs of shape \[B, 3\] \(float32\) and"
    ):
        fit(network, [task], SETTINGS)


@mark.parametrize(
    ("loss", "message"),
    [
        (
            lambda outputs, targets: (outputs.squeeze(1) - targets).square(),
            rf"^The loss of task 'a' .* Found float32 of shape \[{SETTINGS.batch_size}\]\.$",
        ),
        (
            lambda outputs, targets: 0.5,
            r"^The loss of task 'a' .* of one floating-point number, .*\. Found a float\.$",
        ),
        (
            lambda outputs, targets: (outputs.squeeze(1) - targets).square().sum().long(),
            r"^The loss of task 'a' .* floating-point number, .*\. Found int64 of shape \[\]\.$",
        ),
    ],
)
@mark.parametrize("n_tasks", [1, 2])
@mark.parametrize("rounds", [10, 400])  # steps that are few, and enough to record one
def test_a_loss_that_is_no_number_is_refused(
    loss: Any, message: str, n_tasks: int, rounds: int
) -> None:
    examples = torch.randn(8, N_INPUTS), torch.randn(8)
    tasks = [Task("a", examples, loss=loss), Task("b", examples)][:n_tasks]
    with catch_warnings(), raises(ValueError, match=message):
        simplefilter("ignore")  # that a step cannot be recorded
        fit(a_network(SharedBottom(n_tasks, 2)), tasks, SETTINGS.changed(rounds=rounds))


def test_evaluation_takes_the_losses_that_training_takes() -> None:
    examples = torch.randn(8, N_INPUTS), torch.randn(8)
    network = a_network(SharedBottom(1, 2))

    def task(mean_of: Any) -> Task:
        def loss(outputs: Tensor, targets: Tensor) -> Tensor:
            found: Tensor = mean_of((outputs.squeeze(1) - targets).square())
            return found

        return Task("a", examples, validation=examples, loss=loss)

    number, row = task(lambda each: each.mean()), task(lambda each: each.mean(0, keepdim=True))
    found = fit(network, [row], SETTINGS).validation
    assert found is not None
    assert_allclose(found.losses, evaluate(network, [number], "validation").losses)
    with raises(ValueError, match=r"^The loss of task 'a' .* Found float32 of shape \[8\]\."):
        evaluate(network, [task(lambda each: each)], "validation")


def test_a_component_that_gives_no_tensor_is_named() -> None:
    components = [nn.LSTM(N_INPUTS, 1), nn.LSTM(N_INPUTS, 1)]
    network = MultiTaskNetwork(None, [ModularLayer(components, SharedBottom(2, 2))])
    with raises(
        ValueError, match=r"one tensor\. Found a tuple of Tensor, tuple from component 0 \(l"
    ):
        fit(network, lines(2), SETTINGS)


def test_a_model_that_gives_no_tensor_is_named_with_its_task() -> None:
    class Two(nn.Linear):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return super().forward(x), x

    model = nn.Sequential(nn.Linear(N_INPUTS, 4), Two(4, 1))
    network = modularize(model, {"0": 2}, tasks=["line 0", "line 1"])
    with raises(ValueError, match=r"tuple of Tensor from the model for task 'line 0'\.$"):
        fit(network, lines(2), SETTINGS)


def test_a_sentence_of_our_own_stays_as_it_is() -> None:
    components = [nn.Linear(N_INPUTS, 1), nn.Linear(N_INPUTS, 2)]
    network = MultiTaskNetwork(None, [ModularLayer(components, SharedBottom(2, 2))])
    with raises(ValueError, match=r"^Components of a layer should have equal output shapes"):
        fit(network, lines(2), SETTINGS)


def test_an_error_that_two_examples_do_not_meet_stays_as_it_is() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 2:
                raise ZeroDivisionError("more than two")
            return x

    network = a_network(SharedBottom(2, 2))
    network.stem = Picky()
    with raises(ZeroDivisionError, match="more than two"):
        fit(network, lines(2), SETTINGS)


def test_batches_of_another_form_are_told_of_in_the_middle_of_training() -> None:
    x, y = torch.randn(8, N_INPUTS), torch.randn(8)
    network = a_network(SharedBottom(1, 2), {"a": nn.Linear(4, 1)})
    task = Task("a", lambda: iter([(x, y), ({"x": x}, y)]))
    with raises(ValueError, match=r"a tensor for Linear\. Found a dict\. .* have one form\."):
        fit(network, [task], SETTINGS)


@mark.parametrize("head", [nn.Linear(3, 1), nn.Sequential(nn.Linear(3, 1))])
@mark.parametrize("fetched", [False, True])
def test_a_head_for_other_features_is_named(head: nn.Module, fetched: bool) -> None:
    tasks = lines(2)
    if fetched:
        batch = (torch.randn(8, N_INPUTS), torch.randn(8))
        tasks = [Task(task.name, lambda: iter([batch]), n_outputs=1) for task in tasks]
    rule = r"^The head of task 'line 1' should take 4 features, .* Found one that takes 3\.$"
    with raises(ValueError, match=rule):
        fit(of(STEM, COMPONENT, AFTER, head), tasks, SETTINGS)
    network = of(STEM, COMPONENT, AFTER, head)
    with raises(ValueError, match=rule):
        network(torch.randn(2, N_INPUTS), "line 1")
    assert network(torch.randn(2, N_INPUTS), "line 0").shape == (2, 1)


def test_columns_of_one_tensor_are_of_one_kind() -> None:
    x = torch.randn(8, N_INPUTS)
    hint = r"The columns of one tensor are of one kind; .* targets are a dict by task\.$"
    network = a_network(SharedBottom(2, 2), {"size": nn.Linear(4, 1), "kind": nn.Linear(4, 2)})
    settings = SETTINGS.changed(schedule="multi_label")
    for y in (torch.randn(8, 2), torch.full((8, 2), 1)):
        shared = MultiLabel([(x, y)], names=["size", "kind"])
        tasks = [Task("size", shared, n_outputs=1), Task("kind", shared, n_outputs=2)]
        with raises(ValueError, match=hint):
            fit(network, tasks, settings)
    both = MultiLabel([(x, {"size": torch.randn(8), "kind": torch.ones(8, dtype=torch.int64)})])
    tasks = [Task("size", both, n_outputs=1), Task("kind", both, n_outputs=2)]
    assert fit(network, tasks, settings).failed_step is None


class Own(GumbelMatrix):
    """Weights and a matrix of a user's own."""

    def __init__(self, given: Any, n_noise: int = 0, matrix: float = 1.0) -> None:
        super().__init__(2, 3)
        self.given, self.n_noise, self.filled = given, n_noise, matrix
        self.scores = nn.Parameter(torch.zeros(2, 3))

    def weights(self, task: Any, x: Any = None, *, noise: Any = None) -> Tensor:
        weights: Tensor = self.given(self, noise)
        return weights

    def matrix(self) -> Tensor:
        return torch.full((2, 3), self.filled)


@mark.parametrize(
    ("allocation", "sentence"),
    [
        (
            Own(lambda own, _: own.scores.sigmoid()),
            r"^`weights` of Own should be .* of shape \[3\]\. Found shape \[2, 3\]\.$",
        ),
        (
            Own(lambda own, noise: own.scores[0] + noise),
            r"^`weights` of Own should take .* `n_noise` says .* Found `n_noise = 0`: unsupported ",
        ),
        (
            Own(lambda own, _: own.scores[0], matrix=0.5),
            r"^`matrix\(\)` of Own should hold 0 and 1, or `is_binary = False` .* Found 0\.5\.$",
        ),
    ],
)
def test_an_allocation_of_ones_own_that_does_not_keep_to_the_interface_is_told(
    allocation: Own, sentence: str
) -> None:
    with raises(ValueError, match=sentence):
        fit(a_network(allocation), lines(2), SETTINGS)


@mark.parametrize(
    ("matrix", "found"),
    [(torch.ones(3, 2), r"shape \[3, 2\]"), ([[1.0] * 3] * 2, "a list of list")],
)
def test_a_matrix_of_ones_own_of_another_form_is_told(matrix: Any, found: str) -> None:
    allocation = Own(lambda own, _: own.scores[0])
    allocation.matrix = lambda: matrix  # type: ignore[method-assign]
    sentence = rf"^`matrix\(\)` of Own should be a tensor of shape .*, \[2, 3\]\. Found {found}\.$"
    with raises(ValueError, match=sentence):
        fit(a_network(allocation), lines(2), SETTINGS)


def test_weights_of_ones_own_that_are_no_tensor_are_told() -> None:
    with raises(
        ValueError, match=r"^`weights` of Own should be .* a tensor of .*\. Found a float\.$"
    ):
        fit(a_network(Own(lambda own, _: 0.5)), lines(2), SETTINGS)


def test_an_allocation_of_ones_own_that_keeps_to_the_interface_trains() -> None:
    allocation = Own(lambda own, noise: own.scores[0] + noise, n_noise=3)
    assert fit(a_network(allocation), lines(2), SETTINGS).rounds == SETTINGS.rounds
