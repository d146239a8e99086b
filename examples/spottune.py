"""SpotTune: each example takes a block as it was trained before, or a copy that is tuned.

From Guo et al. 2019, "SpotTune: Transfer Learning through Adaptive Fine-tuning". There a small
network looks at the image and decides about all blocks at once, for one task; here each block looks
at its own input, and two tasks share the tuned copies.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import allotment as al
from allotment.allocation import GumbelByExample


class Block(nn.Module):
    """A residual block, as anybody writes it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.inside(x)
        return y


class OneOfTwo(al.Allocation):
    """One gate for each example: shut, it takes the first component, and open the second."""

    sees_examples = True

    def __init__(self, n_tasks: int, n_components: int, *, n_features: int) -> None:
        super().__init__(n_tasks, n_components)
        self.second = GumbelByExample(n_tasks, 1, n_features=n_features, reduce="sum")
        self.n_noise = self.second.n_noise

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return self._both(self.second.weights(task, x, noise=noise))  # [B, 2]

    def matrix(self) -> Tensor:
        return self._both(self.second.matrix())

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return self._both(self.second.probabilities(task))

    def _both(self, second: Tensor) -> Tensor:
        return torch.cat([1 - second, second], dim=-1)


def known(x: Tensor) -> Tensor:
    return torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]


def new(x: Tensor) -> Tensor:
    return torch.cos(2 * x[:, 3:4]) - x[:, 1:2]


# Before: one function, from many examples.
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), Block(32), Block(32))
head = nn.Linear(32, 1)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.003)
for _ in range(600):
    x = torch.randn(128, 8)
    optimizer.zero_grad()
    mse_loss(head(model(x)), known(x)).backward()
    optimizer.step()

# Now: two tasks, each of which has another answer for some examples, and few of these.
x = torch.randn(1_400, 8)
changed = {"a": x[:, 7:] > 0.5, "b": x[:, 7:] < -0.5}
targets = {name: torch.where(own, new(x), known(x)) for name, own in changed.items()}
tasks = [al.Task(name, (x[:400], y[:400]), test=(x[400:], y[400:])) for name, y in targets.items()]
network = al.modularize(
    model,
    {"1": 2, "2": 2},  # both blocks: as they are, and a copy
    heads={name: nn.Linear(32, 1) for name in targets},
    allocation=partial(OneOfTwo, n_features=32),
    freeze=True,
)
for layer in network.modular_layers:
    layer.components[0].requires_grad_(False)  # the block as it was
settings = al.TrainingSettings(
    rounds=300,
    optimization=al.Optimization(learning_rate=0.003, allocation_learning_rate=0.03),
)
result = al.fit(network, tasks, settings)

network.eval()
for task, name in enumerate(targets):
    with torch.no_grad(), al.for_task(task) as running:
        network.body(x[400:])  # leaves in `running` what each example was given
    shares = " and ".join(f"{used.weights[:, 1].mean():.0%}" for used in running.used)
    print(f"task {name}: {shares} of its test examples take the tuned copy of the two blocks")
print(result)
