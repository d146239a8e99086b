"""Sentences of any length from a DataLoader for each task: padded, and padding does not count."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import allotment as al

N_WORDS = 15
Sentence = tuple[Tensor, int]  # the numbers of its words, from 1 on, and a label
LABELS = {
    "has word 3": lambda words: int((words == 3).any()),
    "has word 3 or 4": lambda words: int(((words == 3) | (words == 4)).any()),
    "is long": lambda words: int(len(words) > 8),
}


def sentences(task: str, n: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 16, (n,), generator=generator).tolist()
    made = [torch.randint(1, N_WORDS + 1, (length,), generator=generator) for length in lengths]
    return [(words, LABELS[task](words)) for words in made]


def padded(batch: list[Sentence]) -> tuple[Tensor, Tensor]:
    words = pad_sequence([words for words, _ in batch], batch_first=True)  # 0 where there is none
    return words, torch.tensor([label for _, label in batch])


class SumOfWords(nn.Module):
    """Embeds words and adds them up, padding left out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(N_WORDS + 1, 24, padding_idx=0)

    def forward(self, words: Tensor) -> Tensor:
        return torch.relu(self.table(words).sum(1))


torch.manual_seed(0)
tasks = [
    al.Task(
        name,
        train=DataLoader(sentences(name, 2_000, n), batch_size=64, shuffle=True, collate_fn=padded),
        test=DataLoader(sentences(name, 500, 100 + n), batch_size=100, collate_fn=padded),
    )
    for n, name in enumerate(LABELS)
]
components = [nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(3, 4))
network = al.MultiTaskNetwork(
    SumOfWords(), [layer], {task.name: nn.Linear(24, 2) for task in tasks}
)
settings = al.TrainingSettings(rounds=150, optimization=al.Optimization(learning_rate=0.01))
print(al.plan([al.Run(network, tasks, 0, settings)]), "\n")  # how it is computed, and why
print(al.fit(network, tasks, settings))
