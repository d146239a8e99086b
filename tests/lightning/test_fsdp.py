"""Components of one architecture where `FullyShardedDataParallel` divides a network, on a CPU."""

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
@mark.parametrize("is_stacked", [True, False])
@mark.parametrize("case", ["own, joint", "modularized, joint"])
def test_components_have_their_own_parameters_in_a_pass(
    case: str, is_stacked: bool, one_process: None
) -> None:
    network = as_network(CASES[case]().network, ["a", "b", "c"])
    for parameter in network.parameters():  # a modularized network has equal components
        parameter.data += 0.1 * torch.randn_like(parameter)
    x = torch.randn(5, 6)
    torch.manual_seed(1)  # of the gates
    expected = network(x, 1)
    expected.sum().backward()
    gradient = sum(p.grad.sum() for p in network.parameters() if p.grad is not None)
    network.zero_grad()
    if is_stacked:
        StackedForm(network)
    divided = FullyShardedDataParallel(network, use_orig_params=True, device_id=torch.device("cpu"))
    torch.manual_seed(1)
    found = divided(x, 1)
    found.sum().backward()
    assert_close(found, expected)
    assert_close(sum(p.grad.sum() for p in divided.parameters() if p.grad is not None), gradient)
