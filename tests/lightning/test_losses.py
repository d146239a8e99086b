"""Losses that are kept until somebody asks for them."""

from types import SimpleNamespace
from typing import Any

import torch

from allotment.lightning._batch import Place, StepBatch, TaskBatch
from allotment.lightning._losses import KeptLosses


def nccl() -> Any:
    """Returns a Trainer whose processes exchange what is on their device, and nothing else."""

    def reduce(values: torch.Tensor, reduce_op: str) -> torch.Tensor:
        assert values.device.type == "meta"
        return torch.full(values.shape, 2.0)

    return SimpleNamespace(strategy=SimpleNamespace(reduce=reduce))


def test_what_processes_exchange_is_on_their_device() -> None:
    kept = KeptLosses(2)
    parts = [TaskBatch(task, None, None, Place(0, 1, 1)) for task in (1, 0)]
    kept.add(StepBatch(3, parts), torch.zeros(2, device="meta"))
    found = kept.take(nccl())
    assert found.first == 3 and found.sums.tolist() == [[2.0, 2.0]]
    nothing = kept.take(nccl())
    assert nothing.sums.shape == (0, 2) and nothing.first_bad is None
