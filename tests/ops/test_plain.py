"""The fused operations where there is no GPU: plain mathematics, derivatives, and `vmap`."""

from typing import Any

import torch
import torch.nn.functional as F
from pytest import mark
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import vmap
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from allotment._ops import can_draw, mix, norm_relu, pool3x3
from allotment._ops._available import can_fuse


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_on_a_cpu_nothing_is_fused(dtype: torch.dtype) -> None:
    assert not can_fuse(torch.zeros(2, 8, 4, 4, dtype=dtype))
    assert not can_draw(torch.zeros(2, 3, 2, dtype=dtype))


@mark.parametrize(("n_groups", "n_channels"), [(1, 3), (2, 6), (4, 8), (5, 5)])
@mark.parametrize("has_bias", [True, False])
def test_norm_relu_is_relu_of_group_norm(n_groups: int, n_channels: int, has_bias: bool) -> None:
    x, bias, scale, shift = randn(2, n_channels, 5, 7), *randn(3, n_channels)
    y = x + bias.view(-1, 1, 1) if has_bias else x
    expected = F.relu(F.group_norm(y, n_groups, scale, shift, 1e-3))
    found = norm_relu(x, bias if has_bias else None, scale, shift, n_groups, 1e-3)
    assert_close(found, expected)


class TypesOfNorms(TorchDispatchMode):
    """Notes the types that torch's normalisations are given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[set[torch.dtype]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.native_group_norm.default:
            self.found.append({part.dtype for part in args if isinstance(part, Tensor)})
        return func(*args, **(kwargs or {}))


@mark.parametrize("has_bias", [True, False])
def test_norm_relu_of_short_numbers_takes_long_parameters_and_stays_short(has_bias: bool) -> None:
    x, bias, scale, shift = randn(2, 8, 5, 7).bfloat16(), *randn(3, 8).float()
    with TypesOfNorms() as types:
        found = norm_relu(x, bias if has_bias else None, scale, shift, 4, 1e-6)
    moved = x.double() + bias.double().view(-1, 1, 1) * has_bias
    expected = norm_relu(moved, None, scale.double(), shift.double(), 4, 1e-6)
    assert found.dtype == torch.bfloat16
    assert_close(found.double(), expected, rtol=2**-7, atol=2**-7)  # two roundings to 8 bits
    assert types.found == [{torch.float32}]  # a GPU refuses two types


def test_norm_relu_of_long_numbers_stays_long() -> None:
    x, scale, shift = randn(2, 8, 5, 7), *randn(2, 8).float()
    expected = norm_relu(x, None, scale.double(), shift.double(), 4, 1e-6)
    assert_close(norm_relu(x, None, scale, shift, 4, 1e-6), expected, rtol=1e-12, atol=1e-12)


def test_norm_relu_takes_parameters_with_gaps_between_their_numbers() -> None:
    x, (bias, scale, shift) = randn(2, 8, 5, 7), randn(8, 3).T
    expected = norm_relu(x, bias.clone(), scale.clone(), shift.clone(), 4, 1e-6)
    assert scale.stride() == (3,) and scale.clone().is_contiguous()
    assert_close(norm_relu(x, bias, scale, shift, 4, 1e-6), expected)


def normed(x: Tensor, bias: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return norm_relu(x, bias, scale, shift, 2, 1e-6)


def test_norm_relu_has_the_right_gradient() -> None:
    x, parameters = randn(2, 4, 3, 2), randn(3, 4)
    assert gradcheck(normed, [t.requires_grad_() for t in (x, *parameters.unbind())])


@mark.parametrize(
    "in_dims", [(0, 0, 0, 0), (0, None, None, None), (None, 0, 0, 0), (1, 0, None, 1)]
)
def test_norm_relu_over_runs_is_a_loop(in_dims: tuple[int | None, ...]) -> None:
    shapes = [(2, 8, 5, 3), (8,), (8,), (8,)]
    arguments = [
        randn(*shape) if dim is None else randn(*shape[:dim], 3, *shape[dim:])
        for shape, dim in zip(shapes, in_dims, strict=True)
    ]
    assert_vmap_is_a_loop(normed, in_dims, arguments)


def assert_vmap_is_a_loop(operation: Any, in_dims: tuple[int | None, ...], arguments: Any) -> None:
    """Asserts that batching over three runs gives what each alone does."""
    rows = [
        [
            t if dim is None else t.select(dim, run)
            for t, dim in zip(arguments, in_dims, strict=True)
        ]
        for run in range(3)
    ]
    expected = torch.stack([operation(*row) for row in rows])
    assert_close(vmap(operation, in_dims=in_dims)(*arguments), expected)


@mark.parametrize("sizes", [(1,), (4,), (1, 1, 1), (3, 1, 2), (2, 2)])
@mark.parametrize("shape", [(5,), (2, 6), (2, 3, 4, 5)])
def test_mix_is_a_weighted_sum(sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    weights, groups = randn(sum(sizes)), [randn(size, *shape) for size in sizes]
    expected = torch.zeros(shape, dtype=torch.float64)
    for weight, output in zip(weights, (y for group in groups for y in group), strict=True):
        expected += weight * output
    assert_close(mix(weights, groups), expected)


def test_mix_gives_the_type_of_the_outputs() -> None:
    outputs = [torch.ones(2, 1, 8, 3, 3, dtype=torch.bfloat16)]
    y = mix(torch.tensor([0.25, 0.5]), outputs)
    assert y.dtype == torch.bfloat16
    assert_close(y, torch.full_like(y, 0.75))


def test_mix_has_the_right_gradient() -> None:
    def operation(weights: Tensor, *groups: Tensor) -> Tensor:
        return mix(weights, groups)

    arguments = [randn(4), randn(3, 2, 2, 2, 2), randn(1, 2, 2, 2, 2)]
    assert gradcheck(operation, [t.requires_grad_() for t in arguments])


@mark.parametrize("in_dims", [(0, 0, 0), (0, None, 0), (None, 0, 0), (0, 2, 1)])
def test_mix_over_runs_is_a_loop(in_dims: tuple[int | None, ...]) -> None:
    shapes = [(4,), (3, 2, 2, 4, 3), (1, 2, 2, 4, 3)]
    arguments = [
        randn(*shape) if dim is None else randn(*shape[:dim], 3, *shape[dim:])
        for shape, dim in zip(shapes, in_dims, strict=True)
    ]
    assert_vmap_is_a_loop(lambda weights, *own: mix(weights, own), in_dims, arguments)


@mark.parametrize("largest", [True, False])
@mark.parametrize(("stride", "padding", "size"), [(1, (1, 1), (4, 5)), (2, (0, 1), (2, 3))])
def test_pools_have_the_right_gradient_and_go_over_runs(
    largest: bool, stride: int, padding: tuple[int, int], size: tuple[int, int]
) -> None:
    def operation(x: Tensor) -> Tensor:
        return pool3x3(x, stride, padding, size, largest=largest)

    assert operation(randn(2, 3, 4, 5)).shape == (2, 3, *size)
    assert gradcheck(operation, [randn(2, 3, 4, 5).requires_grad_()])
    assert_vmap_is_a_loop(operation, (0,), [randn(3, 2, 3, 4, 5)])
