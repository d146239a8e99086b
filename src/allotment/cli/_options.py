"""The options of a launch: those given now, and those it began with."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..experiments import Launch
from ..records import read_options

FIXED = (
    "experiment",
    "split",
    "method",
    "runs",
    "first_seed",
    "together",
    "set",
    "deterministic",
)
FREE = ("device", "data_dir", "checkpoint_every", "rounds")  # may be others where it goes on


def settled(options: Namespace) -> dict[str, Any]:
    """Returns the options given, over those that the launch in ``options.resume`` began with.

    The command is the one it began with, or would have begun with to have as many rounds.
    """
    given = {name: getattr(options, name) for name in (*FIXED, *FREE)}
    given = {name: v for name, v in given.items() if v is not None and v is not False and v != []}
    folder: Path | None = options.resume
    if folder is None:
        return given | {"command": options.command}
    kept = read_options(folder)
    for name in FIXED:
        if name in given and given[name] != kept.get(name):
            raise ValueError(
                f"`{name.replace('_', '-')}` should be what the launch in `{folder}` began with, "
                f"{kept.get(name)!r}. Found {given[name]!r}."
            )
    if given.get("rounds", kept["rounds"]) != kept["rounds"]:
        before = re.sub(r" --rounds[ =]\S+", "", kept["command"])
        given["command"] = f"{before} --rounds {given['rounds']}"
    return kept | given


def described(launch: Launch, chosen: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a launch in full, so that none has to be given again."""
    fixed = {
        "experiment": launch.experiment.name,
        "split": chosen.get("split", []),
        "method": [method.name for method in launch.methods],
        "runs": launch.n_runs,
        "first_seed": launch.first_seed,
        "together": launch.together,
        "rounds": launch.experiment.training.rounds,
        "set": chosen.get("set", []),
        "deterministic": launch.deterministic,
        "command": launch.command,
    }
    return fixed | {name: chosen[name] for name in FREE if name in chosen and name not in fixed}
