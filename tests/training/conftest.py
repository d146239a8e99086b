"""Double precision, for telling two ways to one result from two results."""

from collections.abc import Iterator

import torch
from pytest import fixture


@fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
