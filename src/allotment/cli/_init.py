"""A project of one's own: an experiment, the table it learns from, and the commands."""

import csv
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from shlex import quote

import numpy as np
from rich.console import Console

from ..paper import EXPERIMENTS
from ..records import file_name
from ._display import say

N_ROWS = 900
SHARE_MISSING = {"rent": 0.5, "sold_quickly": 0.3, "energy_class": 0.4, "year_built": 0.05}
_NAME = "my_project"  # what the templates call it


def init(options: Namespace) -> int:
    """Writes a project into a new folder."""
    folder: Path = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"`NAME` should be a new or empty folder. Found `{folder}`, which is not.")
    name = file_name(folder.resolve().name)
    if name in EXPERIMENTS:
        raise ValueError(
            "`NAME` should be another than the names that `allotment list` shows, since the "
            f"experiment is called so. Found `{folder}`."
        )
    folder.mkdir(parents=True, exist_ok=True)
    templates = files(__package__) / "project"
    experiment = (templates / "experiment.py.txt").read_text(encoding="utf-8")
    readme = (templates / "README.md").read_text(encoding="utf-8")
    for path, text in {"experiment.py": experiment, "README.md": readme}.items():
        file = (folder / "experiment.py").as_posix()
        text = text.replace(f"allotment run {_NAME}/experiment.py", f"allotment run {quote(file)}")
        text = text.replace(f"{_NAME}/experiment.py", file)
        (folder / path).write_text(text.replace(_NAME, name), encoding="utf-8")
    _write_table(folder / "data.csv")
    console = Console()
    say(console, f"Wrote experiment.py, data.csv and README.md: {folder}")
    say(console, f"To train it: allotment run {quote(str(folder / 'experiment.py'))}")
    return 0


def _write_table(path: Path) -> None:
    """Writes a made-up table of flats, the same each time.

    Three targets depend on what a flat is worth and two on how well it keeps warm.
    """
    rng = np.random.default_rng(0)
    size = rng.uniform(25, 160, N_ROWS).round()
    year = rng.integers(1900, 2024, N_ROWS)
    distance = rng.exponential(6, N_ROWS).round(1)
    district = rng.choice(["harbour", "hill", "old town", "station"], N_ROWS)
    outer_walls = rng.integers(1, 5, N_ROWS)
    liked = np.select([district == "harbour", district == "hill"], [0.5, 0.3], 0.0)
    worth = 0.02 * (size - 90) - 0.5 * np.tanh(distance / 6) + liked
    cold = 0.5 * np.sin((2024 - year) / 40) + 0.3 * (outer_walls - 2.5)

    def noise(scale: float) -> np.ndarray:
        return rng.normal(scale=scale, size=N_ROWS)

    columns = {
        "size": size.astype(int),
        "year_built": year,
        "distance": distance,
        "district": district,
        "outer_walls": outer_walls,
        "price": (400 * np.exp(0.4 * worth + noise(0.05))).round(1),
        "rent": (1_200 * np.exp(0.3 * worth + noise(0.08))).round(1),
        "sold_quickly": np.where(worth + noise(0.3) > 0, "yes", "no"),
        "heating_cost": (90 * np.exp(0.5 * cold + noise(0.1))).round(1),
        "energy_class": np.array(list("ABCD"))[np.digitize(cold + noise(0.1), [-0.4, 0.1, 0.6])],
    }
    missing = {name: rng.random(N_ROWS) < share for name, share in SHARE_MISSING.items()}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in range(N_ROWS):
            is_known = {name: not (name in missing and missing[name][row]) for name in columns}
            writer.writerow([columns[name][row] if is_known[name] else "" for name in columns])
