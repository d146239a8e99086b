"""What is known of the published contents: counts per class, means, drawings per character."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ._declaration import Array
from ._errors import DataError


@dataclass(frozen=True)
class ClassCounts:
    """The number of examples of each class in one array of labels."""

    labels: str
    counts: tuple[int, ...]

    def __call__(self, arrays: Mapping[str, Array]) -> None:
        found = np.bincount(arrays[self.labels], minlength=len(self.counts)).tolist()
        if len(found) > len(self.counts):
            raise DataError(
                f"`{self.labels}` should be below {len(self.counts)}. Found {len(found) - 1}."
            )
        for label, (count, n_found) in enumerate(zip(self.counts, found, strict=True)):
            if n_found != count:
                raise DataError(
                    f"`{self.labels}` should have {count} examples of class {label}. "
                    f"Found {n_found}."
                )


@dataclass(frozen=True)
class ChannelMean:
    """The mean of each colour over all images of one array, between 0 and 1, to five places."""

    images: str
    mean: tuple[float, ...]

    def __call__(self, arrays: Mapping[str, Array]) -> None:
        found = arrays[self.images].mean(axis=(0, 1, 2)) / 255
        if not np.allclose(found, self.mean, rtol=0, atol=1e-5):
            raise DataError(
                f"`{self.images}` should have the channel mean {self.mean}. "
                f"Found {tuple(found.round(5).tolist())}."
            )


@dataclass(frozen=True)
class DrawnCharacters:
    """The number of Omniglot's characters in each split, each drawn once by every drawer."""

    n_characters: tuple[int, ...]
    n_drawers: int

    def __call__(self, arrays: Mapping[str, Array]) -> None:
        _check_below("images", arrays["images"], 2)  # 1 is ink
        _check_below("alphabet", arrays["alphabet"], len(arrays["alphabet_names"]))
        columns = (arrays["alphabet"], arrays["character"], arrays["drawer"])
        drawings = np.unique(np.stack(columns, axis=1), axis=0)  # [n, 3], repeated ones once
        characters, n_drawn = np.unique(drawings[:, :2], axis=0, return_counts=True)
        split = arrays["alphabet_split"][characters[:, 0]]
        found = tuple(int((split == part).sum()) for part in range(len(self.n_characters)))
        if found != self.n_characters:
            raise DataError(
                "`character` should number, from the background and the evaluation alphabets, "
                f"{self.n_characters} characters. Found {found}."
            )
        if (n_drawn != self.n_drawers).any():
            alphabet = arrays["alphabet_names"][characters[n_drawn != self.n_drawers][0, 0]]
            raise DataError(
                f"`drawer` should name {self.n_drawers} drawers of every character. "
                f"Found another number in `{alphabet}`."
            )


def _check_below(name: str, array: Array, bound: int) -> None:
    """Raises unless every value is 0 or more, and below ``bound``."""
    least, most = array.min(initial=0), array.max(initial=0)
    if least < 0 or most >= bound:
        raise DataError(f"`{name}` should be from 0 to {bound - 1}. Found {least} to {most}.")
