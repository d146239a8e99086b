"""Dict batches, as tokenizers and collators make them, from a DataLoader for each task."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import allotment as al

N_WORDS, LENGTH = 20, 12
LABELS: dict[str, Callable[[Tensor, Tensor], int]] = {
    "has a 3": lambda words, price: int((words == 3).any()),
    "has a 3 or 4": lambda words, price: int(((words == 3) | (words == 4)).any()),
    "is dear": lambda words, price: int(price > 0),
}


class Offers(Dataset[dict[str, Any]]):
    """Texts with a price; an example is a dict with "labels" among its keys."""

    def __init__(self, task: str, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.label = LABELS[task]
        self.words = torch.randint(N_WORDS, (n, LENGTH), generator=generator)
        self.lengths = torch.randint(2, LENGTH + 1, (n, 1), generator=generator)
        self.prices = torch.randn(n, 1, generator=generator)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: int) -> dict[str, Any]:
        mask = torch.arange(LENGTH) < self.lengths[row]
        label = self.label(self.words[row][mask], self.prices[row])
        inputs = {"words": self.words[row], "mask": mask, "price": self.prices[row]}
        return inputs | {"labels": label}


class Encoder(nn.Module):
    """Takes the entries of a batch by name, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.of_price = nn.Embedding(N_WORDS, 24), nn.Linear(1, 24)

    def forward(self, price: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        summed = (self.table(words) * mask.unsqueeze(-1)).sum(1)
        return torch.relu(summed + self.of_price(price))


torch.manual_seed(0)
tasks = [
    al.Task(
        name,
        train=DataLoader(Offers(name, 2_000, n), batch_size=64, shuffle=True),
        test=DataLoader(Offers(name, 500, 100 + n), batch_size=100),
    )
    for n, name in enumerate(LABELS)
]
components = [nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(3, 4))
network = al.MultiTaskNetwork(Encoder(), [layer], {name: nn.Linear(24, 2) for name in LABELS})
settings = al.TrainingSettings(rounds=150, optimization=al.Optimization(learning_rate=0.01))
print(al.fit(network, tasks, settings))

new = DataLoader(Offers("is dear", 5, seed=9), batch_size=2)
print(al.predict(network, new, "is dear").argmax(1))  # "labels" are left out
batch = next(iter(new))
labels = batch.pop("labels")
print(al.extract(network, "is dear")(**batch).argmax(1), labels)
