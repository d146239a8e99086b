"""The commands that turn records into pages."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiments import EXPERIMENTS
from ..records import RecordError, RunRecord, keep, read_kept, read_runs, unfinished_runs

if TYPE_CHECKING:
    from ..report import Expectation


def report(options: Namespace) -> int:
    """Writes one HTML page from the runs in a folder."""
    write_page(options.runs, options.output)
    print(f"Report: {options.output}")
    return 0


def write_page(runs: Path, page: Path) -> None:
    """Writes the page of the runs in a folder."""
    from ..report import html_page  # here, since figures take long to import

    records = _records(runs)
    if page.is_dir():
        raise IsADirectoryError(f"`output` should be a file. Found the folder {page}.")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(html_page(records, _expectations(records)), encoding="utf-8")


def keep_runs(options: Namespace) -> int:
    """Adds finished runs to the kept results."""
    for folder in options.runs:
        for path in keep(_records(folder), options.results):
            print(f"Kept: {path}")
    return 0


def docs(options: Namespace) -> int:
    """Writes the results page and its figures from the kept results."""
    from ..report import markdown_results, write_figures  # here, for the same reason

    records = read_kept(options.root / "results")
    expectations = _expectations(records)
    page = options.root / "docs" / "results.md"
    page.write_text(markdown_results(records, expectations), encoding="utf-8")
    figures = write_figures(records, expectations, options.root / "docs" / "figures")
    print(f"Wrote {page} and {len(figures)} figures.")
    return 0


def _records(folder: Path) -> list[RunRecord]:
    if not folder.is_dir():
        raise RecordError(f"`runs` should be a folder with runs in it. Found no folder {folder}.")
    records = read_runs(folder)
    if not records:
        n_unfinished = len(unfinished_runs(folder))
        raise RecordError(
            f"`runs` should hold at least one finished run. Found none in {folder}, "
            f"and {n_unfinished} that did not reach their end."
        )
    return records


def _expectations(records: list[RunRecord]) -> list["Expectation"]:
    """Returns what was expected of the experiments that the records are of, in their order."""
    present = {record.header.experiment for record in records}
    return [e.expectation() for name, e in EXPERIMENTS.items() if name in present]
