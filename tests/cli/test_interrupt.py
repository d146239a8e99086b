"""Ctrl-C in the middle of training."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from allotment.records import unfinished_runs


def wait_for(path: Path, process: "subprocess.Popen[str]", seconds: float = 60) -> None:
    """Waits until a file is there and its writer still at work."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"no {path} after {seconds} s"
        time.sleep(0.02)


def test_an_interrupted_run_says_so_in_its_record_and_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "allotment", "run", "two_pairs", "--out", "out"]
    process = subprocess.Popen(
        [*command, "--method", "gumbel", "--runs", "2"],  # as long as declared: not over soon
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(tmp_path / "out" / "gumbel" / "seed-001" / "metrics.jsonl", process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert error.strip() == "allotment: stopped; runs under way are marked interrupted."
    folders = unfinished_runs(tmp_path / "out")
    assert [folder.name for folder in folders] == ["seed-000", "seed-001"]
    for folder in folders:
        assert "KeyboardInterrupt" in (folder / "interrupted.json").read_text()
        assert not (folder / "summary.json").exists()
