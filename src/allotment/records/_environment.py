"""Where a run took place: versions, machine and commit."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

# A file that moved has the same hash: a sweep is resumed with no other.
_OF_ONE_LAUNCH = ("started", "round", "resumed", "source")


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine and the versions of one launch."""

    allotment: str
    python: str
    torch: str
    numpy: str
    platform: str
    device: str  # its name, as whoever ran it handed it in
    n_threads: int  # of the CPU
    commit: str | None  # of the working directory's repository, if it is in one
    dirty: bool  # whether a file of that repository differed from the commit
    started: str  # UTC, ISO 8601
    deterministic: bool = False  # whether a GPU was told to; a CPU always is
    source: str = ""  # the file that defines the experiment and its hash, where it has one
    round: int = 0  # rounds that were done before
    resumed: tuple["Environment", ...] = ()  # where the run went on, if it was stopped

    @property
    def short_commit(self) -> str:
        """The commit in seven letters, with a mark where files differed from it."""
        if self.commit is None:
            return "unknown"
        return self.commit[:7] + (" with changes" if self.dirty else "")

    @property
    def pieces(self) -> tuple["Environment", ...]:
        """Where the run took place, from its start to its end."""
        return (self, *self.resumed)

    def last_changes(self) -> str:
        """Returns in words what was different when the run went on for the last time."""
        before, now = (self, *self.pieces)[-2:]
        names = [f.name for f in fields(self) if f.name not in _OF_ONE_LAUNCH]
        pairs = [(name, getattr(before, name), getattr(now, name)) for name in names]
        return ", ".join(f"{name} {new} (was {old})" for name, old, new in pairs if new != old)


def describe_environment(
    device: str, *, deterministic: bool = False, source: str = ""
) -> Environment:
    """Returns the environment of a run that starts now on ``device``."""
    from .. import __version__  # here, since the package imports this folder

    commit, dirty = _git_state(Path.cwd())
    return Environment(
        allotment=__version__,
        python=platform.python_version(),
        torch=_version("torch"),
        numpy=_version("numpy"),
        platform=platform.platform(),
        device=device,
        n_threads=torch.get_num_threads(),
        commit=commit,
        dirty=dirty,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        deterministic=deterministic,
        source=source,
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _git_state(folder: Path) -> tuple[str | None, bool]:
    """Returns the commit that ``folder`` stands at, and whether a tracked file differs from it."""
    told = os.environ.get("ALLOTMENT_COMMIT")  # for a copy of the repository without its history
    if told:  # as `git describe --dirty` marks it
        return told.removesuffix("-dirty"), told.endswith("-dirty")
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None, False
    # Without other locks no hook of the folder runs, and without submodules no settings of theirs.
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    changes = _git(folder, "--no-optional-locks", *status, off=_own_filters(folder))
    return commit, bool(changes)


def _own_filters(folder: Path) -> list[str]:
    """Returns the settings by which a folder's repository names programs that rewrite files."""
    pattern = r"^filter\..*\.(clean|process|required)$"
    told = _git(folder, "config", "-z", "--show-scope", "--name-only", "--get-regexp", pattern)
    scopes, names = told.split("\0")[::2], told.split("\0")[1::2]
    return [n for scope, n in zip(scopes, names, strict=False) if scope in ("local", "worktree")]


def _git(folder: Path, *arguments: str, off: Sequence[str] = ()) -> str:
    """Returns what git answers with some settings off; empty where git or repository is missing."""
    # A folder's own settings may name a program that git runs to find out what has changed.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    changed = {"GIT_CONFIG_COUNT": str(len(off))} if off else {}
    for number, name in enumerate(off):
        nothing = "false" if name.endswith(".required") else ""
        changed |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": nothing}
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # a folder's own names, in whatever encoding
            timeout=10,
            check=False,
            env=os.environ | changed,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
