"""Twenty alphabets of handwritten characters (paper, Section V-B)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..._checks import check_choice
from ...data import Array, DataError, load
from ...tasks import Split, Task
from ._images import split_rows

ALPHABETS = (
    "Gujarati",
    "Sylheti",
    "Arcadian",
    "Tibetan",
    "Old_Church_Slavonic_(Cyrillic)",
    "Angelic",
    "Malay_(Jawi_-_Arabic)",
    "Sanskrit",
    "Cyrillic",
    "Anglo-Saxon_Futhorc",
    "Syriac_(Estrangelo)",
    "Ge_ez",
    "Japanese_(katakana)",
    "Keble",
    "Manipuri",
    "Alphabet_of_the_Magi",
    "Gurmukhi",
    "Korean",
    "Early_Aramaic",
    "Atemayar_Qelisayer",
)
LEAKING = ("Sanskrit", "Japanese_(katakana)", "Korean", "Early_Aramaic")
SHARES = (0.5, 0.2, 0.3)  # train, validation, test
SPLIT_SEED = 0  # one split for every run, so that runs differ in training alone


def omniglot(folder: str | Path | None = None, *, split: str = "clean") -> list[Task]:
    """Returns a task for each alphabet: which of its characters is drawn, true where there is ink.

    The twenty share one copy of the images. Of each character's 20 drawings 10 are for training,
    4 for validation and 6 for the test; which ones follows from alphabet, character and drawer,
    and not from the order of a file.

    With ``split="published"`` it leaks as the paper's does: the authors' loader reads two subsets
    beside the whole set, so that every drawing of four alphabets is in the pool twice before it is
    split, and about half of their test images are training images too.
    """
    check_choice("split", split, ["clean", "published"])
    arrays = load("omniglot", folder)
    names = arrays["alphabet_names"][arrays["alphabet"]]
    chosen = np.flatnonzero(np.isin(names, ALPHABETS))
    names, characters, drawers = (
        array[chosen] for array in (names, arrays["character"], arrays["drawer"])
    )
    images = torch.from_numpy(arrays["images"][chosen] > 0).unsqueeze(1)  # [N, 1, 105, 105]
    labels = torch.from_numpy(characters).long()

    def task(alphabet: str) -> Task:
        n_copies = 2 if split == "published" and alphabet in LEAKING else 1
        parts = [
            _parts(f"{alphabet}/{character}", rows.repeat(n_copies))
            for character, rows in _characters(alphabet, names, characters, drawers)
        ]
        train, validation, test = (
            Split(images, labels, torch.cat(rows)) for rows in zip(*parts, strict=True)
        )
        return Task(_task_name(alphabet), train, validation, test)

    return [task(alphabet) for alphabet in ALPHABETS]


def alphabets(*, leaking: bool) -> tuple[str, ...]:
    """Returns the names of the tasks that leak in the published split, or of those that do not."""
    return tuple(_task_name(name) for name in ALPHABETS if (name in LEAKING) == leaking)


def _task_name(alphabet: str) -> str:
    return alphabet.replace("_", " ")


def _characters(
    alphabet: str, names: Array, characters: Array, drawers: Array
) -> Iterator[tuple[int, Tensor]]:
    """Yields an alphabet's characters, each with the rows of its drawings in order of drawer."""
    rows = np.flatnonzero(names == alphabet)
    if not len(rows):
        raise DataError(f"Omniglot should hold the alphabet `{alphabet}`. Found no drawing of it.")
    rows = rows[np.lexsort((drawers[rows], characters[rows]))]
    for character in np.unique(characters[rows]).tolist():
        yield character, torch.from_numpy(rows[characters[rows] == character])


def _parts(name: str, pool: Tensor) -> list[Tensor]:
    """Returns the rows of a character's training, validation and test drawings."""
    return [pool[part] for part in split_rows(len(pool), SHARES, seed=SPLIT_SEED, use=name)]
