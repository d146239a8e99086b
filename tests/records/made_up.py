"""Runs that never took place, for the tests of records, analysis and report."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from allotment._schema import Evaluation, Floats, LogEntry, Outcome, RunHeader
from allotment.records import RunRecord
from allotment.records._environment import Environment
from allotment.records._record import Snapshots
from allotment.settings import Optimization, TrainingSettings

PAIRS = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]], dtype=float)

SETTINGS = asdict(TrainingSettings(batch_size=64, optimization=Optimization(learning_rate=0.01)))

ENVIRONMENT = Environment(
    allotment="0.1.0",
    python="3.11.9",
    torch="2.13.0",
    numpy="2.4.0",
    platform="Linux",
    device="a made-up device",
    n_threads=2,
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty=False,
    started="2026-01-02T03:04:05+00:00",
)


def a_header(**changes: Any) -> RunHeader:
    """A run of four tasks in two pairs over one layer of four components."""
    values: dict[str, Any] = {
        "experiment": "two_pairs",
        "condition": "",
        "method": "gumbel",
        "seed": 0,
        "task_names": ("a1", "a2", "b1", "b2"),
        "families": ("pair a", "pair a", "pair b", "pair b"),
        "layer_sizes": (4,),
        "component_names": ("1", "2", "3", "4"),
        "component_kinds": ("dense",) * 4,
        "measure": "loss",
        "n_last_rounds": 300,
        "settings": {"training": SETTINGS},
        "command": "allotment run two_pairs",
    }
    return RunHeader(**values | changes)


def an_evaluation(accuracies: Floats | None = None, split: str = "test") -> Evaluation:
    n_tasks = 4 if accuracies is None else len(accuracies)
    return Evaluation(split=split, losses=np.full(n_tasks, 0.5), accuracies=accuracies)


def an_outcome(**changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "status": "finished",
        "failed_step": None,
        "rounds": 3000,
        "seconds": 12.5,
        "n_together": 5,
        "final_loss": 0.31,
        "best_round": None,
        "matrix": PAIRS,
        "probabilities": 0.05 + 0.9 * PAIRS,
        "validation": None,
        "test": None,
        "weights": {},
    }
    return Outcome(**values | changes)


def an_entry(**changes: Any) -> LogEntry:
    values: dict[str, Any] = {
        "round": 50,
        "losses": np.array([0.4, 0.3, 0.2, 0.1]),
        "probabilities": np.full((4, 4), 0.5),
        "share_active": 0.5,
    }
    return LogEntry(**values | changes)


def a_record(
    header: RunHeader | None = None, outcome: Outcome | None = None, **changes: Any
) -> RunRecord:
    """A run with a falling loss and gates that go from undecided to their last probabilities."""
    header = header or a_header()
    outcome = outcome or an_outcome()
    rounds = np.arange(50, outcome.rounds + 1, 50)
    way = rounds / outcome.rounds  # [n], from 0 to 1
    noise = np.random.default_rng(header.seed).normal(1.0, 0.02, (len(rounds), 1))
    values: dict[str, Any] = {
        "header": header,
        "environment": ENVIRONMENT,
        "rounds": rounds,
        "losses": (outcome.final_loss + np.exp(-5 * way))[:, None]
        * noise
        * np.linspace(0.9, 1.1, len(header.task_names)),
        "share_active": np.full(len(rounds), outcome.matrix.mean()),
        "validation": (),
        "snapshots": Snapshots(
            rounds=rounds,
            probabilities=0.5 + (outcome.probabilities - 0.5) * way[:, None, None],
        ),
        "outcome": outcome,
    }
    return RunRecord(**values | changes)


def loss_run(value: float, seed: int, **header: Any) -> RunRecord:
    return a_record(a_header(seed=seed, **header), an_outcome(final_loss=value))


def accuracy_run(accuracies: list[float], seed: int = 0, **header: Any) -> RunRecord:
    outcome = an_outcome(test=an_evaluation(np.array(accuracies)))
    return a_record(a_header(seed=seed, measure="accuracy", **header), outcome)


def failed_run(seed: int = 0, **header: Any) -> RunRecord:
    outcome = an_outcome(status="failed", failed_step=77, final_loss=float("nan"))
    return a_record(a_header(seed=seed, **header), outcome)


def flip(path: Path, place: float) -> None:
    """Flips one bit of a file, so far from its start as ``place``, from 0 to 1, says."""
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
