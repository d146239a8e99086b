"""A training loop of one's own around modular layers: any optimizer, any order of tasks."""

import torch
from torch import nn

import allotment as al

torch.manual_seed(0)
x = torch.randn(600, 8)
targets = {
    "sum": x[:, :4].sum(1, keepdim=True),  # two tasks that look at the same features
    "scaled": 2 * x[:, :4].sum(1, keepdim=True) - 1,
    "largest": x[:, 4:].argmax(1),  # and one that looks at others
}
losses = {"sum": nn.MSELoss(), "scaled": nn.MSELoss(), "largest": nn.CrossEntropyLoss()}

components = [nn.Sequential(nn.Linear(8, 16), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(n_tasks=3, n_components=4))
heads = {"sum": nn.Linear(16, 1), "scaled": nn.Linear(16, 1), "largest": nn.Linear(16, 4)}
network = al.MultiTaskNetwork(None, [layer], heads)

gates = set(layer.allocation.parameters())
weights = [p for p in network.parameters() if p not in gates]
groups = [
    {"params": weights, "lr": 0.01},
    {"params": list(gates), "lr": 0.05, "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups)
for _ in range(300):
    for task, loss_function in losses.items():
        rows = torch.randint(500, (32,))  # the last 100 are for the test
        loss = loss_function(network(x[rows], task), targets[task][rows])
        loss = loss + al.budget_penalty(network.probabilities(task), budget=0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

network.eval()  # each task now runs what it uses, and nothing is drawn
for task, row in zip(losses, al.task_embeddings(network), strict=True):
    test = losses[task](network(x[500:], task), targets[task][500:]).item()
    print(f"{task:<8} uses components {row.nonzero().flatten().tolist()}, test loss {test:.3f}")
