"""What the benchmarks measured: records of speed, and of how a step grows with sizes."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ._environment import Environment
from ._files import read_json, reading
from ._record import environment_from


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
class SpeedRecord:
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

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """What a step of all runs took where one thing had this number."""

    varied: str  # "tasks", "components" or "runs"
    number: int
    milliseconds: float
    mebibytes: float | None = None  # the most that was held, where that was measured


@dataclass(frozen=True, kw_only=True)
class ScalingRecord:
    """How a step grows with one thing, the others being as usual."""

    command: str
    description: str  # of the network and of what is timed
    processor: str
    environment: Environment
    rows: tuple[ScalingRow, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


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
class LargeRecord:
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

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_large(path: Path) -> LargeRecord:
    """Returns the record in a file that ``LargeRecord.to_json`` gave the text of."""
    with reading(path, "A record of a large network"):
        value = read_json(path, "A record of a large network")
        ways = tuple(LargeWay(**way) for way in value["ways"])
        environment = environment_from(value["environment"])
        return LargeRecord(**value | {"environment": environment, "ways": ways})


def read_speed(path: Path) -> SpeedRecord:
    """Returns the record in a file that ``SpeedRecord.to_json`` gave the text of."""
    with reading(path, "A record of speed"):
        value = read_json(path, "A record of speed")
        timings = [
            each | {"milliseconds": tuple(each["milliseconds"])} for each in value["timings"]
        ]
        parts = {
            "environment": environment_from(value["environment"]),
            "timings": tuple(Timing(**timing) for timing in timings),
            "floors": tuple(Floor(**floor) for floor in value.get("floors", ())),
        }
        return SpeedRecord(**value | parts)


def read_scaling(path: Path) -> ScalingRecord:
    """Returns the record in a file that ``ScalingRecord.to_json`` gave the text of."""
    with reading(path, "A record of scaling"):
        value = read_json(path, "A record of scaling")
        rows = tuple(ScalingRow(**row) for row in value["rows"])
        environment = environment_from(value["environment"])
        return ScalingRecord(**value | {"environment": environment, "rows": rows})
