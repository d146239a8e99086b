"""What tests of exports share: torch's list of ONNX operations, which takes long to read."""

from collections.abc import Iterator
from functools import cache

from pytest import MonkeyPatch, fixture


@fixture(autouse=True, scope="session")
def one_list_of_operations() -> Iterator[None]:
    """Has torch read its list of ONNX operations once; each export reads it anew."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # without the packages of the onnx extra
        yield
        return
    with MonkeyPatch.context() as patch:
        once = staticmethod(cache(ONNXRegistry.from_torchlib))
        patch.setattr(ONNXRegistry, "from_torchlib", once)
        yield
