"""Modular layers inside the blocks of a residual network, on the digits of scikit-learn."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import allotment as al


class Block(nn.Module):
    """As anybody writes it: it knows nothing of tasks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.conv2(torch.relu(self.norm(self.conv1(x)))))


torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images).float().view(-1, 1, 8, 8) / 16, torch.tensor(labels)
has_loop = torch.isin(labels, torch.tensor([0, 6, 8, 9])).long()
kinds = {"digit": labels, "is odd": labels % 2, "has a loop": has_loop}
tasks = [
    al.Task(name, (images[:1200], y[:1200]), test=(images[1200:], y[1200:]))
    for name, y in kinds.items()
]

pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), Block(16), Block(16), pool)
network = al.modularize(
    model,
    {"*.conv2": 3},  # the second convolution of every block becomes three
    heads={task.name: nn.Linear(64, task.n_outputs) for task in tasks},
)
settings = al.TrainingSettings(
    rounds=100,
    batch_size=32,
    optimization=al.Optimization(learning_rate=0.01, allocation_learning_rate=0.03),
    penalties=al.Penalties(budget=0.6, disconnect_weight=0.5),
)
print(al.fit(network, tasks, settings))  # "#" is a component that the task uses, "." is none
