"""Small data sets in the prepared format, of which no two images are equal unless they should."""

import gzip
from typing import Any

import numpy as np

from allotment.data import Array
from allotment.data._census import COLUMNS
from allotment.paper._omniglot import ALPHABETS


def numbered(n: int, *shape: int) -> Array:
    """Returns ``n`` different images of bytes."""
    images = np.random.default_rng(0).integers(256, size=(n, *shape), dtype=np.uint8)
    flat = images.reshape(n, -1)
    flat[:, 0], flat[:, 1] = np.arange(n) // 256, np.arange(n) % 256
    return images


def drawings(n_characters: int = 2, n_drawers: int = 20, size: int = 9) -> dict[str, Array]:
    """Returns an Omniglot of the twenty alphabets and one more, the last ones first."""
    names = sorted([*ALPHABETS, "Braille"], reverse=True)
    index = np.indices((len(names), n_characters, n_drawers), dtype=np.int16).reshape(3, -1)
    bits = (np.arange(index.shape[1])[:, None] >> np.arange(16)) & 1  # [n, 16], the image's number
    images = np.random.default_rng(0).integers(2, size=(len(bits), size * size), dtype=np.uint8)
    images[:, :16] = bits
    return {
        "images": images.reshape(-1, size, size),
        "alphabet": index[0],
        "character": index[1],
        "drawer": index[2],
        "file_id": index[1],
        "alphabet_names": np.array(names),
        "alphabet_split": np.zeros(len(names), dtype=np.int8),
    }


def in_other_order(arrays: dict[str, Array], *names: str) -> dict[str, Array]:
    """Returns a data set with the rows of these arrays shuffled alike."""
    order = np.random.default_rng(5).permutation(len(arrays[names[0]]))
    return arrays | {name: arrays[name][order] for name in names}


def photographs(n_train: int = 10, n_test: int = 2) -> dict[str, Array]:
    """Returns a CIFAR-100 with so many images of each class; superclasses take turns."""
    arrays: dict[str, Any] = {}
    for part, n in (("train", n_train), ("test", n_test)):
        fine = (np.arange(100 * n) % 100).astype(np.uint8)
        arrays[f"x_{part}"] = numbered(100 * n, 32, 32, 3)
        arrays |= {f"y_{part}_fine": fine, f"y_{part}_coarse": fine % 20}
    arrays["fine_names"] = np.array([f"fine_{i}" for i in range(100)])
    arrays["coarse_names"] = np.array([f"large_things_{i}" for i in range(20)])
    return arrays


def grey_images(n_train: int = 40, n_test: int = 20) -> dict[str, Array]:
    """Returns an MNIST with so many images in all."""
    arrays: dict[str, Any] = {}
    for part, n in (("train", n_train), ("test", n_test)):
        arrays[f"x_{part}"] = numbered(n, 28, 28)
        arrays[f"y_{part}"] = (np.arange(n) % 10).astype(np.uint8)
    return arrays


def people(n: int = 120) -> list[list[str]]:
    """Returns rows of a census table in which each target has all its classes, some not asked."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(n):
        row = {name: "0" if isinstance(kind, str) else "Not in universe" for name, kind in FIELDS}
        asked = number % 4
        row |= {
            "age": str(20 + number % 60),
            "sex": ("Female", "Male")[number % 2],
            "race": ("White", "Black", "Other")[number % 3],
            "capital_gains": str(random.integers(5_000)),
            "education": ("Children", "Doctorate degree(PhD EdD)")[number // 2 % 2],
            "marital_status": ("Never married", "Divorced")[number // 3 % 2],
            "union_member": ("Not in universe", "No", "Yes", "No")[asked],
            "full_or_part_time": WORK[asked],
            "major_occupation": ("Not in universe", "Sales", "Other service", "Sales")[asked],
            "same_house_1yr": ("Yes", "No", "Not in universe under 1 year old", "Yes")[asked],
            "dividends": str(100 * (number % 3)),
            "weight": "1234.56",
            "weeks_worked": str(13 * asked),
            "year": str(94 + number % 2),
            "income": ("- 50000.", "50000+.")[number // 4 % 2],
        }
        rows.append(list(row.values()))
    return rows


FIELDS = list(COLUMNS.items())
WORK = ("Children or Armed Forces", "Full-time schedules", "Not in labor force", "Unemployed")


def as_published(rows: list[list[str]]) -> bytes:
    """Returns rows as the published file has them."""
    return gzip.compress("".join(", ".join(row) + "\n" for row in rows).encode(), mtime=0)
