"""Layers of components that read streams of their own."""

from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import extract, for_task
from allotment.allocation import CrossStitch, GumbelMatrix
from allotment.modules import ColumnLayer, MultiTaskNetwork


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh())


def image() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU())


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))


def stitched(n_tasks: int = 2, n_components: int = 2) -> CrossStitch:
    """Returns an allocation with numbers that hide no mistake."""
    allocation = CrossStitch(n_tasks, n_components)
    allocation.table.data = torch.randn(n_tasks, n_tasks)
    return allocation


def plainly(layer: ColumnLayer, x: Tensor, task: int) -> Tensor:
    """Returns the output of a layer as one would write it down."""
    streams = [x] * 99 if layer.reads is None else list(x.chunk(layer.n_inputs))
    reads = layer.reads or [0] * len(layer.components)
    outputs = [c(streams[s]) for c, s in zip(layer.components, reads, strict=True)]
    table: Tensor = layer.allocation.probabilities()
    rows = [
        sum(weight * y for weight, y in zip(row, outputs, strict=True))
        for row in (table[task : task + 1] if layer.is_last else table)
    ]
    return torch.cat(rows)


@mark.parametrize("kinds", [[linear] * 4, [linear, nn.Identity, linear, nn.Identity], [image] * 4])
@mark.parametrize("is_last", [False, True])
@mark.parametrize("is_first", [False, True])
def test_components_read_their_stream_and_are_mixed(
    kinds: list[Any], is_last: bool, is_first: bool
) -> None:
    reads = None if is_first else [2, 0, 2, 1]
    layer = ColumnLayer(
        [kind() for kind in kinds], stitched(2, 4), reads=reads, n_inputs=3, is_last=is_last
    )
    shape = (3, 5, 5) if image in kinds else (3,)
    x = torch.randn(4 if is_first else 12, *shape)
    for training in (True, False):
        layer.train(training)
        for task in range(2):
            with for_task(task):
                assert_close(layer(x), plainly(layer, x, task))
    assert layer(x, task=0).shape[0] == (4 if is_last else 8)


def test_maps_start_as_the_identity_and_stand_on_each_connection() -> None:
    torch.manual_seed(2)
    components = [linear() for _ in range(2)]
    plain = ColumnLayer(components, stitched(), reads=[0, 1], n_inputs=2)
    mapped = ColumnLayer(components, plain.allocation, reads=[0, 1], n_inputs=2, map_channels=3)
    x = torch.randn(8, 3)
    assert mapped.maps is not None and mapped.maps.shape == (2, 2, 3, 3)
    assert_close(mapped(x, task=0), plain(x, task=0))
    mapped.maps.data = torch.randn(2, 2, 3, 3)
    table = plain.allocation.probabilities()
    outputs = [c(part) for c, part in zip(components, x.chunk(2), strict=True)]
    expected = [
        sum(table[s, c] * outputs[c] @ mapped.maps[s, c].T for c in range(2)) for s in range(2)
    ]
    assert_close(mapped(x, task=0), torch.cat(expected))


@mark.parametrize("shape", [(3,), (3, 4, 4)])
def test_at_the_last_layer_maps_are_the_task_s(shape: tuple[int, ...]) -> None:
    components = [nn.Identity(), nn.Tanh()]
    layer = ColumnLayer(components, stitched(), map_channels=3, is_last=True)
    assert layer.maps is not None
    layer.maps.data = torch.randn(2, 2, 3, 3)
    x = torch.randn(5, *shape)
    for task in (0, 1):
        parts = zip(layer.allocation.weights(task), layer.maps[task], components, strict=True)
        expected = sum(
            weight * torch.einsum("oi,bi...->bo...", matrix, component(x))
            for weight, matrix, component in parts
        )
        assert_close(layer(x, task=task), expected)
        assert_close(layer(x, task=torch.tensor(task)), expected)


def test_gradients_reach_all_columns_and_the_stitches_of_inner_layers() -> None:
    first = ColumnLayer([linear() for _ in range(2)], stitched())
    last = ColumnLayer(
        [linear() for _ in range(2)], stitched(), reads=[0, 1], n_inputs=2, is_last=True
    )
    network = MultiTaskNetwork(None, [first, last])
    network(torch.randn(5, 3), 0).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
    table = last.allocation.get_parameter("table").grad
    assert table is not None and not table[1].any()  # the other task's row


def test_statistics_inside_a_component_are_those_of_its_stream() -> None:
    layer = ColumnLayer([normed(), normed()], stitched(), reads=[1, 0], n_inputs=2)
    x = torch.randn(12, 3)
    layer(x, task=0)
    for component, stream in zip(layer.components, reversed(x.chunk(2)), strict=True):
        mean = component.get_submodule("0")(stream).mean(0)
        assert_close(component.get_buffer("1.running_mean"), 0.1 * mean)


def test_a_task_of_columns_is_not_extracted() -> None:
    network = MultiTaskNetwork(None, [ColumnLayer([linear(), linear()], stitched(), is_last=True)])
    with raises(ValueError, match=r"a part of its own\. Found a ColumnLayer"):
        extract(network, 0)


@mark.parametrize(
    ("reads", "found"),
    [([0], r"\[0\]"), ([0, 2], r"\[0, 2\]"), ([0, -1], r"\[0, -1\]")],
)
def test_streams_that_are_not_there_are_refused(reads: list[int], found: str) -> None:
    rule = "`reads` should have a stream from 0 to 1 for each component. Found `reads = "
    with raises(ValueError, match=rf"{rule}{found}` for 2"):
        ColumnLayer([linear(), linear()], stitched(), reads=reads, n_inputs=2)


def test_an_allocation_without_streams_stands_at_the_last_layer_alone() -> None:
    ColumnLayer([linear(), linear()], GumbelMatrix(2, 2), is_last=True)
    with raises(ValueError, match=r"should be a StreamAllocation .* Found GumbelMatrix"):
        ColumnLayer([linear(), linear()], GumbelMatrix(2, 2))


def test_other_calls_are_refused() -> None:
    layer = ColumnLayer([linear(), linear()], stitched())
    x = torch.ones(2, 3)
    for arguments, options in (((), {}), ((x, 1), {}), ((x,), {"y": 1})):
        with raises(TypeError, match="should be given one input"):
            layer(*arguments, task=0, **options)
