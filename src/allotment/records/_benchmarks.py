"""What the benchmarks measured: speed, how a step grows, budgets, and tasks that come later."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ._environment import Environment
from ._files import read_json, reading
from ._record import environment_from


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A record that is a file of its own."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


_Kind = TypeVar("_Kind", bound=Measured)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one way of training took, segment by segment."""

    label: str
    n_runs: int  # trained together
    warm_up_seconds: float  # building, recording and the first rounds; in no segment
    milliseconds: tuple[float, ...]  # of one task batch of one run, for each segment
    precision: str = "float32"  # of products
    peak_gibibytes: float | None = None  # of a GPU's memory, over what there was before
    is_joint: bool = False  # whether an optimizer step takes a batch of every task


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What one step of one run needs at least, and the rates at which the device gives it."""

    precision: str
    gigaflops: float
    gigabytes: float
    gigaflops_per_second: float
    gigabytes_per_second: float

    @property
    def arithmetic(self) -> float:
        """Milliseconds of a step if only arithmetic took time."""
        return 1000 * self.gigaflops / self.gigaflops_per_second

    @property
    def memory(self) -> float:
        """Milliseconds of a step if only memory took time."""
        return 1000 * self.gigabytes / self.gigabytes_per_second


@dataclass(frozen=True, kw_only=True)
class SpeedRecord(Measured):
    """Ways of training measured in turns in one process, the reference first."""

    benchmark: str
    command: str
    processor: str
    environment: Environment
    timings: tuple[Timing, ...]
    floors: tuple[Floor, ...] = ()

    def ratios(self, timing: Timing) -> list[float]:
        """Returns how many times faster than the reference ``timing`` was in each segment."""
        pairs = zip(self.timings[0].milliseconds, timing.milliseconds, strict=True)
        return [reference / ours for reference, ours in pairs]


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """What a step of all runs took where one thing had this number."""

    varied: str  # "tasks", "components" or "runs"
    number: int
    milliseconds: float
    mebibytes: float | None = None  # the most that was held, where that was measured


@dataclass(frozen=True, kw_only=True)
class ScalingRecord(Measured):
    """How a step grows with one thing, the others being as usual."""

    command: str
    description: str  # of the network and of what is timed
    processor: str
    environment: Environment
    rows: tuple[ScalingRow, ...]


@dataclass(frozen=True, kw_only=True)
class LargeWay:
    """What a step of a large network took, trained in one way; or why it could not be."""

    name: str
    milliseconds: float = 0.0  # the median step
    fastest: float = 0.0
    slowest: float = 0.0
    n_steps: int = 0
    gibibytes: float | None = None  # the most memory of a GPU that was held
    first_loss: float = 0.0  # mean of a round
    last_loss: float = 0.0
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class LargeRecord(Measured):
    """A large network, trained in several ways on one device."""

    command: str
    description: str
    environment: Environment
    n_parameters: int
    n_tasks: int
    n_per_task: int  # parameters of one task: its head and its gates
    n_tokens: int  # of a step
    floor: float  # milliseconds of its arithmetic, at the rate of a large product
    ways: tuple[LargeWay, ...]


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
class BudgetRecord(Measured):
    """What budgets cost and bring."""

    command: str
    description: str
    processor: str
    environment: Environment
    rows: tuple[BudgetRow, ...]


@dataclass(frozen=True, kw_only=True)
class GrowthRow:
    """What a task that came later reached in one way, with so many training examples."""

    suite: str
    task: str
    way: str
    n_examples: int
    scores: tuple[float, ...]  # on its test split, 0 to 1, one for each seed


@dataclass(frozen=True, kw_only=True)
class GrowthRecord(Measured):
    """A task that came after others, learnt in several ways."""

    command: str
    description: str
    processor: str
    environment: Environment
    rows: tuple[GrowthRow, ...]


def read_speed(path: Path) -> SpeedRecord:
    """Returns the record in a file that ``SpeedRecord.to_json`` gave the text of."""
    parts = {"timings": Timing, "floors": Floor}
    return read_measured(SpeedRecord, path, "A record of speed", parts, older={"floors": []})


def read_scaling(path: Path) -> ScalingRecord:
    """Returns the record in a file that ``ScalingRecord.to_json`` gave the text of."""
    return read_measured(ScalingRecord, path, "A record of scaling", {"rows": ScalingRow})


def read_large(path: Path) -> LargeRecord:
    """Returns the record in a file that ``LargeRecord.to_json`` gave the text of."""
    return read_measured(LargeRecord, path, "A record of a large network", {"ways": LargeWay})


def read_budgets(path: Path) -> BudgetRecord:
    """Returns the record in a file that ``BudgetRecord.to_json`` gave the text of."""
    return read_measured(BudgetRecord, path, "A record of budgets", {"rows": BudgetRow})


def read_growth(path: Path) -> GrowthRecord:
    """Returns the record in a file that ``GrowthRecord.to_json`` gave the text of."""
    return read_measured(GrowthRecord, path, "A record of growth", {"rows": GrowthRow})


def read_measured(
    kind: type[_Kind],
    path: Path,
    what: str,
    parts: Mapping[str, type],
    older: Mapping[str, Any] | None = None,
) -> _Kind:
    """Returns a record, given the classes of its parts and what older files do not have."""
    with reading(path, what):
        value = {**(older or {}), **read_json(path, what)}
        for name, part in parts.items():
            value[name] = tuple(part(**_with_tuples(each)) for each in value[name])
        return kind(**value | {"environment": environment_from(value["environment"])})


def _with_tuples(value: Any) -> Any:
    """Returns a value with tuples in the place of lists, at any depth of dicts."""
    if isinstance(value, dict):
        return {name: _with_tuples(own) for name, own in value.items()}
    return tuple(value) if isinstance(value, list) else value
