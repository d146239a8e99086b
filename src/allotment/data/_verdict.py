"""Whether the prepared files still hold what was published."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ._declaration import DataSet
from ._errors import DataError
from ._folder import load, status
from ._registry import DATASETS


@dataclass(frozen=True)
class Verdict:
    """What a check found; ``fault`` is a sentence, or None where the data set is sound."""

    dataset: DataSet
    path: Path
    is_present: bool
    fault: str | None


def check(
    folder: str | Path | None = None, datasets: Iterable[DataSet] = DATASETS.values()
) -> list[Verdict]:
    """Returns a verdict on each data set, from its types, its shapes and its content."""
    return [
        Verdict(each.dataset, each.path, each.is_present, _fault(each.dataset, each.path))
        for each in status(folder, datasets)
    ]


def _fault(dataset: DataSet, path: Path) -> str | None:
    """Returns what is wrong with the prepared file at ``path``, if anything is."""
    try:
        arrays = load(dataset, path.parent)
    except DataError as error:
        return str(error)
    try:
        dataset.check(arrays)
    except DataError as error:
        return f"In `{path}`: {error}"
    return None
