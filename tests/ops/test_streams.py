"""Independent computations: one after another, but in the capture of a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from pytest import MonkeyPatch, fixture, mark, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment._ops import _conv, _streams, cuda_streams, on_streams
from allotment.allocation import SharedBottom
from allotment.modules import ModularLayer


def noting(calls: list[int], number: int, x: Tensor) -> Tensor:
    calls.append(number)
    return x * number


@mark.parametrize("n", [1, 2, 100])
def test_outside_of_a_capture_calls_are_made_in_their_order(n: int) -> None:
    made: list[int] = []
    x = torch.ones(3)
    calls: list[Callable[[], Tensor]] = [partial(noting, made, number, x) for number in range(n)]
    results = on_streams(calls, [x])
    assert made == list(range(n))
    assert [result.tolist() for result in results] == [[number] * 3 for number in range(n)]


def test_calls_may_return_pairs() -> None:
    x = torch.ones(2)
    assert on_streams([lambda: (x, 2 * x)] * 2, [x])[1][1].tolist() == [2, 2]


def test_one_call_needs_no_stream() -> None:
    with cuda_streams():
        assert on_streams([lambda: torch.ones(1)], []) == [torch.ones(1)]


def test_after_a_capture_that_failed_calls_are_made_in_order_again() -> None:
    with raises(KeyError), cuda_streams():
        raise KeyError
    made: list[int] = []
    on_streams([partial(noting, made, number, torch.ones(1)) for number in (1, 2)], [])
    assert made == [1, 2]


@mark.skipif(not torch.cuda.is_available(), reason="streams are a GPU's")
def test_in_a_captured_graph_results_are_those_of_calls_in_order() -> None:
    x = torch.randn(64, 64, device="cuda")

    def nested(n: int) -> Tensor:
        inner = on_streams([partial(torch.matmul, x, x.T * i) for i in range(1, 4)], [x])
        return n * torch.stack(inner).sum(dim=0)

    def outer() -> Tensor:
        return torch.stack(on_streams([partial(nested, n) for n in range(1, 5)], [x]))

    expected = outer()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with cuda_streams(), torch.cuda.graph(graph):
        found = outer()
    graph.replay()
    assert_close(found, expected)


class MadeUpStream:
    """A stream without a GPU, which knows what it has waited for."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.seen: dict[MadeUpStream, int] = {}  # how many calls of another it comes after

    def wait_stream(self, other: "MadeUpStream") -> None:
        self.seen |= {s: max(n, self.seen.get(s, 0)) for s, n in other.seen.items()}
        self.seen[other] = other.n_calls


@fixture
def streams(monkeypatch: MonkeyPatch) -> list[MadeUpStream]:
    """The streams that are current, each inside the one before."""
    made = [MadeUpStream() for _ in range(_streams.MOST_STREAMS)]
    current = [MadeUpStream()]

    @contextmanager
    def inside(stream: MadeUpStream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(_streams, "_stream", made.__getitem__)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "stream", inside)
    return current


def kept() -> set[int]:
    return {tensor.data_ptr() for tensor in _streams._read_elsewhere.get() or []}


def test_streams_wait_for_what_came_before_and_are_waited_for(streams: list[MadeUpStream]) -> None:
    main, used, x = streams[-1], [], torch.ones(1)
    main.n_calls = 1  # something that the calls come after

    def leaf() -> Tensor:
        streams[-1].n_calls += 1
        used.append(streams[-1])
        return torch.ones(1)

    def branch() -> Tensor:
        return leaf() + torch.stack(on_streams([leaf] * 3, [])).sum()

    with cuda_streams():
        results = on_streams([branch] * 4, [x])
        assert {x.data_ptr(), *(result.data_ptr() for result in results)} <= kept()
    assert len(set(used)) == 4 * (1 + 3) and main not in used
    assert all(stream.seen[main] == 1 for stream in used)
    assert all(main.seen[stream] == stream.n_calls for stream in used)


@mark.parametrize(
    ("n_calls", "n_free", "left"),
    [
        (2, 28, [13, 13]),
        (3, 28, [9, 8, 8]),
        (3, 3, [0, 0, 0]),  # as many calls as streams
        (3, 2, [0, 0, 0]),
        (3, 0, [0, 0, 0]),
        (1, 28, [28]),  # alone, it stays where it is
    ],
)
def test_calls_divide_the_streams_among_calls_inside_of_them(
    n_calls: int, n_free: int, left: list[int], streams: list[MadeUpStream]
) -> None:
    found: list[int] = []

    def asking() -> Tensor:
        found.append(len(_streams._free.get()))
        return torch.ones(1)

    token = _streams._free.set(range(n_free))
    try:
        with cuda_streams():
            on_streams([asking] * n_calls, [])
    finally:
        _streams._free.reset(token)
    assert found == left


def test_in_a_capture_groups_of_components_have_streams_of_their_own(
    streams: list[MadeUpStream],
) -> None:
    found_on: list[MadeUpStream] = []

    class Noting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            found_on.append(streams[-1])
            return super().forward(x)

    components = [Noting(4, 4), nn.ReLU(), Noting(4, 4, bias=False)]
    layer, x = ModularLayer(components, SharedBottom(1, 3)), torch.randn(2, 4)
    expected = layer(x, task=0)
    assert found_on == [streams[-1]] * 2
    found_on.clear()
    with cuda_streams():
        found = layer(x, task=0)
        assert x.data_ptr() in kept()
    assert len(set(found_on)) == 2 and streams[-1] not in found_on
    assert_close(found, expected)


def test_where_streams_are_too_few_calls_take_turns(streams: list[MadeUpStream]) -> None:
    used: list[MadeUpStream] = []

    def noting_stream() -> Tensor:
        used.append(streams[-1])
        return torch.ones(1)

    n_calls = 2 * _streams.MOST_STREAMS + 3
    with cuda_streams():
        assert len(on_streams([noting_stream] * n_calls, [])) == n_calls
    counts = [used.count(stream) for stream in set(used)]
    assert len(counts) == _streams.MOST_STREAMS and max(counts) - min(counts) == 1


@fixture
def used(streams: list[MadeUpStream], monkeypatch: MonkeyPatch) -> list[MadeUpStream]:
    """The streams that convolutions were computed on."""
    found: list[MadeUpStream] = []

    def on_stream(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found.append(streams[-1])
        return function(*args, **kwargs)

    monkeypatch.setattr(_conv, "_is_on_gpu", lambda x: True)
    monkeypatch.setattr(torch.nn.functional, "conv2d", partial(on_stream, torch.conv2d))
    return found


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    return _conv.many_channels(x, weight, None, (1, 1), (1, 1))


def test_convolutions_of_runs_have_streams_of_their_own(
    streams: list[MadeUpStream], used: list[MadeUpStream]
) -> None:
    x, weight = torch.randn(3, 2, 20, 5, 5), torch.randn(3, 4, 20, 3, 3)
    with cuda_streams():
        vmap(convolved)(x, weight)
        assert len(set(used)) == 3 and streams[-1] not in used
        assert {x.data_ptr(), weight.data_ptr()} <= kept()


def test_convolutions_of_the_batches_of_all_tasks_are_torchs_own(used: list[MadeUpStream]) -> None:
    x, weight = torch.randn(3, 2, 20, 5, 5), torch.randn(4, 20, 3, 3, requires_grad=True)
    with cuda_streams():
        y = vmap(convolved, in_dims=(0, None))(x, weight)
    assert len(used) == 1
    torch.autograd.grad(y.sum(), weight)
    assert len(used) == 1
