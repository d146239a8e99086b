"""Published archives, fetched once and verified, from the first mirror that has them."""

import logging
from collections.abc import Callable
from pathlib import Path

import pooch
from requests import exceptions

from ._declaration import Archive
from ._errors import DataError

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
