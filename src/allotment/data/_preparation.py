"""From published archives, fetched and verified, to a prepared file that is sound."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pooch
from requests import exceptions

from ._declaration import Archive, Array, DataError, DataSet, disk_faults
from ._folder import copy_file, data_folder, folder_made, load, status, write_arrays
from ._registry import DATASETS, dataset_named

Progress = Callable[[str, int, int], None]
"""Is told the name of a file, the bytes done, and the bytes in all (0 while not known)."""

_CHUNK = 65_536
_TIMEOUT = 30  # seconds without a byte
# A mirror that would compress on the way, or undo the archive's own compression, is asked not to.
_HEADERS = {"Accept-Encoding": "identity"}


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Returns the path of the verified archive in ``folder``, downloaded if it is not there."""
    pooch.get_logger().setLevel(logging.WARNING)  # the caller is told by ``progress``
    faults = []
    for mirror in archive.mirrors:
        try:
            return _fetch_from(mirror, archive, folder, progress)
        except (exceptions.RequestException, DataError) as error:
            faults.append(f"{mirror}: {_reason(error)}")
    raise DataError(
        f"`{archive.name}` should come from one of its mirrors. Found: {'; '.join(faults)}."
    )


def _fetch_from(mirror: str, archive: Archive, folder: Path, progress: Progress) -> Path:
    http = pooch.HTTPDownloader(
        progressbar=_ProgressBar(archive.name, progress),
        chunk_size=_CHUNK,
        timeout=_TIMEOUT,
        headers=_HEADERS,
    )

    def download(url: str, output_file: str, pooch_: object) -> None:
        http(url, output_file, pooch_)
        found = pooch.file_hash(output_file, alg="md5")
        if found != archive.md5:
            raise DataError(f"the md5 should be {archive.md5}, found {found}")

    path = pooch.retrieve(
        mirror + archive.name,
        known_hash=f"md5:{archive.md5}",
        fname=archive.name,
        path=folder,
        downloader=download,
    )
    return Path(path)


def _reason(error: Exception) -> str:
    """Returns, in a few words, why a mirror could not be used."""
    match error:
        case exceptions.HTTPError(response=response) if response is not None:
            return f"the server answered {response.status_code} {response.reason}"
        case exceptions.ChunkedEncodingError():
            return "the connection dropped midway"
        case exceptions.Timeout():
            return "the server did not answer in time"
        case exceptions.RequestException():
            return f"the connection failed ({type(error).__name__})"
        case _:
            return str(error)


class _ProgressBar:
    """What ``pooch`` asks of a progress bar, in terms of a callback."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.name = name
        self.progress = progress
        self.total = 0  # set by pooch when the server has told it
        self.done = 0

    def update(self, n_bytes: int) -> None:
        self.done += n_bytes  # the last chunk counts in full, so this may pass the total
        self.progress(
            self.name, min(self.done, self.total) if self.total else self.done, self.total
        )

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Does nothing: the callback's owner closes what it shows."""


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
    """Returns a verdict on each data set, from its types, its shapes and its content.

    Args:
        folder: Where prepared data sets lie; None: where they lie by default.
        datasets: Those that are checked.
    """
    return [
        Verdict(each.dataset, each.path, each.is_present, _fault(each.dataset, each.path))
        for each in status(folder, datasets)
    ]


def _fault(dataset: DataSet, path: Path) -> str | None:
    """Returns what is wrong with the prepared file at ``path``, if anything is."""
    try:
        arrays = load(dataset, path.parent)
        _check_hash(dataset, path)
    except DataError as error:
        return str(error)
    try:
        dataset.check(arrays)
    except DataError as error:
        return f"In `{path}`: {error}"
    return None


def _check_hash(dataset: DataSet, path: Path) -> None:
    """Raises where a file that should be the archive itself is another one."""
    if not dataset.as_published:
        return
    md5, found = dataset.archives[0].md5, pooch.file_hash(path, alg="md5")
    if found != md5:
        raise DataError(f"`{path}` should be as published, with the md5 {md5}. Found {found}.")


def prepare(
    name: str | DataSet, folder: str | Path | None = None, *, progress: Progress = lambda *_: None
) -> Path:
    """Returns the path of the prepared file, made from the published archives if need be.

    A sound file is left as it is; a damaged one is made anew. Verified archives are kept in
    ``archives/NAME``, so that none is fetched twice; apart from them, a fault leaves the folder
    as it was.

    Args:
        name: A name in ``DATASETS``, or a declaration.
        folder: The data folder; by default the one ``data_folder`` finds.
        progress: Is told the name of the file at work, the bytes done, and the bytes in all
            (0 while not known): first each archive to download, then the prepared file.
    """
    dataset = dataset_named(name) if isinstance(name, str) else name
    folder = data_folder(folder)
    path = folder / dataset.file_name
    (verdict,) = check(folder, [dataset])
    if verdict.fault is None:
        return path
    archives = folder / "archives" / dataset.name
    with disk_faults(folder), folder_made(archives):
        arrays = _read(dataset, archives, progress)
        if dataset.as_published:
            copy_file(archives / dataset.archives[0].name, path)
        else:
            write_arrays(path, arrays, compress=dataset.compress)
    return path


def _read(dataset: DataSet, folder: Path, progress: Progress) -> dict[str, Array]:
    """Returns the checked arrays of the archives; new archives are removed if they are refused."""
    already_here = {path.name for path in folder.iterdir()}
    paths = [fetch(archive, folder, progress) for archive in dataset.archives]
    progress(dataset.file_name, 0, 0)
    try:
        arrays = dataset.read(paths, dataset.arrays)
        dataset.check(arrays)
    except DataError:
        for path in paths:
            if path.name not in already_here:
                path.unlink()
        raise
    return arrays
