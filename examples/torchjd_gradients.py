"""Gradients of tasks that go against each other, combined by an aggregator of TorchJD.

Any of its aggregators serves, such as PCGrad, MGDA or UPGrad. PCGrad adds gradients up, and draws
its order from torch's global generator. Needs TorchJD.
"""

import torch
from torch import Tensor, nn
from torchjd.aggregation import Aggregator, PCGrad

import allotment as al


class Aggregated(al.LossBalancing):
    """Follows what an aggregator makes of the gradients of all tasks."""

    needs_gradients = True

    def __init__(self, aggregator: Aggregator) -> None:
        self.aggregator = aggregator

    def combine(self, gradients: Tensor) -> Tensor:  # [K, P]: a row for each task
        combined: Tensor = self.aggregator(gradients)
        return combined  # [P]


if __name__ == "__main__":
    torch.manual_seed(0)
    x, w = torch.randn(300, 8), torch.randn(8)
    scales = {"a": 1, "b": -1, "c": 5}  # b goes against both others, and c is loud
    tasks = [al.Task(name, (x, scale * torch.sin(x @ w))) for name, scale in scales.items()]
    settings = al.TrainingSettings(rounds=150, schedule="joint").changed(learning_rate=0.02)
    for name, balancing in {"mean": None, "PCGrad": Aggregated(PCGrad())}.items():
        torch.manual_seed(0)  # the same weights at first
        components = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in "123"]
        layer = al.ModularLayer(components, al.GumbelMatrix(3, 3))
        network = al.MultiTaskNetwork(None, [layer], task_names=list("abc"))
        result = al.fit(network, tasks, settings.changed(loss_balancing=balancing))
        print(name, result.history[-1].losses.round(2))
