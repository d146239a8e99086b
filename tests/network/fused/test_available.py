"""Where kernels are left aside."""

from typing import cast

from pytest import MonkeyPatch
from torch import Tensor

from allotment.network import plain_operations
from allotment.network._fused import _available


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
