"""What every test shares: its seed, its device and precision, and the door to the slow ones."""

import gc
import os
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="run the slow tests too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--runslow"):
        return
    skip = pytest.mark.skip(reason="slow: runs only with --runslow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    # What was imported stays, and is large: looking through it for garbage is in vain.
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_notes() -> Iterator[None]:
    """Keeps torch from noting the shapes and the stack of each operation that the engine records.

    The engine reads none of these notes, and they are half of the time of a recording. What
    `torch.export` follows is read by them, and keeps its shapes.
    """
    from torch._subclasses import fake_tensor
    from torch.fx.experimental import proxy_tensor

    from allotment._engine import _recording

    make_fx = proxy_tensor.make_fx

    def without_notes(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        traced = make_fx(function, **options)

        def record(*arguments: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(proxy_tensor, "set_meta", lambda proxy, value: proxy)
                return traced(*arguments)

        return record

    nothing = SimpleNamespace(extract_stack=list, format_list=list)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_tensor, "traceback", nothing)
        patch.setattr(_recording, "make_fx", without_notes)
        yield


@pytest.fixture(autouse=True)
def seed() -> None:
    """Starts every test from the same random state, whatever ran before it."""
    import torch  # here, so that listing the tests stays quick

    torch.set_num_threads(1)  # small operations gain nothing from more, and lose to busy neighbours
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (scikit-learn draws from it unless it is told otherwise)
    torch.manual_seed(0)


@pytest.fixture
def device() -> "torch.device":
    """The device named by ``ALLOTMENT_TEST_DEVICE``, otherwise the CPU."""
    import torch

    return torch.device(os.environ.get("ALLOTMENT_TEST_DEVICE", "cpu"))


@pytest.fixture
def double() -> Iterator[None]:
    """Double precision, for telling two ways to one result from two results."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
