"""Where the time of a training step went, as a profiler saw it."""

from dataclasses import dataclass
from pathlib import Path

from ._benchmarks import Measured, read_measured
from ._environment import Environment


@dataclass(frozen=True, kw_only=True)
class ProfilePart:
    """What operations of one kind take.

    >>> from allotment.records import ProfilePart
    >>> ProfilePart(kind="convolutions", milliseconds=1.2, n_calls=96).n_calls
    96

    Attributes:
        kind: Of the operations.
        milliseconds: Of a task batch of one run, added up, whatever else runs meanwhile.
        n_calls: For a task batch of all runs.
    """

    kind: str
    milliseconds: float
    n_calls: float


@dataclass(frozen=True, kw_only=True)
class ProfileRecord(Measured):
    """Where the time of a training step goes: milliseconds of a task batch of one run.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from allotment.records import ProfileRecord, describe_environment, read_profile
    >>> record = ProfileRecord(
    ...     command="python benchmarks/profiled.py",
    ...     label="four runs",
    ...     precision="bfloat16",
    ...     environment=describe_environment("cpu"),
    ...     milliseconds=2.5,
    ...     profiled=2.9,
    ...     busy=2.6,
    ...     parts=(),
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "profile.json")
    ...     _ = path.write_text(record.to_json())
    ...     read_profile(path) == record
    True

    Attributes:
        command: What measured it.
        label: The way of training.
        precision: Of products.
        environment: Where.
        milliseconds: Of a step without the profiler.
        profiled: Of a step with it.
        busy: Of these, those in which any operation ran.
        parts: Kinds of operations, the longest first.
    """

    command: str
    label: str
    precision: str
    environment: Environment
    milliseconds: float
    profiled: float
    busy: float
    parts: tuple[ProfilePart, ...]


def read_profile(path: Path) -> ProfileRecord:
    """Returns the record in a file that ``ProfileRecord.to_json`` gave the text of.

    >>> from pathlib import Path
    >>> from allotment.records import RecordError, read_profile
    >>> try:
    ...     read_profile(Path("none.json"))
    ... except RecordError as error:
    ...     print(str(error)[:40])
    A profile should be readable. Found `non

    Args:
        path: Of the file.
    """
    return read_measured(ProfileRecord, path, "A profile", {"parts": ProfilePart})
