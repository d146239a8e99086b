"""Where kernels are left aside."""

from typing import cast

import torch
from pytest import MonkeyPatch, mark, param
from torch import Tensor

from allotment._ops import _available, _conv, can_convolve, plain_operations


class OnGpu:
    """What a tensor on a GPU says of itself."""

    is_cuda = True


def test_kernels_are_left_aside_while_operations_are_recorded(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_available, "has_triton", lambda: True)
    x = cast(Tensor, OnGpu())
    assert _available.kernels_run_on(x)
    with plain_operations():
        assert not _available.kernels_run_on(x)
    assert _available.kernels_run_on(x)


def images(n_channels: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(2, n_channels, 4, 4, dtype=dtype)


def kernels(n_channels: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(3, n_channels, 3, 3, dtype=dtype)


@mark.parametrize(
    ("x", "weight", "stride", "expected"),
    [
        param(images(2), kernels(2), 1, True, id="few"),
        param(images(16), kernels(16), 2, True, id="as many as there may be"),
        param(images(8, torch.float16), kernels(8, torch.float16), 1, True, id="short numbers"),
        param(images(1), kernels(1), 1, False, id="one"),
        param(images(17), kernels(17), 1, False, id="many"),
        param(images(16), kernels(16), 3, False, id="long steps"),
        param(images(5), kernels(3), 1, False, id="not the kernel's"),
        param(images(8), kernels(8, torch.bfloat16), 1, False, id="two types"),
        param(images(8, torch.float64), kernels(8, torch.float64), 1, False, id="long numbers"),
        param(images(8)[0], kernels(8), 1, False, id="an image without a batch"),
    ],
)
def test_which_convolutions_have_kernels(
    x: Tensor, weight: Tensor, stride: int, expected: bool, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_conv, "kernels_run_on", lambda x: True)
    assert can_convolve(x, weight, stride) is expected


def test_a_convolution_that_is_to_be_cast_is_left_to_torch(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_conv, "kernels_run_on", lambda x: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device_type: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device_type: torch.bfloat16)
    assert not can_convolve(images(8), kernels(8), 1)
    assert can_convolve(images(8, torch.bfloat16), kernels(8, torch.bfloat16), 1)


def test_on_a_cpu_no_convolution_has_a_kernel() -> None:
    assert not can_convolve(images(8), kernels(8), 1)
