"""The report's page at its size limit: 300 runs of 500 tasks, its bytes and the time of a click.

    PYTHONPATH=src python -m benchmarks.page [--runs 300] [--tasks 500] [--components 32]

Writes a page of made-up runs, opens it in Chromium and prints how large it is and how long each
kind of click takes, until the browser has drawn what follows from it: the median and the longest.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from allotment._schema import Floats
from allotment.records import RunRecord
from allotment.report import html_page
from tests.browser.chromium import Browser, browser
from tests.records.made_up import a_header, a_record, an_evaluation, an_outcome

N_METHODS = 3
N_FAMILIES = 10
DRAWN = """(async () => {
  const drawn = () => Number(document.querySelector("#explorer").dataset.drawn);
  const before = drawn(), from = performance.now();
  const field = document.querySelector("%s");
  field.value = %s;
  field.dispatchEvent(new Event("change", { bubbles: true }));
  while (drawn() === before) await new Promise((done) => setTimeout(done));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));  // until painted
  return performance.now() - from;
})()"""
SLID = """(async () => {
  const from = performance.now(), field = document.querySelector("#time");
  field.value = %d;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - from;
})()"""
UNFOLDED = """(async () => {
  const from = performance.now();
  document.querySelector("#explorer details").open = true;
  const made = () => document.querySelector("#task-table table");
  while (!made()) await new Promise((done) => setTimeout(done));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - from;
})()"""


def made_up_run(method: int, seed: int, n_tasks: int, n_components: int) -> RunRecord:
    """Returns a run whose gates went from undecided to what families share, with exceptions."""
    draws = np.random.default_rng([method, seed])
    family = np.arange(n_tasks) % N_FAMILIES
    likely = draws.random((N_FAMILIES, n_components))[family] < 0.6
    flipped = draws.random(likely.shape) < 0.1
    gates = np.where(likely ^ flipped, 1.0, 0.0)
    certain: Floats = np.abs(gates - draws.beta(0.3, 6.0, gates.shape))
    names = tuple(f"task {place:03d}" for place in range(n_tasks))
    header = a_header(
        experiment="large",
        method=f"method {method}",
        seed=seed,
        task_names=names,
        families=(),  # their permutation tests would take minutes of writing, and no room
        layer_sizes=(n_components // 4,) * 4,
        component_names=tuple(str(place + 1) for place in range(n_components // 4)) * 4,
        component_kinds=("dense",) * n_components,
        measure="accuracy",
        n_classes=(10,) * n_tasks,
    )
    accuracies = np.clip(draws.normal(0.9, 0.02, n_tasks) + 0.01 * method, 0, 1)
    test = an_evaluation(accuracies)
    outcome = an_outcome(matrix=gates, probabilities=certain, test=test, rounds=1000)
    return a_record(header, outcome)


def timed(page: Browser, name: str, selector: str, values: Sequence[int | str]) -> None:
    """Chooses values of a field, as a user would, and prints how long each took to be drawn."""
    times = [page.run(DRAWN % (selector, json.dumps(value))) for value in values]
    print(f"{name:32} median {median(times):5.0f} ms, longest {max(times):5.0f} ms")


def main() -> None:
    """Writes the page, opens it and clicks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--page", type=Path, help="where the page is left, or found if it exists")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = (options.page or Path(name) / "page.html").absolute()
        if not path.exists():
            write(path, options.runs, options.tasks, options.components)
        print(f"{'page':32} {path.stat().st_size / 1e6:.1f} MB")
        with browser(Path(name)) as page:
            click_around(page, path)


def write(path: Path, n_runs: int, n_tasks: int, n_components: int) -> None:
    """Writes the page of made-up runs."""
    places = [divmod(place, n_runs // N_METHODS) for place in range(n_runs)]
    records = [made_up_run(*place, n_tasks, n_components) for place in places]
    start = time.monotonic()
    path.write_text(html_page(records, []), encoding="utf-8")
    print(f"{'writing it':32} {time.monotonic() - start:.0f} s")


def click_around(page: Browser, path: Path) -> None:
    """Prints the time of each kind of click."""
    start = time.monotonic()
    page.open(path)
    page.wait("Number(document.querySelector('#explorer').dataset.drawn) > 0")
    print(f"{'opening':32} {1000 * (time.monotonic() - start):.0f} ms")
    n_runs = page.run("document.querySelector('#run').options.length")
    timed(page, "another run", "#run", [*range(n_runs)][:: max(1, n_runs // 8)])
    timed(page, "another method", "#method", [0, 1, 2, 0, 2, 1])
    times = [page.run(SLID % place) for place in range(0, 40, 4)]  # of a typical run's gates
    print(
        f"{'a step of the slider':32} median {median(times):5.0f} ms, longest {max(times):5.0f} ms"
    )
    timed(page, "a task", "#task", [5, 80, 499, 200, 33, 1])
    timed(page, "another order of rows", "#sort", ["name", "family", "cluster", "recorded"])
    print(f"{'unfolding a table':32} {page.run(UNFOLDED):.0f} ms")
    timed(page, "a task, tables unfolded", "#task", [6, 81, 498, 201, 34, 2])
    assert not page.problems, page.problems


if __name__ == "__main__":
    main()
