"""What people see while run groups train, one after another or several at once."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console

from allotment.cli._display import Display
from allotment.experiments import RunGroup, run_groups
from allotment.training import Outcome, Progress
from tests.experiments.test_running import a_sweep


def two_groups(tmp_path: Path) -> list[RunGroup]:
    sweep = a_sweep(tmp_path)  # of 40 rounds
    return list(run_groups(replace(sweep, methods=sweep.methods[-1:], group_size=1)))


def news(done: int, outcomes: list[Outcome] | None = None) -> Progress:
    return Progress(done, np.array([0.5]), [None], outcomes=outcomes)


def shown(groups: list[RunGroup], *, several: bool, live: bool = False) -> str:
    """Returns what two groups that take turns leave on a screen."""
    text = StringIO()
    console = Console(file=text, force_terminal=live, width=120)
    with Display(console, several=several) as display:
        for done in (20, 40):
            for group in groups:
                display(group, news(done))
        if live:
            console.print("in the middle")  # which has the bars drawn anew below it
        for group in groups:
            display(group, news(40, []))
    return text.getvalue()


def test_groups_that_train_at_once_have_a_line_each_when_they_end(tmp_path: Path) -> None:
    lines = shown(two_groups(tmp_path), several=True).splitlines()
    assert lines == [
        "1 done  Gumbel-Matrix, seed 0  loss 0.500  open nan%",
        "2 done  Gumbel-Matrix, seed 1  loss 0.500  open nan%",
    ]


def test_groups_that_train_at_once_have_a_bar_each(tmp_path: Path) -> None:
    text = shown(two_groups(tmp_path), several=True, live=True)
    drawn = text[text.index("in the middle") : text.index("1 done")]
    assert "rounds  Gumbel-Matrix, seed 0" in drawn
    assert "rounds  Gumbel-Matrix, seed 1" in drawn


def test_a_group_that_trains_alone_has_its_name_above_its_lines(tmp_path: Path) -> None:
    lines = shown(two_groups(tmp_path)[:1], several=False).splitlines()
    assert lines[0] == "Gumbel-Matrix (1 run)"
    assert [line.split("  ")[1] for line in lines[1:]] == ["round 20/40", "round 40/40"]
