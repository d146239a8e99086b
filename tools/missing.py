"""Lists declared runs that the kept results lack, and the commands that train them.

`make missing` goes through all experiments in the order in which they are declared. A
row of which some seeds are kept is asked for the others alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from allotment.experiments import Experiment, Sweep
from allotment.paper import EXPERIMENTS, KINDS
from allotment.records import RunRecord, read_kept

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Missing:
    """Methods of an experiment that lack the same seeds.

    Attributes:
        experiment: Its name.
        methods: Their names; empty: all that it has.
        seeds: The lacking ones, one after another.
    """

    experiment: str
    methods: tuple[str, ...]
    seeds: range

    @property
    def command(self) -> str:
        """What is typed to train them."""
        parts = [f"allotment run {_argument(self.experiment)}"]
        parts += [f"--method {name}" for name in self.methods]
        declared = Sweep(experiment=EXPERIMENTS[self.experiment], out=Path()).seeds
        if self.seeds != declared:
            parts.append(f"--runs {len(self.seeds)} --first-seed {self.seeds.start}")
        return " ".join([*parts, f"--out runs/{self.experiment}"])


def missing(records: Iterable[RunRecord]) -> Iterator[Missing]:
    """Yields what the records lack of all experiments."""
    kept: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for record in records:
        header = record.header
        kept[header.experiment, header.condition, header.method].add(header.seed)
    for experiment in EXPERIMENTS.values():
        yield from _missing_of(experiment, kept)


def _missing_of(
    experiment: Experiment, kept: dict[tuple[str, str, str], set[int]]
) -> Iterator[Missing]:
    declared = Sweep(experiment=experiment, out=Path()).seeds
    by_seeds: dict[range, list[str]] = defaultdict(list)
    for method in experiment.methods:
        rows = [kept[experiment.name, each, method.name] for each in experiment.data.conditions]
        lacking = [seed for seed in declared if any(seed not in row for row in rows)]
        for span in _spans(lacking):
            by_seeds[span].append(method.name)
    for seeds, names in by_seeds.items():
        is_all = len(names) == len(experiment.methods)
        yield Missing(experiment.name, () if is_all else tuple(names), seeds)


def _spans(seeds: Sequence[int]) -> Iterator[range]:
    """Yields the seeds that follow each other, since a command takes no others.

    >>> list(_spans([0, 1, 4]))
    [range(0, 2), range(4, 5)]
    """
    starts = [place for place, seed in enumerate(seeds) if not place or seed > seeds[place - 1] + 1]
    for first, end in pairwise([*starts, len(seeds)]):
        yield range(seeds[first], seeds[end - 1] + 1)


def _argument(experiment: str) -> str:
    """Returns how an experiment is named on the command line."""
    named = {
        name: f"{kind} --suite {suite}"
        for kind, (_, suites) in KINDS.items()
        for suite, name in suites.items()
        if name.startswith(kind)  # one suite is part of an experiment with another name
    }
    return named.get(experiment, experiment)


def main() -> None:
    """Prints a command for each group of rows, below how much it lacks."""
    for each in missing(read_kept(RESULTS)):
        n = len(each.methods) or len(EXPERIMENTS[each.experiment].methods)
        print(f"{each.experiment}: {n} methods, {len(each.seeds)} runs each")
        print(f"    {each.command}")


if __name__ == "__main__":
    main()
