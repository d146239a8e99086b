"""Computations side by side: one after another, but in the capture of a CUDA graph."""

from collections.abc import Callable
from functools import partial

import torch
from pytest import mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.network import cuda_streams, side_by_side


def noting(calls: list[int], number: int, x: Tensor) -> Tensor:
    calls.append(number)
    return x * number


@mark.parametrize("n", [1, 2, 100])
def test_outside_of_a_capture_calls_are_made_in_their_order(n: int) -> None:
    made: list[int] = []
    x = torch.ones(3)
    calls: list[Callable[[], Tensor]] = [partial(noting, made, number, x) for number in range(n)]
    results = side_by_side(calls, [x])
    assert made == list(range(n))
    assert [result.tolist() for result in results] == [[number] * 3 for number in range(n)]


def test_calls_may_return_pairs() -> None:
    x = torch.ones(2)
    assert side_by_side([lambda: (x, 2 * x)] * 2, [x])[1][1].tolist() == [2, 2]


def test_one_call_needs_no_stream() -> None:
    with cuda_streams():
        assert side_by_side([lambda: torch.ones(1)], []) == [torch.ones(1)]


def test_after_a_capture_that_failed_calls_are_made_in_order_again() -> None:
    with raises(KeyError), cuda_streams():
        raise KeyError
    made: list[int] = []
    side_by_side([partial(noting, made, number, torch.ones(1)) for number in (1, 2)], [])
    assert made == [1, 2]


@mark.skipif(not torch.cuda.is_available(), reason="streams are a GPU's")
def test_in_a_captured_graph_results_are_those_of_calls_in_order() -> None:
    x = torch.randn(64, 64, device="cuda")

    def nested(n: int) -> Tensor:
        inner = side_by_side([partial(torch.matmul, x, x.T * i) for i in range(1, 4)], [x])
        return n * torch.stack(inner).sum(dim=0)

    def outer() -> Tensor:
        return torch.stack(side_by_side([partial(nested, n) for n in range(1, 5)], [x]))

    expected = outer()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with cuda_streams(), torch.cuda.graph(graph):
        found = outer()
    graph.replay()
    assert_close(found, expected)
