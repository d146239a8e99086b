"""Components with buffers, such as the statistics of a batch normalisation."""

import torch
from pytest import mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import FixedMatrix, SharedBottom
from allotment.modules import ModularLayer


def batch_normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))


def test_components_with_batch_normalisation_keep_statistics_of_their_own() -> None:
    layer = ModularLayer([batch_normed() for _ in range(3)], SharedBottom(1, 3))
    x = torch.randn(5, 4, 6, 6)
    layer(x, task=0)
    for component in layer.components:
        assert isinstance(component, nn.Sequential)
        norm = component[1]
        assert isinstance(norm, nn.BatchNorm2d)
        mean = component[0](x).mean(dim=(0, 2, 3))
        assert norm.num_batches_tracked == 1
        assert_close(norm.running_mean, 0.1 * mean.detach())
    layer.eval()(x, task=0)
    assert all(m.num_batches_tracked == 1 for m in layer.modules() if isinstance(m, nn.BatchNorm2d))


@mark.parametrize("task", [0, torch.tensor(0)], ids=["int", "tensor"])
def test_a_batch_leaves_no_trace_in_a_component_that_it_does_not_use(task: int | Tensor) -> None:
    components = [nn.BatchNorm1d(4) for _ in range(2)]
    layer = ModularLayer(components, FixedMatrix([[1, 0], [0, 1]])).train()
    untouched = {name: value.clone() for name, value in components[1].state_dict().items()}
    x = torch.randn(50, 4) + 3
    for _ in range(2):  # the second finds what the first left
        layer(x, task=task).sum().backward()
    assert int(components[0].num_batches_tracked or 0) == 2
    assert_close(components[0].running_mean, 0.19 * x.mean(dim=0))
    for name, value in components[1].state_dict().items():
        assert torch.equal(value, untouched[name])
