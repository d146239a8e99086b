"""Compares low-rank updates under learnt gates with PEFT's Poly, on one frozen encoder.

A small transformer learns to fill in masked words of all training texts and is frozen. Then both
methods train the same number of adapters of the same rank in the same places, with a linear head
for each task, on the same batches, by the same loop. The learning rate of each method is chosen on
the validation texts of a seed that does not count.

Needs transformers and peft.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import peft
import torch
import transformers
from rich.console import Console
from rich.table import Table as RichTable
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
import allotment as al
from allotment.analysis import cosine_similarity
from benchmarks.measurement import processor_name
from benchmarks.poly_tasks import FAMILIES, LENGTH, MASK, N_VOCABULARY, PAD, TextTask, text_tasks

WIDTH = 64
PLACES = ("query", "value")  # of every attention layer
N_ADAPTERS, RANK = 4, 4
BATCH = 32
ROUTING_RATE = 0.1  # of gates and of Poly's router; with the rate of the adapters neither settles
RATES = (0.005, 0.01, 0.02)

Inputs = dict[str, Tensor]
Model = nn.Module  # from inputs and a task's index to logits


def encoder() -> transformers.BertModel:
    """Returns a small transformer with new weights."""
    config = transformers.BertConfig(
        vocab_size=N_VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=LENGTH,
        pad_token_id=PAD,
    )
    return transformers.BertModel(config, add_pooling_layer=False)


def pretrained(texts: Tensor, n_steps: int) -> "Sentence":
    """Returns an encoder that has learnt to fill in masked words, frozen."""
    torch.manual_seed(0)
    model, words = encoder(), nn.Linear(WIDTH, N_VOCABULARY)
    optimizer = torch.optim.Adam([*model.parameters(), *words.parameters()], lr=2e-3)
    for _ in range(n_steps):
        ids = texts[torch.randint(len(texts), (64,))]
        is_word = ids != PAD
        is_masked = is_word & (torch.rand(ids.shape) < 0.2)
        seen = model(ids.masked_fill(is_masked, MASK), is_word.long()).last_hidden_state
        loss = F.cross_entropy(words(seen[is_masked]), ids[is_masked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Sentence(model).requires_grad_(False)


class Sentence(nn.Module):
    """The mean of an encoder's features over the tokens of a text."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = self.base(input_ids, attention_mask).last_hidden_state
        is_token = attention_mask.unsqueeze(-1)
        mean: Tensor = (features * is_token).sum(1) / is_token.sum(1)
        return mean


class Poly(nn.Module):
    """PEFT's Poly on an encoder, and a linear head for each task."""

    def __init__(self, base: nn.Module, tasks: Sequence[TextTask]) -> None:
        super().__init__()
        config = peft.PolyConfig(
            r=RANK, n_tasks=len(tasks), n_skills=N_ADAPTERS, target_modules=list(PLACES)
        )
        # The tuner itself: without a task type, PEFT's wrapper does not pass `task_ids` on.
        self.encoder = peft.get_peft_model(deepcopy(base), config).base_model
        self.heads = nn.ModuleList(nn.Linear(WIDTH, task.n_classes) for task in tasks)

    def forward(self, x: Inputs, task: int) -> Tensor:
        ids = torch.full((len(x["input_ids"]),), task)
        y: Tensor = self.heads[task](self.encoder(**x, task_ids=ids))
        return y

    def shares(self) -> Tensor:
        """Returns how much of each adapter a task uses, the layers side by side, ``[T, C]``."""
        rows: list[Tensor] = [p for n, p in self.named_parameters() if "module_logits" in n]
        return torch.cat(rows, dim=1).sigmoid().detach()


def ours(base: nn.Module, tasks: Sequence[TextTask]) -> al.MultiTaskModel:
    """Returns low-rank updates under learnt gates on an encoder, and a head for each task."""
    return al.modularize(
        base,
        {f"base.encoder.layer.*.attention.self.{place}": N_ADAPTERS for place in PLACES},
        heads={task.name: nn.Linear(WIDTH, task.n_classes) for task in tasks},
        component="low_rank",
        rank=RANK,
    )


METHODS: dict[str, Callable[[nn.Module, Sequence[TextTask]], Model]] = {
    "PEFT's Poly": Poly,
    "allotment": ours,
}


class Training:
    """One method's training; every training with this seed sees the same batches."""

    def __init__(
        self, method: str, base: nn.Module, tasks: Sequence[TextTask], seed: int, rate: float
    ) -> None:
        torch.manual_seed(seed)
        self.model = METHODS[method](base, tasks)
        self.tasks = tasks
        learnt = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        routing = [p for name, p in learnt.items() if name.endswith("logits")]
        others = [p for name, p in learnt.items() if not name.endswith("logits")]
        groups: list[dict[str, Any]] = [
            {"params": others},
            {"params": routing, "lr": ROUTING_RATE},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=rate)
        self._draw = torch.Generator().manual_seed(seed)

    def rounds(self, n: int) -> None:
        """Takes a step on a batch of every task, ``n`` times."""
        self.model.train()
        for _ in range(n):
            for index, task in enumerate(self.tasks):
                texts = task.splits["train"]
                rows = torch.randint(len(texts.labels), (BATCH,), generator=self._draw)
                x, y = texts.batch(rows)
                loss = F.cross_entropy(self.model(x, index), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    @torch.no_grad()
    def accuracies(self, split: str) -> list[float]:
        """Returns the share of right answers of each task."""
        self.model.eval()
        found = []
        for index, task in enumerate(self.tasks):
            x, y = task.splits[split].batch(torch.arange(len(task.splits[split].labels)))
            found.append((self.model(x, index).argmax(1) == y).double().mean().item())
        return found

    def kept_bytes(self) -> int:
        """Returns how many bytes a pass keeps for its backward pass, beside parameters."""
        x, _ = self.tasks[0].splits["train"].batch(torch.arange(BATCH))
        held = {p.untyped_storage().data_ptr() for p in self.model.parameters()}
        kept: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in held:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.model.train()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            y = self.model(x, 0)
        total = sum(kept.values())
        del y
        return total


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one method gave, over seeds and segments."""

    method: str
    learning_rate: float
    accuracies: dict[str, list[float]]  # on test texts, by task, one for each seed
    milliseconds: list[float]  # of a step, for each segment
    kept_kibibytes: float  # for the backward pass of a batch
    n_learnt: int  # parameters
    nearest_is_own: list[float]  # share of tasks whose most similar task is of their family

    @property
    def means(self) -> list[float]:
        """The mean accuracy over tasks, for each seed."""
        return [mean(row) for row in zip(*self.accuracies.values(), strict=True)]


def families_found(shares: Tensor) -> float:
    """Returns the share of tasks whose most similar task is of their own family."""
    similarity = torch.as_tensor(cosine_similarity(shares.double().numpy())).fill_diagonal_(-1.0)
    nearest = similarity.argmax(1).tolist()
    return mean(FAMILIES[a] == FAMILIES[b] for a, b in enumerate(nearest))


def best_rate(method: str, base: nn.Module, tasks: Sequence[TextTask], n_rounds: int) -> float:
    """Returns the learning rate with the best validation accuracy, for a seed of its own."""
    found = {}
    for rate in RATES:
        training = Training(method, base, tasks, 1_000, rate)
        training.rounds(n_rounds)
        found[rate] = mean(training.accuracies("validation"))
    return max(found, key=lambda rate: found[rate])


def measured(
    base: nn.Module, tasks: Sequence[TextTask], chosen: argparse.Namespace
) -> list[Result]:
    """Returns the results of all methods, which take turns, segment by segment."""
    rates = {method: best_rate(method, base, tasks, chosen.rounds) for method in METHODS}
    accuracies: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    families: dict[str, list[float]] = {method: [] for method in METHODS}
    trainings: dict[str, Training] = {}
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        trainings = {m: Training(m, base, tasks, seed, rate) for m, rate in rates.items()}
        for _ in range(chosen.rounds // 10):
            for method, training in trainings.items():
                started = time.perf_counter()
                training.rounds(10)
                times[method].append(100 * (time.perf_counter() - started) / len(tasks))
        for method, training in trainings.items():
            accuracies[method].append(training.accuracies("test"))
            model = training.model
            shares = model.shares() if isinstance(model, Poly) else al.task_embeddings(model)
            families[method].append(families_found(shares))
    show_gates(trainings["allotment"].model, tasks)
    return [
        Result(
            method=method,
            learning_rate=rates[method],
            accuracies={
                task.name: list(column)
                for task, column in zip(tasks, zip(*accuracies[method], strict=True), strict=True)
            },
            milliseconds=times[method],
            kept_kibibytes=training.kept_bytes() / 1024,
            n_learnt=sum(p.numel() for p in training.model.parameters() if p.requires_grad),
            nearest_is_own=families[method],
        )
        for method, training in trainings.items()
    ]


def show_gates(model: nn.Module, tasks: Sequence[TextTask]) -> None:
    """Prints which adapters each task uses, a group of columns for each place."""
    print(f"Adapters in use, for each of {len(PLACES)} places in 3 layers, in the last seed:")
    for task, row in zip(tasks, al.task_embeddings(model), strict=True):
        groups = ["".join("#" if gate else "." for gate in part) for part in row.split(N_ADAPTERS)]
        print(f"  {task.name:<21} {' '.join(groups)}")


def table(results: Sequence[Result]) -> RichTable:
    """Returns a row for each thing that was measured, a column for each method."""
    shown = RichTable("", *(result.method for result in results), "ratio")

    def row(name: str, values: Sequence[float], form: str) -> None:
        ratio = "" if values[0] == 0 else f"{values[1] / values[0]:.2f}"
        shown.add_row(name, *(format(value, form) for value in values), ratio)

    for task in results[0].accuracies:
        row(f"accuracy, {task}", [mean(result.accuracies[task]) for result in results], ".3f")
    row("accuracy, all tasks", [mean(result.means) for result in results], ".3f")
    row("  sd over seeds", [stdev(result.means) for result in results], ".3f")
    row("ms a step, median", [median(result.milliseconds) for result in results], ".2f")
    row("KiB kept for backward", [result.kept_kibibytes for result in results], ".0f")
    row("parameters that learn", [result.n_learnt for result in results], ",d")
    row("nearest task of own family", [mean(r.nearest_is_own) for r in results], ".2f")
    row("learning rate", [result.learning_rate for result in results], "g")
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints a table, and writes a record where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=100, help="a batch of every task each")
    parser.add_argument("--pretraining", type=int, default=1_000, help="steps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the record")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    tasks, texts = text_tasks()
    results = measured(pretrained(texts, chosen.pretraining), tasks, chosen)
    Console().print(table(results))
    if chosen.json:
        versions = {m.__name__: m.__version__ for m in (torch, transformers, peft)}
        about = {"command": " ".join(sys.argv), "processor": processor_name(), "versions": versions}
        record = about | {"results": [asdict(result) for result in results]}
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
