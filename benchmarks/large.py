"""Trains a transformer of over 300 million parameters on 32 tasks of synthetic text, and times it.

Each feed-forward layer has 64 components under learnt gates. The same network is trained by
Lightning's Trainer on one device, under DDP and under FSDP (one process each), and by `train`.
"""

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
import allotment as al
from allotment.experiments import device_name
from allotment.records import LargeRecord, LargeWay, describe_environment
from allotment.report import large_table
from benchmarks.measurement import write

N_TASKS, N_FAMILIES, N_CLASSES = 32, 4, 8
WAYS = ("auto", "ddp", "fsdp", "train")
UNTIMED = 10  # steps before the clock starts
ROUNDS_PER_MARK = 10  # after so many `train` tells of its progress


class FeedForward(nn.Module):
    """A narrow feed-forward block; many side by side are computed as one wide one."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(F.gelu(self.up(x)))
        return y

    def forward_mixed(self, stacked: dict[str, Tensor], weights: Tensor, x: Tensor) -> Tensor:
        """Returns the weighted sum over components, given their parameters ``[C, ...]``.

        A weight scales the hidden features of its component, so that the sum is inside a product.
        """
        hidden = stacked["up.bias"].shape[1]
        h = F.gelu(F.linear(x, stacked["up.weight"].flatten(0, 1), stacked["up.bias"].flatten()))
        h = h * weights.repeat_interleave(hidden).to(h.dtype)
        down = stacked["down.weight"].permute(1, 0, 2).flatten(1)
        return F.linear(h, down, weights @ stacked["down.bias"])


class Block(nn.Module):
    """Attention and a modular feed-forward layer, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, n_components: int, hidden: int) -> None:
        super().__init__()
        self.n_heads = width // 64
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        gates = al.GumbelMatrix(N_TASKS, n_components, p_init=0.9)
        self.feed_forward = al.ModularLayer(
            [FeedForward(width, hidden) for _ in range(n_components)], gates
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        found = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        y: Tensor = x + self.feed_forward(self.norm2(x))
        return y


class Mean(nn.Module):
    """The mean over tokens, normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.mean(1))
        return y


class Embedding(nn.Module):
    """Tokens and their places."""

    def __init__(self, n_tokens: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.tokens(x) + self.places
        return y


def network(options: argparse.Namespace) -> al.MultiTaskNetwork:
    """Returns the transformer, with a head for each task."""
    torch.manual_seed(0)
    width = options.width
    blocks = [Block(width, options.components, options.hidden) for _ in range(options.depth)]
    heads = {f"task {n}": nn.Linear(width, N_CLASSES) for n in range(N_TASKS)}
    stem = Embedding(options.vocabulary, options.length, width)
    return al.MultiTaskNetwork(stem, [*blocks, Mean(width)], heads)


def synthetic_text(options: argparse.Namespace) -> list[al.Task]:
    """Returns tasks that ask what a text is about; tasks of a family share the words of a topic."""
    generator = torch.Generator().manual_seed(0)
    n, size = options.examples, options.vocabulary // N_CLASSES
    tasks = []
    for number in range(N_TASKS):
        family = torch.Generator().manual_seed(1 + number % N_FAMILIES)
        words = torch.randperm(options.vocabulary, generator=family)
        topics = torch.randint(N_CLASSES, (n,), generator=generator)
        any_word = torch.randint(options.vocabulary, (n, options.length), generator=generator)
        own = topics[:, None] * size + any_word % size
        is_own = torch.rand(n, options.length, generator=generator) < 0.3
        tasks.append(al.Task(f"task {number}", (words[torch.where(is_own, own, any_word)], topics)))
    return tasks


def under_lightning(strategy: str, options: argparse.Namespace) -> Iterator[None]:
    """Yields after every step of a Trainer; the steps run in this thread, by a callback."""
    from lightning import Callback, Trainer
    from lightning.pytorch.strategies import FSDPStrategy

    from allotment.lightning import MultiTaskData, MultiTaskModule

    settings = settings_of(options)
    made, tasks, marks = network(options), synthetic_text(options), options.marks

    class Clock(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            marks.append(now(options.device))
            options.losses.append(float(outputs["loss"]))

    chosen: Any = strategy
    if strategy == "fsdp":
        chosen = FSDPStrategy(auto_wrap_policy={Block}, use_orig_params=True)
    trainer = Trainer(
        accelerator="gpu" if options.device == "cuda" else "cpu",
        devices=1,
        strategy=chosen,
        precision="bf16-mixed",
        max_steps=options.steps if strategy == "auto" else min(options.steps, options.timed),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Clock()],
    )
    trainer.fit(MultiTaskModule(made, tasks, settings), MultiTaskData(tasks, settings))
    yield


def by_train(options: argparse.Namespace) -> Iterator[None]:
    """Trains by `train`, which tells of its progress every ten rounds.

    Its own Adam takes the same steps as that of the others, and can be part of a CUDA graph.
    """
    settings = settings_of(options).changed(mixed_precision="bfloat16", optimizer=None)
    run = al.Run(network(options), synthetic_text(options), 0, settings)
    for progress in al.train([run], device=options.device):
        if progress.outcomes is None:  # the last one tells how it ended, and of no more rounds
            options.marks.append(now(options.device))
            options.losses.append(float(progress.losses[0]))
        yield


def settings_of(options: argparse.Namespace) -> al.TrainingSettings:
    """Returns how all ways train."""
    optimization = al.Optimization(
        learning_rate=options.rate,
        allocation_learning_rate=1e-2,
        lr_schedule=partial(warmed_up, steps=options.warm_up),
        optimizer=fused_adam,
    )
    return al.TrainingSettings(
        rounds=max(options.steps // N_TASKS, 1),
        batch_size=options.batch,
        optimization=optimization,
    )


def fused_adam(groups: Any) -> torch.optim.Optimizer:
    """Returns the optimizer of what trains under Lightning."""
    return torch.optim.Adam(groups, fused=True)


def warmed_up(optimizer: torch.optim.Optimizer, *, steps: int) -> LambdaLR:
    """Returns a schedule whose rates rise over the first steps, and then stay."""
    return LambdaLR(optimizer, lambda step: min((step + 1) / steps, 1.0))


def now(device: str) -> float:
    """Returns the time, after all work so far."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def measured(
    name: str, train: Callable[[], Iterator[None]], steps_per_mark: int, options: argparse.Namespace
) -> LargeWay:
    """Trains one way and returns its step time, peak memory and losses."""
    options.marks, options.losses = [], []
    is_gpu = options.device == "cuda"
    if is_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        for _ in train():
            pass
    except Exception as error:  # one way that fails leaves the others their measurement
        traceback.print_exc()
        return LargeWay(name=name, error=f"{type(error).__name__}: {error}"[:300])
    finally:
        if torch.distributed.is_initialized():  # so that the next strategy begins its own
            torch.distributed.destroy_process_group()
    marks = options.marks[UNTIMED // steps_per_mark :]
    gaps = [1e3 * (b - a) / steps_per_mark for a, b in pairwise(marks)]
    print(f"{name}: {median(gaps):.1f} ms a step", flush=True)
    n_told = max(N_TASKS // steps_per_mark, 1)  # losses of a round, or of the rounds of an entry
    return LargeWay(
        name=name,
        milliseconds=median(gaps),
        fastest=min(gaps),
        slowest=max(gaps),
        n_steps=len(gaps) * steps_per_mark,
        gibibytes=torch.cuda.max_memory_allocated() / 2**30 if is_gpu else None,
        first_loss=mean(options.losses[:n_told]),
        last_loss=mean(options.losses[-n_told:]),
    )


def floor(options: argparse.Namespace) -> float:
    """Returns the milliseconds of a step's arithmetic, at the rate of a large bfloat16 product."""
    tokens = options.batch * options.length
    layers = (".qkv.", ".out.", ".components.")
    sizes = [p.numel() for name, p in network(options).named_parameters() if is_in(name, layers)]
    attention = 12 * options.depth * options.length * options.width * tokens
    n = 8_192 if options.device == "cuda" else 1_024
    a = torch.randn(n, n, device=options.device, dtype=torch.bfloat16)
    times = []
    for _ in range(12):
        start = now(options.device)
        a @ a
        times.append(now(options.device) - start)
    flops = 6 * tokens * sum(sizes) + attention
    return float(1e3 * flops * median(times[2:]) / (2 * n**3))


def is_in(name: str, parts: tuple[str, ...]) -> bool:
    """Tells whether a parameter's name has one of these parts."""
    return any(part in name for part in parts)


def record_of(options: argparse.Namespace, ways: list[LargeWay], least: float) -> LargeRecord:
    """Returns what is kept."""
    sizes = {name: p.numel() for name, p in network(options).named_parameters()}
    own = sum(n for name, n in sizes.items() if is_in(name, ("heads.", "logits")))
    return LargeRecord(
        command="python benchmarks/large.py " + " ".join(sys.argv[1:]),
        description=f"a transformer of {options.depth} layers, width {options.width:,}, each with "
        f"{options.components} components of {options.hidden} hidden features under learnt gates; "
        f"{N_TASKS} tasks, steps of {options.batch} texts of {options.length} tokens of a "
        f"vocabulary of {options.vocabulary:,}, bfloat16",
        environment=describe_environment(device_name(options.device)),
        n_parameters=sum(sizes.values()),
        n_tasks=N_TASKS,
        n_per_task=own // N_TASKS,
        n_tokens=options.batch * options.length,
        floor=least,
        ways=tuple(ways),
    )


def main() -> int:
    """Measures all ways, prints their table, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=1_280)
    parser.add_argument("--timed", type=int, default=96, help="steps of DDP and FSDP")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-4, help="of learning")
    parser.add_argument("--warm-up", type=int, default=96, help="steps over which rates rise")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=1_024)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=160, help="of each component")
    parser.add_argument("--vocabulary", type=int, default=512)
    parser.add_argument("--examples", type=int, default=256, help="of each task")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    least = floor(options)
    ways: list[LargeWay] = []
    for name in options.ways:
        if name == "train":
            ways.append(
                measured("train", partial(by_train, options), ROUNDS_PER_MARK * N_TASKS, options)
            )
        else:
            train = partial(under_lightning, name, options)
            ways.append(measured(f"Lightning, {name}", train, 1, options))
        record = record_of(options, ways, least)
        write(record, options.json)  # after each, so that one that is cut off costs no other
    print(f"{record.n_parameters:,} parameters; floor {least:.1f} ms\n{large_table(record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
