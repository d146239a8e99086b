"""One task's part of a network, as a module of its own."""

from collections import OrderedDict
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from .._checks import described
from ._layer import ModularLayer, weighted_sum
from ._multitask import MultiTaskNetwork
from .allocation import Allocation, GumbelMatrix


def extract(network: MultiTaskNetwork, task: int | str) -> nn.Sequential:
    """Returns a copy of what a task uses, in evaluation mode, with no allocation left in it.

    It takes ``x`` alone and has the outputs of the network in evaluation mode, to the last bit.
    An ordinary module: it can be trained further, saved, or handed to `torch.export`.

    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2, p_init=0.9))
    >>> layer.allocation.logits.data[1, 0] = torch.tensor([-1.0, 1.0])  # shut for the second task
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> extract(network, "b")
    Sequential(
      (layer_0): Linear(in_features=8, out_features=4, bias=True)
      (head): Linear(in_features=4, out_features=3, bias=True)
    )

    Args:
        network: A network in which a task's gates are the same in every evaluation.
        task: The task's index or name.
    """
    if not isinstance(network, MultiTaskNetwork):
        raise TypeError(f"`network` should be a MultiTaskNetwork. Found {described(network)}.")
    index = network.task_index(int(task) if isinstance(task, Tensor) else task)
    assert isinstance(index, int)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if not isinstance(network.stem, nn.Identity):
        parts["stem"] = network.stem
    for number, layer in enumerate(network.layers):
        own = _own_part(layer, index) if isinstance(layer, ModularLayer) else layer
        parts[f"layer_{number}"] = own
    if isinstance(network.heads, nn.ModuleList):
        parts["head"] = network.heads[index]
    # All at once, so that what stands in two places is one module in the copy too.
    return deepcopy(nn.Sequential(parts)).eval()


class _WeightedSum(nn.Module):
    """The sum of some components' outputs, each times its weight."""

    weights: Tensor

    def __init__(self, components: Sequence[nn.Module], weights: Tensor) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        self.register_buffer("weights", weights)

    def forward(self, x: Tensor) -> Tensor:
        outputs = [component(x) for component in self.components]
        return weighted_sum(self.weights.unbind(0), outputs)


class _Nothing(nn.Module):
    """Zeros, for a layer of which a task uses nothing; one component says in which shape."""

    def __init__(self, component: nn.Module) -> None:
        super().__init__()
        self.component = component

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(self.component(x))


@torch.no_grad()
def _own_part(layer: ModularLayer, task: int) -> nn.Module:
    weights = _weights_in_evaluation(layer.allocation, task)
    used = weights.nonzero().flatten()
    components: list[nn.Module] = [layer.components[position] for position in used.tolist()]
    if not components:
        return _Nothing(layer.components[0])
    if len(components) == 1 and weights[used[0]] == 1:
        return components[0]
    return _WeightedSum(components, weights[used])


def _weights_in_evaluation(allocation: Allocation, task: int) -> Tensor:
    if isinstance(allocation, GumbelMatrix) and allocation.evaluation == "sampled":
        raise ValueError(
            "`network` should have allocations that are the same in every evaluation. Found one "
            'that is drawn anew, with `evaluation = "sampled"`.'
        )
    was_training = allocation.training
    allocation.eval()
    try:
        return allocation.weights(task).clone()
    finally:
        allocation.train(was_training)
