"""Tasks: what is inferred from the examples."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from functools import partial
from typing import Any

import numpy as np
import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from allotment.paper import synthetic_pairs
from allotment.tasks import GeneratedDataset, Loss, Split, Task, check_names


class Coins(GeneratedDataset):
    """Generated samples of nothing in particular."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return torch.rand(n, 2, generator=generator), torch.rand(n, generator=generator)


X = torch.randn(4, 3)


@mark.parametrize(
    ("targets", "n_outputs", "is_classification"),
    [
        param(torch.tensor([0, 2, 1, 2]), 3, True, id="labels"),
        param(torch.tensor([0, 9, 1, 2], dtype=torch.uint8), 10, True, id="labels in bytes"),
        param(torch.zeros(4, dtype=torch.int64), 1, True, id="one class"),
        param(torch.randn(4), 1, False, id="numbers"),
        param(torch.randn(4, 1), 1, False, id="one column"),
        param(torch.randn(4, 5), 5, False, id="columns"),
    ],
)
def test_outputs_and_loss_follow_from_the_targets(
    targets: Tensor, n_outputs: int, is_classification: bool
) -> None:
    task = Task("a", (X, targets))
    assert task.n_outputs == n_outputs
    assert task.is_classification is is_classification
    assert (task.loss_function is F.cross_entropy) is is_classification


def test_only_the_tasks_own_rows_count_as_classes() -> None:
    labels = torch.tensor([0, 7, 1, 2])
    assert Task("a", Split(X, labels, rows=torch.tensor([0, 2, 3]))).n_outputs == 3


def test_what_is_said_goes_before_what_is_inferred() -> None:
    task = Task("a", (X, torch.tensor([0, 1, 0, 1])), n_outputs=10, loss=F.multi_margin_loss)
    assert task.n_outputs == 10
    assert task.loss_function is F.multi_margin_loss


INTEGERS = torch.tensor([0, 3, 1, 2])


@mark.parametrize(
    ("targets", "loss", "n_outputs", "is_classification"),
    [
        param(INTEGERS, None, 4, True, id="labels"),
        param(INTEGERS, F.cross_entropy, 4, True, id="cross-entropy"),
        param(INTEGERS, partial(F.cross_entropy, label_smoothing=0.1), 4, True, id="smoothed"),
        param(INTEGERS, nn.CrossEntropyLoss(), 4, True, id="cross-entropy as a module"),
        param(INTEGERS, F.multi_margin_loss, 4, True, id="another loss of labels"),
        param(INTEGERS, lambda y, t: 5 * F.cross_entropy(y, t), 4, True, id="weighted"),
        param(torch.ones(4, 3, dtype=torch.bool), F.l1_loss, 3, False, id="a loss of columns"),
        param(torch.rand(4, 3), F.cross_entropy, 3, False, id="cross-entropy of probabilities"),
    ],
)
def test_labels_are_integers_whatever_the_loss(
    targets: Tensor, loss: Loss | None, n_outputs: int, is_classification: bool
) -> None:
    task = Task("a", (X, targets), loss=loss)
    assert task.n_outputs == n_outputs
    assert task.is_classification is is_classification


def test_integers_with_one_output_are_no_labels_for_a_loss_of_ones_own() -> None:
    assert not Task("a", (X, INTEGERS), loss=F.l1_loss, n_outputs=1).is_classification


@mark.parametrize("loss", ["mse", 3])
def test_a_loss_is_a_function(loss: Any) -> None:
    with raises(TypeError, match=rf"^Task 'a': `loss` should be a function .* = {loss!r}`\.$"):
        Task("a", (X, INTEGERS), loss=loss)


def test_examples_without_a_known_label_are_left_out() -> None:
    labels = torch.tensor([0, -100, 1, -100])
    split = Task("a", (X, labels)).split("train")
    assert split is not None and split.targets is labels
    assert split.examples()[1].tolist() == [0, 1]
    own = Task("a", Split(X, labels, rows=torch.tensor([3, 2]))).split("train")
    assert own is not None and own.examples()[1].tolist() == [1]


def test_an_example_with_one_known_label_of_several_stays() -> None:
    labels = torch.tensor([[0, -100], [-100, -100], [1, 2], [-100, 2]])
    task = Task("a", (X, labels))
    assert task.train.rows.tolist() == [0, 2, 3]
    assert task.n_outputs == 3


def test_splits_whose_labels_are_all_known_stay_the_same() -> None:
    split = Split(X, torch.tensor([156, 0, 1, 2], dtype=torch.uint8))  # 156: -100 in bytes
    assert Task("a", split).train is split


@mark.parametrize("part", ["train", "validation", "test"])
def test_a_split_without_any_known_label_is_refused(part: str) -> None:
    parts: dict[str, Any] = {"train": (X, INTEGERS), part: (X, torch.full((4,), -100))}
    with raises(ValueError, match=rf"^Task 'b', {part}: Labels .* Found -100, .* for all 4\.$"):
        Task("b", **parts)


def test_numbers_that_are_not_known_are_for_tables() -> None:
    with raises(ValueError, match=r"^Task 'a', train: .* Found 4 NaN .* `tasks_from_table` takes"):
        Task("a", (X, torch.full((4,), torch.nan)))


def test_generated_samples_make_a_regression_with_one_output() -> None:
    task = Task("a", Coins())
    assert (task.n_outputs, task.is_classification) == (1, False)
    assert task.split("train") is None


def test_the_natural_loss_of_a_regression_is_the_mean_squared_error() -> None:
    loss = Task("a", (X, torch.randn(4))).loss_function
    outputs, targets = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 0.0, 1.0])
    assert_close(loss(outputs, targets), torch.tensor(13 / 3))
    assert_close(loss(outputs, targets.unsqueeze(1)), torch.tensor(13 / 3))


@mark.parametrize(
    ("width", "expectation"),
    [
        (
            1,
            raises(ValueError, match=r"as many numbers .* Found shapes \[4, 1\] and \[4, "),
        ),
        (2, does_not_raise()),
        (
            3,
            raises(ValueError, match=r"as many numbers .* Found shapes \[4, 3\] and \[4, "),
        ),
    ],
)
def test_outputs_have_as_many_numbers_as_targets(
    width: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        Task("a", (X, torch.randn(4, 2))).loss_function(torch.randn(4, width), torch.randn(4, 2))


def test_a_split_that_is_missing_is_none() -> None:
    task = Task("a", (X, torch.randn(4)), test=(X[:2], torch.randn(2)))
    test = task.split("test")
    assert test is not None and len(test) == 2
    assert task.split("validation") is None


@mark.parametrize("part", ["train", "validation", "test"])
def test_a_fault_says_which_task_and_part(part: str) -> None:
    good, bad = (X, torch.randn(4)), (X, torch.randn(3))
    parts: dict[str, Any] = {"train": good, part: bad}
    with raises(ValueError, match=rf"^Task 'b', {part}: .*equal lengths\. Found 4 and 3\.$"):
        Task("b", **parts)


@mark.parametrize(
    ("names", "expectation"),
    [
        (["a"], does_not_raise()),
        (["a", "b"], does_not_raise()),
        (["a", "a"], raises(ValueError, match=r"with different names\. Found \['a', 'a'\]\.")),
        ([], raises(ValueError, match=r"with different names\. Found \[\]\.")),
    ],
)
def test_names_are_different(names: list[str], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        check_names([Task(name, Coins()) for name in names])


FORMS = r"Task 'a', train: Examples should be a pair of arrays, .*\. Found "
X, Y = torch.zeros(4, 2), torch.zeros(4)


@mark.parametrize(
    ("train", "found"),
    [
        ("mnist", "a str"),
        (None, "None"),
        (X, "a Tensor"),
        ((X, Y, Y), "a tuple of Tensor"),
        (([[1.0, 2.0]], [1.0]), "a tuple of list"),
        ([(1.0, 2.0, 3.0)] * 4, "a list of tuple"),
    ],
)
def test_examples_in_no_known_form_are_refused(train: Any, found: str) -> None:
    with raises(ValueError, match=rf"^{FORMS}{found}\.$"):
        Task("a", train)


@mark.parametrize(
    ("example", "message"),
    [
        (({"x": X}, 1.0), r"`inputs` should be arrays or numbers\. Found a dict\. Dicts of arrays"),
        ((({"x": X}, X), 1.0), r"`inputs` should .* Found a tuple of dict, Tensor\."),
        ((X, {"y": Y}), r"`targets` should be arrays or numbers\. Found a dict\."),
        ((X, "yes"), r"`targets` should be arrays or numbers\. Found a str\."),
    ],
)
def test_a_list_of_examples_holds_arrays_and_numbers(example: Any, message: str) -> None:
    with raises(ValueError, match=rf"^Task 'a', train: In a list of examples, {message}"):
        Task("a", [example] * 3)


def test_examples_of_a_dataset_have_one_shape() -> None:
    with raises(
        ValueError, match=r"^Task 'a', test: `inputs` should have one shape\. Found \[1\] "
    ):
        Task("a", (X, Y), test=[(torch.zeros(n), 0.0) for n in (1, 2, 2)])


@mark.parametrize("part", ["validation", "test"])
def test_generated_samples_are_for_training(part: str) -> None:
    samples = synthetic_pairs(1, rho=1.0, seed=0)[0].train
    assert Task("a", samples).train is samples
    with raises(
        ValueError, match=rf"Task 'a': `{part}` should be fixed\. Found GeneratedDataset\."
    ):
        Task("a", samples, **{part: samples})


@mark.parametrize(
    ("weight", "expectation"),
    [
        (0.01, does_not_raise()),
        (3, does_not_raise()),
        (0.0, raises(ValueError, match=r"`weight` should be above 0\. Found `weight = 0\.0`\.")),
        (-1.0, raises(ValueError, match=r"`weight` should be above 0\. Found `weight = -1\.0`\.")),
        (float("nan"), raises(ValueError, match=r"`weight` should be above 0\. Found .* = nan`\.")),
    ],
)
def test_weight_range(weight: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        Task("a", (X, Y), weight=weight)


@mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "3"}, r"`weight` should be a number\. Found `weight = '3'`\."),
        ({"weight": None}, r"`weight` should be a number\. Found `weight = None`\."),
        ({"sampling": "3"}, r"`sampling` should be a number\. Found `sampling = '3'`\."),
        ({"n_outputs": "3"}, r"`n_outputs` should be a whole number\. Found `n_outputs = '3'`\."),
        ({"metrics": [len]}, r"Task 'a': `metrics` should be a dict .* Found a list of builtin_"),
        ({"metrics": None}, r"Task 'a': `metrics` should be a dict .* Found None\."),
        ({"metrics": {"auc": 3}}, r"Task 'a': `metrics` should be functions .* an int for 'auc'"),
    ],
)
def test_options_are_of_their_kinds(options: Any, message: str) -> None:
    with raises(TypeError, match=message):
        Task("a", (torch.randn(4, 2), torch.randn(4)), **options)


def test_numbers_of_numpy_are_numbers() -> None:
    examples = (torch.randn(4, 2), torch.randn(4))
    task = Task("a", examples, weight=np.float32(2), n_outputs=np.int64(1))  # type: ignore[arg-type]
    assert (task.weight, task.n_outputs) == (2, 1)


def test_the_weight_of_a_task_is_no_part_of_its_loss() -> None:
    outputs = torch.randn(4, 1)
    light, heavy = (Task("a", (X, Y), weight=weight) for weight in (1.0, 5.0))
    assert_close(heavy.loss_function(outputs, Y), light.loss_function(outputs, Y))


@mark.parametrize("name", ["", 3, None])
def test_a_name_is_a_text(name: Any) -> None:
    with raises(TypeError, match=rf"^`name` should be a text .* Found {name!r}\.$"):
        Task(name, (torch.zeros(2, 1), torch.zeros(2)))


def test_a_task_is_shown_in_one_line() -> None:
    task = Task("a", (X, torch.randn(4, 2)), test=Split(X, torch.randn(4, 2), torch.tensor([1])))
    assert repr(task) == "Task('a': 4 train examples, 1 test examples, 2 outputs)"
    assert "generated examples, 1 output" in repr(synthetic_pairs(1, 1.0, seed=0)[0])


def test_the_class_of_a_metric_is_no_metric() -> None:
    class Count:
        def __call__(self, outputs: Tensor, targets: Tensor) -> float:
            return 1.0

    found = r"or metrics of torchmetrics, such as `BinaryAUROC\(\)`\. Found the class Count for 'n'"
    pair = (torch.randn(4, 2), torch.randn(4))
    with raises(TypeError, match=found):
        Task("a", pair, metrics={"n": Count})  # type: ignore[dict-item]
    Task("a", pair, metrics={"n": Count()})


@mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_labels_of_any_width_are_labels(kind: Any) -> None:
    task = Task("a", (X, np.array([0, 1, 2, 1], dtype=kind)))
    assert task.is_classification and task.n_outputs == 3


def test_examples_that_require_gradients_are_examples_all_the_same() -> None:
    learnt = torch.randn(4, 3, requires_grad=True)
    for task in (Task("a", (learnt, learnt[:, 0])), Task("a", Split(learnt, learnt[:, 0]))):
        x, y = task.train.examples()
        assert not x.requires_grad and not y.requires_grad


@mark.parametrize(
    ("values", "said"),
    [
        ((np.array([1, "x"], dtype=object), X), "`inputs` should be an array of numbers"),
        ((torch.tensor(1.0), X), "examples in front. Found a single number"),
        ({"x": X}, "Found a dict"),
    ],
)
def test_what_is_no_array_of_examples_is_refused(values: Any, said: str) -> None:
    with raises(ValueError, match=said):
        Task("a", values)


def test_outputs_are_never_fewer_than_none() -> None:
    with raises(ValueError, match=r"`n_outputs` should be at least 0. Found `n_outputs = -1`"):
        Task("a", (X, X), n_outputs=-1)
