"""A first look: two small experiments on data that needs no download, and a report."""

from argparse import Namespace
from dataclasses import replace
from itertools import count
from pathlib import Path

import torch
from rich.console import Console

from ..experiments import Sweep, run_sweep
from ..paper import EXPERIMENTS
from ._display import Display, say

SIZES = {"two_pairs": (5, 2_000), "codebooks": (5, 1_000)}  # runs and rounds: about a minute in all
INTRODUCTIONS = {
    "two_pairs": (
        "Four tasks, of which 1a and 1b are the same function, and 2a and 2b another. The network "
        "has four components and is told neither; each task learns which components to use."
    ),
    "codebooks": (
        "Four offices give codes to real drawings of digits: A1 and A2 by one book, B1 and B2 by "
        "another. Each has a hundred labelled drawings. The network does not know about books."
    ),
}

WHEN_NOT = (
    "Both are at their best for learnt gates: tasks disagree, and nothing but the gates can keep "
    "them apart. Where all tasks are related a shared bottom does as well, and where examples "
    "abound a network for each task can do better (docs/when.md). For tasks of your own, "
    "fit(network, tasks, baselines=True) trains all three and says which to take."
)


def demo(options: Namespace) -> int:
    """Trains two small experiments, says what was learnt, and leaves a report."""
    from ._pages import write_page  # here, since commands load each other only where they are given
    from ._run import print_results

    out: Path = options.out or _next_folder()
    console = Console()
    torch.set_num_threads(1)  # small programs: others on the machine then cost the demo little
    for number, (name, introduction) in enumerate(INTRODUCTIONS.items(), start=1):
        n_runs, rounds = SIZES[name]
        declared = EXPERIMENTS[name]
        experiment = replace(declared, training=replace(declared.training, rounds=rounds))
        console.print(f"\n[bold]{number} of {len(INTRODUCTIONS)}: {experiment.title}[/bold]")
        console.print(introduction, highlight=False)
        console.print()
        sweep = Sweep(experiment=experiment, out=out / name, n_runs=n_runs, command=options.command)
        with Display(console) as display:
            folders = run_sweep(sweep, display)
        print_results(console, experiment, folders)
    console.print("\n[bold]When not to use it[/bold]")
    console.print(WHEN_NOT, highlight=False)
    page = out / "report.html"
    write_page([out], page)
    say(console, f"\nReport, to open in a browser: {page.resolve()}")
    return 0


def _next_folder() -> Path:
    """Returns the first of ``runs/demo-1``, ``runs/demo-2``, ... that is not there."""
    return next(path for n in count(1) if not (path := Path(f"runs/demo-{n}")).exists())
