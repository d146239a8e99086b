"""From the runs of a map to its page."""

from dataclasses import replace
from pathlib import Path

from allotment.experiments import run_sweep
from allotment.records import read_kept
from tests.cli.conftest import Command
from tests.cli.test_commands import a_repository
from tests.experiments.test_joined import FEW, MORE, a_map

METHODS = ("no_sharing-0.01", "shared_bottom_mean-0.01", "gumbel-0.01", "gumbel-0.003")


def test_a_map_is_kept_without_curves_and_becomes_a_page_of_its_own(allotment: Command) -> None:
    sweep = a_map(Path("out"), FEW, MORE, n_runs=2)
    run_sweep(replace(sweep, methods=tuple(map(sweep.experiment.method, METHODS))))
    assert allotment("keep", "out").status == 0
    assert {len(record.rounds) for record in read_kept(Path("results"))} == {1}
    a_repository()
    assert allotment("docs").status == 0
    page = Path("docs/when.md").read_text()
    assert "Of 2 points with 4 tasks and width 16, learnt gates are better" in page
    assert "![What learnt gates gain" in page
    assert Path("docs/figures/map-gain.png").exists()
    assert "(docs/figures/map-gain.png)" in Path("README.md").read_text()
    assert "learning rate" not in Path("docs/results.md").read_text()
