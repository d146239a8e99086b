"""What the paper printed, as the report is told it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExpectedRow:
    """One row of an experiment's table: a method under a condition, whether it ran or not."""

    method: str
    label: str  # the method's published name
    condition: str = ""
    paper: str | None = None  # the value as printed, such as "96.8 ± 0.2"
    learnt: bool = False  # whether the method learns its allocation


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """An experiment as the report shows it: its rows, and what its number is called."""

    experiment: str
    title: str
    place: str  # in the paper, such as "Table I"; empty for an experiment of our own
    rows: tuple[ExpectedRow, ...]
    measure: str  # the label of the number, such as "Test accuracy"
    unit: str = ""  # "%" shows a share from 0 to 1 in percent
    structure: str = "the families of tasks"  # what there is to be found in the allocation
    window: int = 100  # rounds that a loss curve is smoothed over

    @property
    def factor(self) -> float:
        """What a recorded number is multiplied by to have this unit."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def measure_label(self) -> str:
        """The number's label with its unit."""
        return f"{self.measure}, {self.unit}" if self.unit else self.measure
