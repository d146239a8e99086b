"""Commands in processes of their own, to be stopped and killed."""

import os
import subprocess
import sys
from pathlib import Path


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Starts a command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "allotment", *arguments],
        cwd=folder,
        # Unbuffered, so that what a process said is known when it is killed.
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]", seconds: float = 300) -> tuple[str, str]:
    """Waits for the end of a process; returns what it said on either stream."""
    try:
        return process.communicate(timeout=seconds)
    finally:
        process.kill()
