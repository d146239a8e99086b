"""What training refuses before its first step."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import replace
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from pytest import MonkeyPatch, mark, param, raises
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from allotment.allocation import SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.tasks import GeneratedDataset, Loss, Split, Task
from allotment.training import Run, fit, train
from allotment.training._validation import check_device
from tests.training.toy import N_INPUTS, SETTINGS, a_network, a_run, classes

HEADS: dict[str, Callable[[int], nn.Module]] = {
    "linear": lambda width: nn.Linear(4, width),
    "deep": lambda width: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, width)),
}


def a_task(name: str, labels: list[int], test: list[int] | None = None) -> Task:
    def split(labels: list[int]) -> tuple[Tensor, Tensor]:
        return torch.randn(len(labels), N_INPUTS), torch.tensor(labels)

    return Task(name, split(labels), test=None if test is None else split(test), n_outputs=3)


def start(network: MultiTaskNetwork, *tasks: Task) -> None:
    """Calls for training without taking a step of it."""
    train([Run(network, tasks, 0, SETTINGS)])


def out_of_range(label: int, split: str) -> AbstractContextManager[object]:
    return raises(
        ValueError,
        match=r"^Task 'b' should have labels from 0 to 2, since the network has 3 outputs for it\. "
        rf"Found the label {label} in `{split}`\."
        + ("$" if split == "train" else r" .* `Task\(n_outputs=\.\.\.\)` is given\.$"),
    )


@mark.parametrize("kind", HEADS)
@mark.parametrize(
    ("labels", "test", "expectation"),
    [
        ([0, 1, 2, 2], [2, 0], does_not_raise()),
        ([0, 1, 2, 3], [2, 0], out_of_range(3, "train")),
        ([0, 1, -1, 2], None, out_of_range(-1, "train")),
        ([0, 1, 2, 2], [0, 7], out_of_range(7, "test")),
    ],
)
def test_labels_are_among_the_outputs(
    labels: list[int],
    test: list[int] | None,
    expectation: AbstractContextManager[object],
    kind: str,
) -> None:
    # The other task's head is wider: padded in one table, it would hide a label too large.
    network = a_network(SharedBottom(2, 2), [HEADS[kind](4), HEADS[kind](3)])
    with expectation:
        start(network, a_task("a", [0, 1, 2, 3]), a_task("b", labels, test))


def test_only_the_rows_of_a_split_count() -> None:
    x, y = torch.randn(4, N_INPUTS), torch.tensor([0, 1, 9, 2])
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 3)])
    start(network, Task("a", Split(x, y, rows=torch.tensor([0, 1, 3]))))
    with raises(ValueError, match=r"Found the label 9 in `train`"):
        start(network, Task("a", Split(x, y)))


def test_whole_numbers_for_a_regression_are_pointed_out() -> None:
    network = a_network(SharedBottom(1, 2))  # without heads; one number comes out
    with raises(ValueError, match=r"has 1 output for it.*Found the label 3.*floating-point"):
        start(network, a_task("a", [3, 7]))


@mark.parametrize("kind", HEADS)
def test_a_target_has_as_many_numbers_as_there_are_outputs(kind: str) -> None:
    def task(*shape: int) -> Task:
        return Task("b", (torch.randn(8, N_INPUTS), torch.randn(8, *shape)))

    network = a_network(SharedBottom(1, 2), [HEADS[kind](2)])
    start(network, task(2))
    for shape, found in (((), r"\[B\]"), ((3,), r"\[B, 3\]")):
        with raises(
            ValueError, match=rf"^Task 'b' should have an output .* Found 2 outputs and .* {found} "
        ):
            start(network, task(*shape))


def test_labels_are_one_for_each_example() -> None:
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 3)])
    task = Task("b", (torch.randn(4, N_INPUTS), torch.tensor([[0], [1], [2], [1]])))
    with raises(ValueError, match=r"^Task 'b' should have labels of shape \[N\], .* \[B, 1\] "):
        start(network, task)


@mark.parametrize(
    ("loss", "is_mistaken"),
    [
        (lambda y, t: (y - t).abs().mean(), True),
        (nn.functional.l1_loss, True),
        (nn.BCEWithLogitsLoss(), True),
        (lambda y, t: (y.squeeze(1) - t).abs().mean(), False),
        (lambda y, t: (y - t.unsqueeze(1)).abs().mean(), False),
        (lambda y, t: (y.view_as(t) - t).square().mean().sqrt(), False),
    ],
    ids=["difference", "l1", "logits", "squeezed", "unsqueezed", "reshaped"],
)
def test_an_output_is_held_against_its_own_target(loss: Loss, is_mistaken: bool) -> None:
    x, y = torch.randn(8, N_INPUTS), torch.rand(8)
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 1)])
    start(network, Task("b", (x, y.unsqueeze(1)), loss=nn.functional.l1_loss))
    expectation = (
        raises(ValueError, match=r"^The loss of task 'b' .* shape \[B, 1\] and .* \[B\]; ")
        if is_mistaken
        else does_not_raise()
    )
    with expectation:
        start(network, Task("b", (x, y), loss=loss))


@mark.parametrize(
    ("loss", "is_mistaken"),
    [
        (lambda y, t: (y - t).square().mean(), True),
        (lambda y, t: (y.squeeze(1) - t).abs().mean(), False),
        (lambda y, t: nn.functional.l1_loss(y, t.unsqueeze(1).float()), False),
    ],
    ids=["difference", "squeezed", "unsqueezed"],
)
def test_an_output_is_held_against_its_own_whole_number(loss: Loss, is_mistaken: bool) -> None:
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 1)])
    task = Task("b", (torch.randn(8, N_INPUTS), torch.arange(8)), loss=loss)
    expectation = raises(
        ValueError, match=r"^The loss of task 'b' .* shape \[B, 1\] and .* \[B\]; "
    )
    with expectation if is_mistaken else does_not_raise():
        start(network, task)


def test_floating_point_labels_of_classes_are_pointed_out() -> None:
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 3)])
    task = Task("a", (torch.randn(8, N_INPUTS), torch.arange(8.0) % 3))
    with raises(ValueError, match=r"3 outputs and .*\. Floating-point targets are numbers to pre"):
        list(train([Run(network, [task], 0, SETTINGS)]))


def test_integer_inputs_to_a_layer_of_numbers_are_pointed_out() -> None:
    network = a_network(SharedBottom(1, 2))
    x = torch.randint(5, (8, N_INPUTS))
    with raises(ValueError, match=r"\(int64\): .* Integer inputs stay integers: make them float"):
        list(train([Run(network, [Task("a", (x, torch.randn(8)))], 0, SETTINGS)]))


def test_integer_inputs_of_one_of_two_tasks_are_pointed_out() -> None:
    x = torch.randint(5, (8, N_INPUTS))
    tasks = [Task("a", (x, torch.randn(8))), Task("b", (x.float(), torch.randn(8)))]
    for ordered in (tasks, tasks[::-1]):
        network = a_network(SharedBottom(2, 2), {task.name: nn.Linear(4, 1) for task in ordered})
        with raises(ValueError, match=r"for task 'a', .*\(int64\): .*\. Integer inputs stay integ"):
            list(train([Run(network, ordered, 0, SETTINGS)]))


class Fewer(GeneratedDataset):
    """Draws one sample too few."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        n = max(2, n - 1)
        return torch.randn(n, N_INPUTS, generator=generator), torch.zeros(n)


def test_generated_samples_are_as_many_as_asked_for() -> None:
    with raises(
        ValueError, match=r"^`draw` of task 'a' .* Found \d+ inputs and \d+ targets where "
    ):
        list(train([Run(a_network(SharedBottom(1, 2)), [Task("a", Fewer())], 0, SETTINGS)]))


def test_a_loss_of_ones_own_may_take_any_label() -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, ignore_index=-1)

    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 3)])
    start(network, replace(a_task("a", [0, -1, 2]), loss=loss))


def test_trying_heads_leaves_the_network_and_torch_as_they_were() -> None:
    network = a_network(SharedBottom(2, 2), [HEADS["deep"](3), HEADS["deep"](3)])
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    start(network, *classes(3, 3))
    assert torch.equal(torch.get_rng_state(), state)
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_task_of_many_runs_is_checked_once() -> None:
    class Counted(Task):
        looks = 0

        def split(self, name: str) -> Split | None:
            Counted.looks += name == "train"
            return super().split(name)

    tasks = [Counted("a", classes(3)[0].train)]
    runs = [Run(a_network(SharedBottom(1, 2), [nn.Linear(4, 3)]), tasks, seed) for seed in range(5)]
    train(runs)
    assert Counted.looks == 1


@mark.parametrize(
    ("held_out", "message"),
    [
        param((torch.zeros(4, N_INPUTS), torch.tensor([0, 1, 0, 1])), "", id="alike"),
        param(
            (torch.zeros(4, N_INPUTS), torch.zeros(4)),
            r"^Task 'a' should have targets of one shape and kind in all splits\. Found "
            r"of shape \[B\] \(int64\) in `train` and of shape \[B\] \(float32\) in `test`\.$",
            id="another type of targets",
        ),
        param(
            (torch.zeros(4, N_INPUTS + 1), torch.tensor([0, 1, 0, 1])),
            rf"^Task 'a', test: .* with an input of shape \[B, {N_INPUTS + 1}\] \(float32\): mat1",
            id="another shape of inputs",
        ),
    ],
)
def test_held_out_examples_fit_before_training_starts(held_out: Any, message: str) -> None:
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 2)])
    with raises(ValueError, match=message) if message else does_not_raise():
        start(network, replace(a_task("a", [0, 1]), test=held_out))


def test_numbers_may_be_longer_in_one_split_than_in_another() -> None:
    x, y = torch.zeros(4, N_INPUTS), torch.zeros(4)
    start(a_network(SharedBottom(1, 2)), Task("a", (x, y), test=(x, y.double())))


def test_images_of_another_size_may_be_held_out() -> None:
    stem = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, N_INPUTS))
    network = a_network(SharedBottom(1, 2), [nn.Linear(4, 2)])
    network.stem = stem
    y = torch.tensor([0, 1])
    start(network, Task("a", (torch.zeros(2, 1, 6, 6), y), test=(torch.zeros(2, 1, 8, 8), y)))


def test_something_has_to_learn() -> None:
    network = a_network(SharedBottom(1, 2)).requires_grad_(False)
    with raises(ValueError, match=r"should have parameters that learn\. Found all frozen\."):
        start(network, Task("a", (torch.randn(5, N_INPUTS), torch.randn(5))))


def test_a_state_to_go_on_from_is_a_state() -> None:
    with raises(TypeError, match=r"`resume_from` should be a TrainingState\. Found a dict\."):
        train([a_run()], resume_from={})  # type: ignore[arg-type]


@mark.parametrize(
    ("device", "expectation"),
    [
        ("cpu", does_not_raise()),
        (torch.device("cpu"), does_not_raise()),
        ("cuda:a", raises(ValueError, match=r"Found `device = 'cuda:a'`")),
        (
            "gpu",
            raises(
                ValueError, match=r"be 'cpu', 'cuda' or one of .*'cuda:1'\. Found `device = 'gpu'`"
            ),
        ),
        (
            "mps",
            raises(
                ValueError, match=r"be 'cpu', 'cuda' or one of .*'cuda:1'\. Found `device = 'mps'`"
            ),
        ),
    ],
)
def test_devices(device: Any, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        train([a_run()], device=device)


@mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_here() -> None:
    with raises(
        ValueError, match=r"`device` should be on this machine\. Found 'cuda:0', but no CUDA"
    ):
        train([a_run()], device="cuda:0")


def test_a_number_of_a_device_is_checked(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_device("cuda:1") == torch.device("cuda:1")
    with raises(ValueError, match=r"on this machine\. Found 'cuda:2', but 2 CUDA devices\."):
        check_device("cuda:2")


@mark.parametrize(
    ("runs", "found"),
    [(a_run(), "a Run"), ([a_run(), a_run().network], "a list of Run, MultiTaskNetwork")],
)
def test_runs_are_a_list_of_runs(runs: Any, found: str) -> None:
    with raises(TypeError, match=rf"`runs` should be a list of Run\. Found {found}\."):
        train(runs)


def test_heads_without_outputs_are_told_where_their_number_comes_from() -> None:
    x = torch.randn(16, N_INPUTS)
    for y in (torch.randn(16), torch.arange(16) % 2):
        task = Task("a", DataLoader(TensorDataset(x, y), batch_size=8))
        with catch_warnings():
            simplefilter("ignore")  # torch's own, on weights without numbers
            network = a_network(SharedBottom(1, 2), [nn.Linear(4, task.n_outputs)])
        found = r"task 'a'\. Found 0 outputs, and `n_outputs = 0`; .* `Task\(n_outputs=\.\.\.\)`"
        with raises(ValueError, match=found):
            fit(network, [task], SETTINGS)
