"""One task's network, called with the names of its inputs."""

import torch
from pytest import fixture, mark
from torch import Tensor, nn

from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskModel, MultiTaskNetwork, TaskNetwork, extract


class Bag(nn.Module):
    """The mean of the words that a mask lets through."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        y: Tensor = self.table(input_ids) * attention_mask.unsqueeze(-1)
        return y.mean(dim=1)


class Encoder(nn.Module):
    """The same with a modular layer behind it; its input is named as ``forward`` often does."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.bag, self.layer = Bag(), layer

    def forward(self, mask: Tensor, x: Tensor) -> Tensor:
        y: Tensor = self.layer(self.bag(x, mask))
        return y


def layer() -> ModularLayer:
    return ModularLayer([nn.Linear(8, 8) for _ in range(3)], GumbelMatrix(2, 3, p_init=0.9))


def heads() -> dict[str, nn.Module]:
    return {"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)}


@fixture(params=["network", "model"])
def network(request: object) -> TaskNetwork:
    if request.param == "network":  # type: ignore[attr-defined]
        return MultiTaskNetwork(Bag(), [layer()], heads()).eval()
    return MultiTaskModel(Encoder(layer()), heads()).eval()


def batch_for(network: TaskNetwork) -> dict[str, Tensor]:
    words, mask = torch.randint(10, (4, 5)), (torch.rand(4, 5) > 0.3).float()
    if isinstance(network, MultiTaskNetwork):
        return {"attention_mask": mask, "input_ids": words}
    return {"x": words, "mask": mask}


@mark.parametrize("task", ["a", "b"])
def test_a_batch_may_be_given_as_arguments_by_name(network: TaskNetwork, task: str) -> None:
    own, batch = extract(network, task), batch_for(network)
    expected = network(batch, task)
    assert torch.equal(own(**batch), expected)
    assert torch.equal(own(batch), expected)


def test_names_go_through_torch_export(network: TaskNetwork) -> None:
    own, batch = extract(network, "b"), batch_for(network)
    exported = torch.export.export(own, (), kwargs=batch)
    torch.testing.assert_close(exported.module()(**batch), network(batch, "b"))
