"""What the report is told of an experiment."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from .._checks import check_choice
from ..analysis import Estimate
from ..records import RunRecord
from ._drawing import NamedFigure
from ._table import Table

# From a method's name and its finished runs to a table that only this experiment has, if any.
ExtraTable = Callable[[str, Sequence[RunRecord]], Table | None]


@dataclass(frozen=True, kw_only=True)
class OwnSection:
    """What is shown of an experiment that has its own way of looking at its runs."""

    sentences: tuple[str, ...]
    tables: tuple[Table, ...] = ()
    brief: Table | None = None  # what fits a terminal
    figures: tuple[NamedFigure, ...] = ()


MakeSection = Callable[[Sequence[RunRecord]], OwnSection]  # from all runs, of which none may be


@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """One row of an experiment's table: a method under a condition, whether it ran or not."""

    method: str
    label: str  # the method's published name
    condition: str = ""
    paper: str | None = None  # the value as printed, such as "96.8 ± 0.2"
    paper_distinct: str | None = None  # number of distinct embeddings as printed
    learnt: bool = False  # whether the method learns its allocation
    is_ours: bool = True  # else others published it, and it is never run here

    @property
    def name(self) -> str:
        """The method's label, with the condition where there is one."""
        return f"{self.label} at {self.condition}" if self.condition else self.label


@dataclass(frozen=True, kw_only=True)
class ReportSpec:
    """An experiment as the report shows it: its rows, and what its number is called."""

    experiment: str
    title: str
    place: str  # in the paper, such as "Table I"; empty for an experiment of our own
    rows: tuple[ReportRow, ...]
    measure: str  # the label of the number, such as "Test accuracy"; of a loss, "Loss"
    shows: str = "measure"  # "error": 1 less the recorded accuracy, and that on validation too
    unit: str = ""  # "%" shows a share from 0 to 1 in percent
    least: float = -inf  # what a number without a unit cannot fall below, such as 0 for a loss
    structure: str = "the families of tasks"  # what there is to be found in the allocation
    remark: str = ""  # what somebody has to say of the results at hand, in Markdown
    rounds: int | None = None  # that each run should have; None: any number
    window: int = 100  # rounds that a loss curve is smoothed over, in short runs fewer
    shows_allocation: bool = True  # whether what the methods learnt to share is shown
    shown_task: str = ""  # whose gates are drawn over time; empty: the first task
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)  # of tasks, told apart
    baseline: str = ""  # the method that others are compared with; empty: with each other
    pairs: tuple[tuple[str, str], ...] = ()  # methods compared besides, each with its second
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # what others published, by name
    left_out: Mapping[str, str] = field(default_factory=dict)  # why, by a method's label
    over: str = ""  # the setting of which methods have different values, if they do
    extra_tables: tuple[ExtraTable, ...] = ()  # made for each method that learns its allocation
    own: MakeSection | None = None  # what is shown in place of everything else

    def __post_init__(self) -> None:
        check_choice("shows", self.shows, ("measure", "error"))
        for name in [name for pair in self.pairs for name in pair]:
            check_choice("pairs", name, [row.method for row in self.rows])

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> "ReportSpec":
        """Returns what `to_record` gave, as JSON holds it."""
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        return cls(
            **known
            | {
                "least": -inf if value["least"] is None else value["least"],
                "rows": tuple(ReportRow(**row) for row in value["rows"]),
                "pairs": tuple((first, second) for first, second in value["pairs"]),
            }
        )

    def to_record(self) -> dict[str, Any]:
        """Returns it by the names of its fields; functions of one's own are left out."""
        values = asdict(self)
        del values["extra_tables"], values["own"]
        return values

    @property
    def shows_error(self) -> bool:
        """Whether the number is an error, for which less is better."""
        return self.shows == "error"

    @property
    def factor(self) -> float:
        """What a recorded number is multiplied by to have this unit."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value that the number can have, as it is shown."""
        return (0.0, 100.0) if self.unit == "%" else (self.least, inf)

    def shown(self, value: Estimate) -> Estimate:
        """Returns a recorded number as it is shown: as an error, where wanted, and in its unit."""
        return (value.complement() if self.shows_error else value).scaled(self.factor)

    @property
    def measure_label(self) -> str:
        return f"{self.measure}, {self.unit}" if self.unit else self.measure
