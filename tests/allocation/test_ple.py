"""Gates of progressive layered extraction."""

from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import CGC, PLE


def gate_of(allocation: PLE, stream: int, x: Tensor, seen: list[int]) -> Tensor:
    """Returns the weights of a stream for one example, from the components that it sees."""
    weight, bias = allocation.gate.weight, allocation.gate.bias
    scores = torch.stack([weight[stream, c] @ x + bias[stream, c] for c in seen])
    shares = scores.exp() / scores.exp().sum()
    row = torch.zeros(allocation.n_components)
    row[seen] = shares.detach()
    return row


SEEN = [[0, 1, 4, 5], [2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]  # of two tasks, and of the shared stream


def a_ple(**options: Any) -> PLE:
    """Returns gates of two tasks with two components each and two that are shared."""
    allocation = PLE(2, 6, n_features=3, n_own=2, **options)
    allocation.gate.bias.data.normal_()
    return allocation


@mark.parametrize("is_first", [True, False])
def test_each_stream_has_a_softmax_over_what_it_sees(is_first: bool) -> None:
    allocation = a_ple(n_streams=3)
    streams = [torch.randn(4, 3)] * (1 if is_first else 3)
    streams = streams if is_first else [torch.randn(4, 3) for _ in range(3)]
    found = allocation.stream_weights(streams)
    assert found.shape == (3, 4, 6)
    for stream, seen in enumerate(SEEN):
        x = streams[0 if is_first else stream]
        for example in range(4):
            expected = gate_of(allocation, stream, x[example], seen)
            assert_close(found[stream, example], expected)


def test_images_are_averaged_over_pixels() -> None:
    allocation = a_ple(n_streams=3)
    images = [torch.randn(4, 3, 5, 5) for _ in range(3)]
    flat = [image.mean((2, 3)) for image in images]
    assert_close(allocation.stream_weights(images), allocation.stream_weights(flat))


def test_a_task_s_row_is_that_of_customized_gate_control() -> None:
    allocation, x = a_ple(), torch.randn(4, 3)
    other = CGC(2, 6, n_features=3, n_shared=2)
    other.gate.load_state_dict(allocation.gate.state_dict())
    for task in range(2):
        assert_close(allocation.weights(task, x), other.weights(task, x))
        assert_close(allocation.weights(torch.tensor(task), x), other.weights(task, x))
    assert_close(allocation.matrix(), other.matrix())


def test_matrices_have_a_row_for_each_task_and_none_for_the_shared_stream() -> None:
    allocation = a_ple(n_streams=3)
    assert allocation.matrix().shape == (2, 6)
    zeros = [torch.zeros(1, 3)] * 3
    assert_close(allocation.matrix(), allocation.stream_weights(zeros)[:2, 0].detach())
    assert_close(allocation.probabilities(torch.tensor(1)), allocation.probabilities()[1])


def test_components_read_the_stream_of_their_task_or_the_shared_one() -> None:
    assert a_ple(n_streams=3).reads == [0, 0, 1, 1, 2, 2]
    assert PLE(3, 5, n_features=2).reads == [0, 1, 2, 3, 3]


def test_gradients_reach_the_gates_of_all_streams() -> None:
    allocation = a_ple(n_streams=3)
    streams = [torch.randn(4, 3) for _ in range(3)]
    (allocation.stream_weights(streams) * torch.randn(3, 4, 6)).sum().backward()
    gradient = allocation.gate.weight.grad
    assert gradient is not None
    assert torch.equal(gradient.any(2), allocation.allowed)


@mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((2, 2), {}, r"`n_components` should be more than `n_tasks \* n_own`.* Found 2 components"),
        ((2, 4), {"n_own": 2}, r"`n_components` should be more .* for 2 tasks with 2 each"),
        ((2, 4), {"n_own": 0}, r"`n_own` should be at least 1"),
        ((2, 4), {"n_streams": 2}, r"`n_streams` should be 3, .* Found `n_streams = 2`"),
    ],
)
def test_bad_sizes_are_refused(
    sizes: tuple[int, int], options: dict[str, Any], message: str
) -> None:
    with raises(ValueError, match=message):
        PLE(*sizes, n_features=3, **options)
