"""Examples with labels of several tasks, some of them missing: one batch, one pass for all."""

import torch
from torch import nn

import allotment as al

torch.manual_seed(0)
x = torch.randn(4_000, 30)
hidden = torch.tanh(x @ torch.randn(30, 4))
table = {
    "first": (hidden[:, 0] > 0).long(),
    "second": (hidden[:, 0] + 0.2 * hidden[:, 1] > 0).long(),
    "kind": hidden[:, 1:].argmax(1),
    "size": hidden[:, 3] + 0.1 * torch.randn(len(x)),
}
table["second"][torch.rand(len(x)) < 0.9] = -100  # nine of ten labels are not known
table["size"][torch.rand(len(x)) < 0.5] = torch.nan

tasks = al.tasks_from_table(x, table, kinds={"size": "regression"})
stem = nn.Sequential(nn.Linear(tasks.n_features, 64), nn.ReLU())
components = [nn.Sequential(nn.Linear(64, 32), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(len(tasks), 4))
heads = {task.name: nn.Linear(32, task.n_outputs) for task in tasks}
network = al.MultiTaskNetwork(stem, [layer], heads)
settings = al.TrainingSettings(
    rounds=500,
    schedule="multi_label",  # a step takes a batch of examples, and every label known of them
    optimization=al.Optimization(learning_rate=0.003),
)
print(al.fit(network, tasks, settings))
