"""Small data sets in the published formats, with the arrays that went in."""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from allotment.data import Archive, Array, ArraySpec, DataSet
from allotment.data._registry import CIFAR100, MNIST, OMNIGLOT, ClassCounts, DrawnCharacters


@dataclass(frozen=True)
class Published:
    """The archives of a small data set by name, and what should become of them."""

    dataset: DataSet
    contents: dict[str, bytes]
    arrays: dict[str, Array]

    def at(self, *mirrors: str) -> DataSet:
        """Returns the declaration of these archives at these mirrors."""
        archives = tuple(
            Archive(name, hashlib.md5(content).hexdigest(), mirrors)
            for name, content in self.contents.items()
        )
        arrays = {
            name: ArraySpec("str" if array.dtype.kind == "U" else array.dtype.name, array.shape)
            for name, array in self.arrays.items()
        }
        return replace(self.dataset, archives=archives, arrays=arrays)

    def with_archive(self, name: str, content: bytes) -> "Published":
        """Returns the same with another content under this name, declared as the right one."""
        assert name in self.contents
        return replace(self, contents=self.contents | {name: content})


def idx(array: Array) -> bytes:
    """Returns an idx file of unsigned bytes."""
    header = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return header + array.tobytes()


def gz(content: bytes) -> bytes:
    """Returns a compressed file, the same at any time of day."""
    return gzip.compress(content, mtime=0)


def tar_gz(members: Mapping[str, bytes], *others: tarfile.TarInfo) -> bytes:
    """Returns a compressed tar archive of these files, and of other entries without content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for other in others:
            tar.addfile(other)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gz(buffer.getvalue())


def zipped(members: Mapping[str, bytes], *, modes: Mapping[str, int] | None = None) -> bytes:
    """Returns a zip archive of these files, with these Unix modes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pictures:
        for name, content in members.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (modes or {}).get(name, 0o100644) << 16
            pictures.writestr(member, content)
    return buffer.getvalue()


def png(ink: Array) -> bytes:
    """Returns a picture of one bit per pixel, black where there is ink."""
    buffer = io.BytesIO()
    Image.fromarray(ink == 0).save(buffer, format="PNG")
    return buffer.getvalue()


def digits() -> Published:
    """Returns a small MNIST: 12 and 6 pictures of 5 x 4 of 3 classes."""
    random = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        "x_train": random.integers(256, size=(12, 5, 4), dtype=np.uint8),
        "y_train": np.repeat(np.arange(3, dtype=np.uint8), 4),
        "x_test": random.integers(256, size=(6, 5, 4), dtype=np.uint8),
        "y_test": np.tile(np.arange(3, dtype=np.uint8), 2),
    }
    names = [archive.name for archive in MNIST.archives]
    pairs = zip(names, arrays.values(), strict=True)
    checks = (ClassCounts("y_train", (4, 4, 4)), ClassCounts("y_test", (2, 2, 2)))
    return Published(
        replace(MNIST, checks=checks),
        {name: gz(idx(array)) for name, array in pairs},
        arrays,
    )


def photograph_members(arrays: Mapping[str, Array]) -> dict[str, bytes]:
    """Returns the files of CIFAR-100's binary archive that hold these arrays."""
    members = {
        f"cifar-100-binary/{kind}_label_names.txt": "\n".join([*arrays[f"{kind}_names"], "\n"])
        for kind in ("fine", "coarse")
    }
    result = {name: text.encode() for name, text in members.items()}
    for part in ("train", "test"):
        labels = np.stack([arrays[f"y_{part}_coarse"], arrays[f"y_{part}_fine"]], axis=1)
        pixels = arrays[f"x_{part}"].transpose(0, 3, 1, 2).reshape(len(labels), -1)
        result[f"cifar-100-binary/{part}.bin"] = np.hstack([labels, pixels]).tobytes()
    return result


def photographs() -> Published:
    """Returns a small CIFAR-100: 8 and 4 pictures of 3 x 2 of 4 classes in 2 groups."""
    random = np.random.default_rng(1)
    arrays: dict[str, Array] = {}
    for part, n in (("train", 8), ("test", 4)):
        fine = np.arange(n, dtype=np.uint8) % 4
        arrays[f"x_{part}"] = random.integers(256, size=(n, 3, 2, 3), dtype=np.uint8)
        arrays |= {f"y_{part}_fine": fine, f"y_{part}_coarse": fine // 2}
    arrays["fine_names"] = np.array(["apple", "pear", "oak_tree", "pine_tree"])
    arrays["coarse_names"] = np.array(["fruit", "trees"])
    folder = tarfile.TarInfo("cifar-100-binary")
    folder.type = tarfile.DIRTYPE
    return Published(
        replace(CIFAR100, checks=(ClassCounts("y_train_fine", (2, 2, 2, 2)),)),
        {"cifar-100-binary.tar.gz": tar_gz(photograph_members(arrays), folder)},
        arrays,
    )


def drawing_members(arrays: Mapping[str, Array]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Returns the files of Omniglot's two archives that hold these arrays, last ones first."""
    members: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
    for i in reversed(range(len(arrays["images"]))):
        alphabet = arrays["alphabet"][i]
        split = arrays["alphabet_split"][alphabet]
        folder = (
            f"images_{('background', 'evaluation')[split]}/{arrays['alphabet_names'][alphabet]}"
        )
        file = f"{arrays['file_id'][i]:04d}_{arrays['drawer'][i] + 1:02d}.png"
        path = f"{folder}/character{arrays['character'][i] + 1:02d}/{file}"
        members[split][path] = png(arrays["images"][i])
    return members


def drawings() -> Published:
    """Returns a small Omniglot: 2 + 1 alphabets of 2 characters, each drawn 3 times, 7 x 7."""
    random = np.random.default_rng(2)
    index = np.indices((3, 2, 3), dtype=np.int16).reshape(3, -1)  # [3, n]
    arrays: dict[str, Array] = {
        "images": random.integers(2, size=(18, 7, 7), dtype=np.uint8),
        "alphabet": index[0],
        "character": index[1],
        "drawer": index[2],
        "file_id": (900 - 2 * index[0] + index[1]).astype(np.int16),
        "alphabet_names": np.array(["Greek", "N_Ko", "Angelic"]),
        "alphabet_split": np.array([0, 0, 1], dtype=np.int8),
    }
    background, evaluation = drawing_members(arrays)
    contents = {
        "images_background.zip": zipped({"images_background/": b"", **background}),
        "images_evaluation.zip": zipped({"images_evaluation/.DS_Store": b"x", **evaluation}),
    }
    checks = (DrawnCharacters(n_characters=(4, 2), n_drawers=3),)
    return Published(replace(OMNIGLOT, checks=checks), contents, arrays)


ALL = (digits, photographs, drawings)
