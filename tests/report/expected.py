"""Expectations and runs for the tests of the report."""

from allotment.records import RunRecord
from allotment.report import ReportRow, ReportSpec
from tests.records.made_up import PAIRS, a_header, a_record, an_outcome

TWO_PAIRS = ReportSpec(
    experiment="two_pairs",
    title="Two pairs of tasks",
    place="Appendix",
    measure="Loss",
    least=0.0,
    structure="the two pairs",
    rows=(
        ReportRow(method="no_sharing", label="No sharing"),
        ReportRow(method="gumbel", label="Gumbel-Matrix", learnt=True),
        ReportRow(method="shared_bottom", label="Shared bottom", paper="fails"),
    ),
)

MNIST = ReportSpec(
    experiment="mnist",
    title="Four MNISTs",
    place="Table I",
    measure="Test accuracy",
    unit="%",
    rows=(
        ReportRow(method="shared_bottom", label="Shared bottom", paper="95.7 ± 0.5"),
        ReportRow(method="gumbel", label="Gumbel-Matrix", paper="96.8 ± 0.2", learnt=True),
    ),
)


def runs(method: str, values: list[float], *, recovered: int = 0) -> list[RunRecord]:
    """Runs of two pairs that end at these losses, the first few of which found the pairs."""
    matrices = [PAIRS if seed < recovered else PAIRS[[0, 2, 0, 2]] for seed in range(len(values))]
    return [
        a_record(
            a_header(method=method, seed=seed),
            an_outcome(final_loss=value, matrix=matrix, probabilities=0.1 + 0.8 * matrix),
        )
        for seed, (value, matrix) in enumerate(zip(values, matrices, strict=True))
    ]
