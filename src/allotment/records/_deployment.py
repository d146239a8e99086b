"""What the benchmarks of deployment measured: budgets, extracted networks, and new tasks."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._environment import Environment
from ._files import read_json, reading
from ._record import environment_from


@dataclass(frozen=True, kw_only=True)
class BudgetRow:
    """Networks trained under one budget, one for each seed; a task's numbers are means over tasks.

    Attributes:
        suite: What they were trained on.
        cost: What the budget counts: "count" or "flops".
        budget: Share of the cost that a task may take without a charge.
        scores: On the test splits, a mean over tasks, 0 to 1.
        shares_open: Of gates, 0 to 1.
        flops: Of a task's extracted network for one example.
        full_flops: Of the network with every component, for one example.
        milliseconds: Of a pass of a task's extracted network, by the size of the batch.
        full_milliseconds: Of the network with every component.
        trunk_flops: Of the network extracted for all tasks, for one example.
        sum_flops: Of the extracted networks of all tasks together.
        trunk_milliseconds: Of the network extracted for all tasks, by the size of the batch.
        sum_milliseconds: Of the extracted networks of all tasks, one after another.
    """

    suite: str
    cost: str
    budget: float
    scores: tuple[float, ...]
    shares_open: tuple[float, ...]
    flops: tuple[float, ...]
    full_flops: float
    milliseconds: dict[str, tuple[float, ...]]
    full_milliseconds: dict[str, tuple[float, ...]]
    trunk_flops: tuple[float, ...]
    sum_flops: tuple[float, ...]
    trunk_milliseconds: dict[str, tuple[float, ...]]
    sum_milliseconds: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class BudgetRecord:
    """What budgets cost and bring."""

    command: str
    description: str
    processor: str
    environment: Environment
    rows: tuple[BudgetRow, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class GrowthRow:
    """What a task that came later reached in one way, with so many training examples."""

    suite: str
    task: str
    way: str
    n_examples: int
    scores: tuple[float, ...]  # on its test split, 0 to 1, one for each seed


@dataclass(frozen=True, kw_only=True)
class GrowthRecord:
    """A task that came after others, learnt in several ways."""

    command: str
    description: str
    processor: str
    environment: Environment
    rows: tuple[GrowthRow, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_budgets(path: Path) -> BudgetRecord:
    """Returns the record in a file that ``BudgetRecord.to_json`` gave the text of."""
    with reading(path, "A record of budgets"):
        value = read_json(path, "A record of budgets")
        environment = environment_from(value["environment"])
        rows = tuple(BudgetRow(**_with_tuples(row)) for row in value["rows"])
        return BudgetRecord(**value | {"environment": environment, "rows": rows})


def read_growth(path: Path) -> GrowthRecord:
    """Returns the record in a file that ``GrowthRecord.to_json`` gave the text of."""
    with reading(path, "A record of growth"):
        value = read_json(path, "A record of growth")
        environment = environment_from(value["environment"])
        rows = tuple(GrowthRow(**_with_tuples(row)) for row in value["rows"])
        return GrowthRecord(**value | {"environment": environment, "rows": rows})


def _with_tuples(value: Any) -> Any:
    """Returns a value with tuples in the place of lists, at any depth of dicts."""
    if isinstance(value, dict):
        return {name: _with_tuples(own) for name, own in value.items()}
    return tuple(value) if isinstance(value, list) else value
