"""A large task and a small one: how often each is drawn, what its loss weighs, when to stop."""

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import allotment as al

torch.manual_seed(0)
directions = {"large": torch.randn(20), "small": torch.randn(20)}
directions["small"] = 0.8 * directions["large"] + 0.6 * directions["small"]  # related tasks


def examples(name: str, n: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 20)
    return x, (x @ directions[name] + torch.randn(n) > 0).long()


def auc(outputs: Tensor, targets: Tensor) -> float:
    return float(roc_auc_score(targets, outputs.softmax(1)[:, 1]))


tasks = [
    al.Task(
        name,
        train=examples(name, n),
        validation=examples(name, 1_000),
        test=examples(name, 1_000),
        weight=weight,  # of its loss in training; losses are reported without it
        metrics={"AUC": auc},
    )
    for name, n, weight in [("large", 20_000, 1.0), ("small", 200, 2.0)]
]
components = [nn.Sequential(nn.Linear(20, 16), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(2, 4))
network = al.MultiTaskNetwork(None, [layer], {task.name: nn.Linear(16, 2) for task in tasks})
settings = al.TrainingSettings(
    rounds=1_000,
    optimization=al.Optimization(learning_rate=0.003),
    sampling_power=0.5,  # ten times as many batches for a hundred times as many examples
    evaluate_every=50,
    keep_best="AUC",  # the weights of the round with the best AUC on validation
    patience=3,  # and an end after three checks without a better one
)
print(al.fit(network, tasks, settings))
