"""What the tests of kernels share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from pytest import MonkeyPatch, fixture, skip
from torch import Tensor
from torch.testing import assert_close

from allotment._ops import _conv, _mix, _norm, _pool
from allotment.allocation import _gumbel
from allotment.paper.networks import _same_padding
from tests.ops.both_ways import DEVICE, INTERPRETED, TOLERANCES, BothWays, Operation, with_gradients


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
        for module in (_conv, _same_padding):
            # With many channels, too, the kernels would do.
            monkeypatch.setattr(
                module, "can_convolve", lambda x, weight, stride: fused and x.shape[1] in _conv.FEW
            )
        monkeypatch.setattr(_conv, "_is_on_gpu", lambda x: fused)

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
