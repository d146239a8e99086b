"""What is known of each data set: where it is published, its arrays, and their contents."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._checks import nearest
from ._census import CENSUS
from ._declaration import Archive, Array, ArraySpec, DataError, DataSet
from ._readers import read_cifar100, read_idx_files, read_omniglot


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


_IDX_ARRAYS = {
    "x_train": ArraySpec("uint8", (60_000, 28, 28)),
    "y_train": ArraySpec("uint8", (60_000,)),
    "x_test": ArraySpec("uint8", (10_000, 28, 28)),
    "y_test": ArraySpec("uint8", (10_000,)),
}


def _idx_archives(hashes: tuple[str, str, str, str], *mirrors: str) -> tuple[Archive, ...]:
    """Returns the four archives of a data set in idx files, in the order of ``_IDX_ARRAYS``."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    pairs = zip(names, hashes, strict=True)
    return tuple(Archive(f"{name}-ubyte.gz", md5, mirrors) for name, md5 in pairs)


MNIST = DataSet(
    name="mnist",
    description="70,000 handwritten digits, 28 x 28, 10 classes",
    archives=_idx_archives(
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    arrays=_IDX_ARRAYS,
    read=read_idx_files,
    checks=(
        ClassCounts("y_train", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ClassCounts("y_test", (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
    ),
)

FASHION_MNIST = DataSet(
    name="fashion_mnist",
    description="70,000 pictures of clothes, 28 x 28, 10 classes",
    archives=_idx_archives(
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    arrays=_IDX_ARRAYS,
    read=read_idx_files,
    checks=(ClassCounts("y_train", (6_000,) * 10), ClassCounts("y_test", (1_000,) * 10)),
)

CIFAR100 = DataSet(
    name="cifar100",
    description="60,000 colour photographs, 32 x 32, 100 classes in 20 groups",
    archives=(
        Archive(
            "cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            ("https://www.cs.toronto.edu/~kriz/",),
        ),
    ),
    arrays={
        "x_train": ArraySpec("uint8", (50_000, 32, 32, 3)),
        "y_train_fine": ArraySpec("uint8", (50_000,)),
        "y_train_coarse": ArraySpec("uint8", (50_000,)),
        "x_test": ArraySpec("uint8", (10_000, 32, 32, 3)),
        "y_test_fine": ArraySpec("uint8", (10_000,)),
        "y_test_coarse": ArraySpec("uint8", (10_000,)),
        "fine_names": ArraySpec("str", (100,)),
        "coarse_names": ArraySpec("str", (20,)),
    },
    read=read_cifar100,
    checks=(
        ClassCounts("y_train_fine", (500,) * 100),
        ClassCounts("y_train_coarse", (2_500,) * 20),
        ClassCounts("y_test_fine", (100,) * 100),
        ClassCounts("y_test_coarse", (500,) * 20),
        ChannelMean("x_train", (0.50708, 0.48655, 0.44092)),
    ),
    compress=False,  # photographs hardly shrink, and the file is read at every start
)

_OMNIGLOT_MIRRORS = (
    "https://github.com/brendenlake/omniglot/raw/master/python/",
    "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/",
)

OMNIGLOT = DataSet(
    name="omniglot",
    description="32,460 drawings of 1,623 characters of 50 alphabets, 105 x 105",
    archives=(
        Archive("images_background.zip", "68d2efa1b9178cc56df9314c21c6e718", _OMNIGLOT_MIRRORS),
        Archive("images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811", _OMNIGLOT_MIRRORS),
    ),
    arrays={
        "images": ArraySpec("uint8", (32_460, 105, 105)),
        "alphabet": ArraySpec("int16", (32_460,)),
        "character": ArraySpec("int16", (32_460,)),
        "drawer": ArraySpec("int16", (32_460,)),
        "file_id": ArraySpec("int16", (32_460,)),
        "alphabet_names": ArraySpec("str", (50,)),
        "alphabet_split": ArraySpec("int8", (50,)),
    },
    read=read_omniglot,
    checks=(DrawnCharacters(n_characters=(964, 659), n_drawers=20),),
)

DATASETS: dict[str, DataSet] = {
    dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, CIFAR100, OMNIGLOT, CENSUS)
}


def dataset_named(name: str) -> DataSet:
    """Returns the declared data set of this name; an unknown name answers with the known ones.

    >>> dataset_named("mnist").name
    'mnist'
    """
    if name not in DATASETS:
        raise DataError(
            f"A data set should be one of {', '.join(DATASETS)}. Found `{name}`."
            + nearest(name, DATASETS)
        )
    return DATASETS[name]
