"""Stacked components in a network that `FullyShardedDataParallel` divides, on the CPU."""

from collections.abc import Iterator
from pathlib import Path

import torch
from pytest import fixture, mark
from torch import distributed
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.testing import assert_close

from allotment._engine import StackedForm
from allotment.modules import as_network

from .cases import CASES


@fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


# Of one process, and of parts of torch that it calls itself.
@mark.filterwarnings("ignore")
@mark.parametrize("case", ["own, joint", "modularized, joint"])
def test_components_have_their_own_parameters_in_a_pass(case: str, one_process: None) -> None:
    network = as_network(CASES[case]().network, ["a", "b", "c"])
    x = torch.randn(5, 6)
    expected = network(x, 1)
    expected.sum().backward()
    gradient = sum(p.grad.sum() for p in network.parameters() if p.grad is not None)
    network.zero_grad()
    StackedForm(network)
    divided = FullyShardedDataParallel(network, use_orig_params=True, device_id=torch.device("cpu"))
    found = divided(x, 1)
    found.sum().backward()
    assert_close(found, expected)
    assert_close(sum(p.grad.sum() for p in divided.parameters() if p.grad is not None), gradient)
