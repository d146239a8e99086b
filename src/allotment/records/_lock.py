"""One writer at a time: a lock on files that several processes may want to write."""

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._files import RecordError, writing

# File systems without locks; there nobody is kept out.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Lock:
    """A lock that its holder's end sets free, however the holder ends; a context manager.

    It is `flock` on a file that names its holder and is removed on release. A file that a killed
    process has left behind is taken over. On network file systems it holds between machines as far
    as their own locks do.

    Args:
        path: Of the file.
        waits: Whether to wait for the holder, for what takes a moment; else the second is refused.
        keeps_folder: Whether the folder stays on release, even where it is empty.
    """

    def __init__(self, path: Path, *, waits: bool = False, keeps_folder: bool = False) -> None:
        self.path = path
        self._waits = waits
        self._keeps_folder = keeps_folder
        self._handle: int | None = None

    def claim(self) -> None:
        """Takes the lock, or raises with the host and the process that hold it."""
        while self._handle is None:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle = self._opened()
            if handle is not None and self._is_taken(handle):
                self._handle = handle
        holder = {"host": socket.gethostname(), "process": os.getpid()}
        with writing(self.path):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps(holder).encode(), 0)

    def release(self) -> None:
        """Sets the lock free; does nothing where it is not held."""
        if self._handle is None:
            return
        with suppress(OSError):  # what is left behind is free all the same
            self.path.unlink(missing_ok=True)  # while it is held, so that nobody else's is removed
            if not self._keeps_folder:
                self.path.parent.rmdir()  # where nothing else is in it
        os.close(self._handle)
        self._handle = None

    def check_free(self) -> None:
        """Raises where somebody holds the lock."""
        if self._handle is None and self.path.exists():
            self.claim()
            self.release()

    def __enter__(self) -> "Lock":
        self.claim()
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()

    def _opened(self) -> int | None:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder went with the lock of another
            return None

    def _is_taken(self, handle: int) -> bool:
        """Locks an open file; False where its holder has just removed it, and a new one is due."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if self._waits else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                found = self._holder(handle)
                os.close(handle)
                raise RecordError(
                    f"Runs should be written by one process at a time. Found `{self.path}` held by "
                    f"{found}, which should end or be stopped first."
                ) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), self.path.stat()):
                return True
        os.close(handle)
        return False

    @staticmethod
    def _holder(handle: int) -> str:
        try:
            holder: dict[str, Any] = json.loads(os.pread(handle, 1_000, 0))
            return f"process {int(holder['process'])} on {str(holder['host'])!r}"
        except (ValueError, KeyError, TypeError):  # it is about to write it
            return "another process"
