"""What strategies leave behind in a process is gone after each test."""

import os
from collections.abc import Iterator
from unittest import mock

import torch
from pytest import fixture


@fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    # A Trainer with a strategy sets LOCAL_RANK and others, which make a later one wait for others.
    with mock.patch.dict(os.environ):
        yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
