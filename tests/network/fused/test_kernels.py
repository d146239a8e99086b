"""The kernels in Triton: the numbers and the gradients of the plain operations.

They run on a GPU. Without one, ``TRITON_INTERPRET=1`` and an installed Triton run them in Triton's
interpreter, which takes some minutes.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pytest import MonkeyPatch, fixture, mark, param, raises, skip
from torch import Tensor
from torch.func import functional_call, vmap
from torch.testing import assert_close

from allotment.network import (
    Annealing,
    GumbelMatrix,
    SameAvgPool2d,
    SameMaxPool2d,
    _same_padding,
)
from allotment.network._fused import _mix, _norm, _pool, mix, norm_relu
from allotment.network._fused._available import can_fuse, has_triton
from allotment.network.allocation import _gumbel

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")

pytestmark = mark.skipif(
    not has_triton() or not (INTERPRETED or torch.cuda.is_available()),
    reason="the kernels run on a GPU",
)

# Both ways compute in float32; with 16 bits they differ by one rounding of what comes out.
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2**-7}

Operation = Callable[..., Tensor]
BothWays = Callable[[Operation, Sequence[Tensor | None]], None]


@fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request: Any) -> torch.dtype:
    """The type of the images."""
    return request.param  # type: ignore[no-any-return]


@fixture
def dot_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of the images, of those that products can be computed in."""
    if INTERPRETED and dtype == torch.bfloat16:
        skip("Triton's interpreter takes the bits of 16-bit numbers in a product for integers")
    return dtype


@fixture
def choose(monkeypatch: MonkeyPatch) -> Callable[[bool], None]:
    """Has the operations use the kernels, or leave them, whatever the device."""

    # Torch allows shorter products in convolutions unless it is told otherwise.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

    def choice(fused: bool) -> None:
        for module in (_mix, _norm, _pool):
            monkeypatch.setattr(module, "can_fuse", lambda x: fused)
        monkeypatch.setattr(_gumbel, "can_draw", lambda logits: fused)
        monkeypatch.setattr(_same_padding, "can_convolve", lambda x, weight, stride: fused)

    return choice


@fixture
def assert_same(choose: Callable[[bool], None]) -> BothWays:
    """Asserts that kernels have the outputs and gradients of plain operations in float32."""

    def check(operation: Operation, arguments: Sequence[Tensor | None]) -> None:
        dtypes = [None if t is None else t.dtype for t in arguments]
        tolerance = TOLERANCES[torch.bfloat16 if torch.bfloat16 in dtypes else torch.float32]
        arguments = [None if t is None else t.to(DEVICE) for t in arguments]
        choose(False)
        plain = with_gradients(operation, [None if t is None else t.float() for t in arguments])
        choose(True)
        fused = with_gradients(operation, arguments)
        assert [t.dtype for t in fused[1:]] == [d for d in dtypes if d is not None]
        for a, b in zip(fused, plain, strict=True):
            # Relative to the largest: a sum over many pixels has the error of its parts.
            scale = b.abs().max().clamp_min(1.0)
            assert_close(a.float() / scale, b / scale, rtol=tolerance, atol=tolerance)

    return check


def with_gradients(operation: Operation, arguments: Sequence[Tensor | None]) -> list[Tensor]:
    """Returns what comes out, and the gradients of a sum of it with weights that differ."""
    leaves = [None if t is None else t.detach().clone().requires_grad_() for t in arguments]
    y = operation(*leaves)
    upstream = torch.linspace(-50, 50, y.numel(), device=y.device).sin().view(y.shape).bfloat16()
    learnt = [t for t in leaves if t is not None]
    return [y.detach(), *torch.autograd.grad(y, learnt, upstream.to(y.dtype))]


def normed(x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor) -> Tensor:
    return norm_relu(x, bias, scale, shift, 4, 1e-6)


# A group of a small image is one program's; a large image is cut into tiles.
SMALL = {
    "odd": (3, 12, 5, 7),
    "one pixel": (1, 8, 1, 1),
    "even": (2, 48, 14, 14),
    "many channels": (2, 256, 1, 1),
}
LARGE = {"large and odd": (2, 12, 75, 61), "large": (1, 8, 105, 105)}


def away_from_the_kink(operation: Operation, arguments: Sequence[Any]) -> Operation:
    """Returns an operation that leaves out the pixels for which ReLU may go either way."""
    x, bias, scale, shift = arguments
    mask = operation(x, bias, scale, shift) + operation(x, bias, -scale, -shift) > 1e-3
    return lambda *own: operation(*own) * mask.to(own[0].device)


def norm_arguments(shape: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
    """Returns images whose mean is not zero, and parameters."""
    rows = (*shape[:-4], shape[-3])
    scale, shift = torch.rand(rows) + 0.5, torch.randn(rows)
    return [(2 * torch.randn(*shape) + 1).to(dtype), torch.randn(rows), scale, shift]


@mark.parametrize("shape", [param(shape, id=name) for name, shape in {**SMALL, **LARGE}.items()])
@mark.parametrize("has_bias", [True, False])
def test_norm_relu(
    shape: tuple[int, ...], has_bias: bool, dtype: torch.dtype, assert_same: BothWays
) -> None:
    x, bias, scale, shift = norm_arguments(shape, dtype)
    arguments = [x, bias if has_bias else None, scale, shift]
    assert_same(away_from_the_kink(normed, arguments), arguments)


def test_norm_relu_of_no_images(choose: Callable[[bool], None]) -> None:
    choose(True)
    x, *rows = [t.to(DEVICE).requires_grad_() for t in norm_arguments((0, 8, 4, 4), torch.float32)]
    slopes = torch.autograd.grad(normed(x, *rows).sum(), rows)
    assert all(torch.equal(slope, torch.zeros_like(slope)) for slope in slopes)


def test_small_and_large_images_have_kernels_of_their_own() -> None:
    from allotment.network._fused._kernels._small_norm import is_small

    assert all(is_small(torch.empty(shape), 4) for shape in SMALL.values())
    assert not any(is_small(torch.empty(shape), 4) for shape in LARGE.values())


@mark.parametrize("size", [(5, 7), (75, 61)], ids=["small", "large"])
@mark.parametrize("in_dims", [(0, 0, 0, 0), (0, None, None, None), (None, 0, 0, 0)])
def test_norm_relu_over_runs(
    size: tuple[int, int], in_dims: Any, dtype: torch.dtype, assert_same: BothWays
) -> None:
    batched = norm_arguments((3, 2, 8, *size), dtype)
    arguments = [t if dim == 0 else t[0] for t, dim in zip(batched, in_dims, strict=True)]
    assert_same(away_from_the_kink(vmap(normed, in_dims=in_dims), arguments), arguments)


def mixed(weights: Tensor, *groups: Tensor) -> Tensor:
    return mix(weights, groups)


@mark.parametrize(
    ("n_groups", "group_size"), [(1, 1), (3, 1), (7, 1), (8, 1), (2, 4), (1, 16), (2, 3)]
)
@mark.parametrize("size", [(1, 1), (9, 7), (40, 33)], ids=["one pixel", "odd", "several tiles"])
def test_mix(
    n_groups: int,
    group_size: int,
    size: tuple[int, int],
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    groups = [torch.randn(group_size, 2, 6, *size).to(dtype) for _ in range(n_groups)]
    assert_same(mixed, [torch.rand(n_groups * group_size), *groups])


@mark.parametrize("sizes", [(3, 1), (1,) * 9], ids=["unequal groups", "too many groups"])
def test_mix_without_a_kernel_for_the_groups(
    sizes: tuple[int, ...], dtype: torch.dtype, assert_same: BothWays
) -> None:
    groups = [torch.randn(size, 2, 8, 5, 5).to(dtype) for size in sizes]
    assert_same(mixed, [torch.rand(sum(sizes)), *groups])


@mark.parametrize(("n_groups", "group_size"), [(3, 1), (2, 3)])
@mark.parametrize("has_own_outputs", [True, False])
def test_mix_over_runs(
    n_groups: int,
    group_size: int,
    has_own_outputs: bool,
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    runs = (3,) if has_own_outputs else ()
    groups = [torch.randn(*runs, group_size, 2, 8, 6, 5).to(dtype) for _ in range(n_groups)]
    in_dims = (0, *[0 if has_own_outputs else None] * n_groups)
    weights = torch.rand(3, n_groups * group_size)
    assert_same(vmap(mixed, in_dims=in_dims), [weights, *groups])


def convolution(stride: int) -> Operation:
    return lambda x, weight: _same_padding.same_convolution(x, weight, None, (stride, stride))


@mark.parametrize("stride", [1, 2, 3])
@mark.parametrize("kernel", [(3, 3), (5, 5), (1, 7), (2, 4), (1, 1)])
@mark.parametrize("size", [(1, 1), (8, 8), (5, 9)])
def test_convolutions_of_few_channels(
    stride: int,
    kernel: tuple[int, int],
    size: tuple[int, int],
    dot_dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    x, weight = torch.randn(3, 8, *size).to(dot_dtype), torch.randn(5, 8, *kernel).to(dot_dtype)
    assert_same(convolution(stride), [x, weight])


# More pixels than one share of a kernel's gradient, and more outputs than fit at once.
@mark.parametrize("n_outputs", [8, 70])
@mark.parametrize("n_channels", [3, 12, 16])
def test_convolutions_in_several_parts(
    n_outputs: int, n_channels: int, dot_dtype: torch.dtype, assert_same: BothWays
) -> None:
    x, weight = torch.randn(5, n_channels, 22, 21), torch.randn(n_outputs, n_channels, 3, 3)
    assert_same(convolution(1), [x.to(dot_dtype), weight.to(dot_dtype)])


def test_places_may_need_more_than_32_bits(monkeypatch: MonkeyPatch, assert_same: BothWays) -> None:
    from allotment.network._fused._kernels import _conv

    monkeypatch.setattr(_conv, "WIDE_FROM", 1)
    assert_same(convolution(2), [torch.randn(3, 8, 9, 6), torch.randn(5, 8, 3, 3)])


@mark.parametrize("learns", ["images", "kernels"])
def test_convolutions_where_one_side_has_no_gradient(
    learns: str, choose: Callable[[bool], None]
) -> None:
    sides = {"images": torch.randn(2, 8, 5, 5), "kernels": torch.randn(3, 8, 3, 3)}
    results = []
    for fused in (True, False):
        choose(fused)
        own = {k: side.to(DEVICE).requires_grad_(k == learns) for k, side in sides.items()}
        y = convolution(2)(own["images"], own["kernels"])
        results.append(torch.autograd.grad(y.square().sum(), own[learns])[0])
    assert_close(*results, rtol=1e-4, atol=1e-3)


def test_a_second_derivative_is_refused(choose: Callable[[bool], None]) -> None:
    choose(True)
    x = torch.randn(2, 8, 5, 5, device=DEVICE, requires_grad=True)
    y = convolution(1)(x, torch.randn(3, 8, 3, 3, device=DEVICE))
    (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


@mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@mark.parametrize("stride", [1, 2])
def test_convolutions_over_runs_and_tasks(
    in_dims: Any, stride: int, dot_dtype: torch.dtype, assert_same: BothWays
) -> None:
    batched = [torch.randn(3, 2, 8, 6, 7).to(dot_dtype), torch.randn(3, 5, 8, 3, 3).to(dot_dtype)]
    arguments = [t if dim == 0 else t[0] for t, dim in zip(batched, in_dims, strict=True)]
    over_runs = vmap(convolution(stride), in_dims=in_dims)
    assert_same(over_runs, arguments)
    # In a joint step the tasks of a run share its kernels.
    tasks = torch.randn(*[3] * (in_dims[0] == 0), 4, 2, 8, 6, 7).to(dot_dtype)
    over_tasks = vmap(convolution(stride), in_dims=(0, None))
    assert_same(vmap(over_tasks, in_dims=in_dims), [tasks, arguments[1]])


@mark.parametrize("pool", [SameMaxPool2d, SameAvgPool2d])
@mark.parametrize("stride", [1, 2])
@mark.parametrize("size", [(1, 1), (7, 7), (14, 14), (9, 6), (4, 13)])
def test_pools(
    pool: type[SameMaxPool2d | SameAvgPool2d],
    stride: int,
    size: tuple[int, int],
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    assert_same(pool(stride), [distinct(2, 6, *size).to(dtype)])
    assert_same(vmap(pool(stride)), [distinct(2, 2, 6, *size).to(dtype)])


def distinct(*shape: int) -> Tensor:
    """Returns images in which no two pixels of a channel are equal, with 16 bits too."""
    n_pixels = shape[-2] * shape[-1]
    order = torch.rand(*shape[:-2], n_pixels).argsort(dim=-1) + 1.0
    return (order / 4 - 10).view(shape)


GATES = [
    param([], id="none open"),
    param([1], id="one open"),
    param([0, 2, 3], id="some open"),
    param([0, 1, 2, 3, 4], id="all open"),
]


def noise_that_opens(gates: Sequence[int], n_components: int) -> Tensor:
    noise = torch.linspace(0.01, 0.05, n_components)
    noise[list(gates)] = 1 - noise[list(gates)]
    return noise


def a_matrix(n_components: int, n_draws: int) -> GumbelMatrix:
    matrix = GumbelMatrix(4, n_components, temperature=Annealing()).to(DEVICE)
    matrix.logits.data.normal_(std=0.3)
    matrix.n_draws.fill_(n_draws)
    return matrix


@mark.parametrize("gates", GATES)
@mark.parametrize("n_draws", [0, 50, 20_000])
def test_gates(gates: list[int], n_draws: int, choose: Callable[[bool], None]) -> None:
    matrix = a_matrix(5, n_draws)
    noise, task = noise_that_opens(gates, 5).to(DEVICE), torch.tensor(2, device=DEVICE)
    upstream = torch.arange(1.0, 6.0, device=DEVICE)
    results = []
    for fused in (True, False):
        choose(fused)
        weights = matrix.weights(task, noise=noise)
        slopes = torch.autograd.grad(weights @ upstream, matrix.logits)[0]
        results.append((weights.detach(), slopes))
    assert results[0][0].nonzero().flatten().tolist() == gates
    assert results[0][1][2].any()  # the task's logits learn, whatever is open
    for a, b in zip(*results, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-7)


class Drawing(torch.nn.Module):
    """An allocation's draw as a forward pass, the form that can be batched over runs."""

    def __init__(self, matrix: GumbelMatrix) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, task: Tensor, noise: Tensor) -> Tensor:
        return self.matrix.weights(task, noise=noise)


@mark.parametrize("n_components", [1, 7, 16])
@mark.parametrize("has_own_logits", [True, False])
def test_gates_over_runs(
    n_components: int, has_own_logits: bool, choose: Callable[[bool], None]
) -> None:
    module = Drawing(a_matrix(n_components, 50))
    tasks = torch.tensor([0, 3, 0], device=DEVICE)
    noise = torch.rand(3, n_components, device=DEVICE)
    logits = torch.randn(*[3] * has_own_logits, 4, n_components, 2, device=DEVICE)

    def one(logits: Tensor, task: Tensor, noise: Tensor) -> Tensor:
        y: Tensor = functional_call(module, {"matrix.logits": logits}, (task, noise))
        return y

    upstream = torch.randn(3, n_components, device=DEVICE)
    in_dims = (0 if has_own_logits else None, 0, 0)
    results = []
    for fused in (True, False):
        choose(fused)
        own = logits.clone().requires_grad_()
        weights = vmap(one, in_dims=in_dims)(own, tasks, noise)
        results.append((weights.detach(), torch.autograd.grad(weights, own, upstream)[0]))
    for a, b in zip(*results, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-6)


@mark.skipif(not torch.cuda.is_available(), reason="the choice is between a GPU's two ways")
def test_a_gpu_fuses_images_of_many_channels_in_the_types_that_the_kernels_know() -> None:
    def image(n_channels: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(2, n_channels, 4, 4, dtype=dtype, device="cuda")

    assert can_fuse(image(8)) and can_fuse(image(256)) and can_fuse(image(8, torch.bfloat16))
    assert not can_fuse(image(7)) and not can_fuse(image(257))
    assert not can_fuse(image(8, torch.float64)) and not can_fuse(image(8)[0])
    assert can_fuse(image(8)[:1].expand(65_535, -1, -1, -1))
    assert not can_fuse(image(8)[:1].expand(65_536, -1, -1, -1))
