"""Processes killed at random moments: what is left in the end is what one never killed leaves."""

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import torch
from pytest import mark, param

from tests.cli.processes import ended, started
from tests.experiments.test_running import records_in

# Small programs with a checkpoint after every block, so that many kills fall into the writing of
# one. Learnt and fixed gates, fresh samples and stored data, with and without a choice of the best.
PAIRS = ("two_pairs", "--runs", "2", "--rounds", "500", "--checkpoint-every", "10")
DIGITS = ("digits", "--runs", "2", "--rounds", "300", "--checkpoint-every", "10")
ON_CPU = ("--device", "cpu")
ON_GPU = ("--device", "cuda", "--deterministic")
needs_gpu = mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def records_without_commands(out: Path) -> dict[str, Any]:
    """Returns what a sweep left, but for commands, since they name the output folder."""
    records = records_in(out)
    for name, content in records.items():
        if name.endswith("settings.json") or name == "launch.json":
            records[name] = {k: v for k, v in json.loads(content).items() if k != "command"}
    return records


def begun_or_resumed(folder: Path, trial: str, options: tuple[str, ...]) -> "subprocess.Popen[str]":
    """Starts a sweep, or has it go on; killed before it wrote its options, it is still new."""
    place = "--resume" if (folder / trial / "launch.json").exists() else "--out"
    return started(folder, "run", options[0], place, trial, *options[1:])


def seconds_to_end(process: "subprocess.Popen[str]", most: float) -> float | None:
    """Returns how long a process took; None where it took longer than it may and was killed."""
    begun = time.monotonic()
    try:
        process.wait(timeout=most)
    except subprocess.TimeoutExpired:
        process.kill()
        return None
    return time.monotonic() - begun


def assert_killing_changes_nothing(
    folder: Path, options: tuple[str, ...], n_kills: int, seed: int
) -> None:
    """Asserts that sweeps end alike, whatever kills they survive, until there were enough."""
    moments, said, n_done, trial = random.Random(seed), "", 0, 1
    n_writing = 0
    process = started(folder, "run", *options, "--out", "whole")
    length = seconds_to_end(process, 600.0) or 600.0
    assert ended(process)[1] == ""
    whole = records_without_commands(folder / "whole")
    while n_done < n_kills or (folder / f"trial-{trial}").exists():
        is_new = not (folder / f"trial-{trial}").exists()
        process = begun_or_resumed(folder, f"trial-{trial}", options)
        most = moments.uniform(0.3, 0.8) * length if n_done < n_kills else 600.0
        seconds = seconds_to_end(process, most)
        text, error = ended(process)
        assert error == ""
        said += text
        if seconds is None:
            n_done += 1
            n_writing += any(folder.glob(f"trial-{trial}/checkpoints/*/.unfinished"))
            continue
        assert process.returncode == 0, text
        assert records_without_commands(folder / f"trial-{trial}") == whole, n_done
        trial += 1
        length = min(length, seconds) if is_new else length  # the machine may have become faster
    assert n_done == n_kills
    n_going_on = said.count("Resuming after round")
    assert n_going_on >= n_kills / 4, "too few kills fell into training to show much"
    print(f"{n_kills} kills, {n_going_on} times gone on from a checkpoint, {n_writing} times one")
    print(f"was half-written; {trial - 1} sweeps ended alike")


def kill_in_training(process: "subprocess.Popen[str]", trial: Path, moments: random.Random) -> bool:
    """Kills a process soon after it has written one more checkpoint; tells whether it was in time.

    However slow the machine is, the kill falls into training and often into the next checkpoint.
    """
    before = set(trial.glob("checkpoints/*/round-*"))
    while process.poll() is None and set(trial.glob("checkpoints/*/round-*")) <= before:
        time.sleep(0.01)
    time.sleep(moments.uniform(0.0, 0.1))
    process.kill()
    return process.wait() != 0


@mark.parametrize(
    "options",
    [
        param((*PAIRS, "--method", "gumbel", *ON_CPU), id="two_pairs on a CPU", marks=mark.slow),
        param((*PAIRS, "--method", "gumbel", *ON_GPU), id="two_pairs on a GPU", marks=needs_gpu),
        param((*DIGITS, "--method", "gumbel", *ON_GPU), id="digits on a GPU", marks=needs_gpu),
    ],
)
def test_a_few_kills_change_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    process = started(tmp_path, "run", *options, "--out", "whole")
    assert ended(process)[1] == ""
    moments, said = random.Random(0), ""
    for _ in range(3):
        process = begun_or_resumed(tmp_path, "trial", options)
        assert kill_in_training(process, tmp_path / "trial", moments), "it ended before the kill"
        said += ended(process)[0]
    process = begun_or_resumed(tmp_path, "trial", options)
    text, error = ended(process)
    assert (process.returncode, error) == (0, ""), text
    assert (said + text).count("Resuming after round") == 3
    whole = records_without_commands(tmp_path / "whole")
    assert records_without_commands(tmp_path / "trial") == whole


@mark.slow
@mark.parametrize(
    "options", [param((*PAIRS, *ON_CPU), id="two_pairs"), param((*DIGITS, *ON_CPU), id="digits")]
)
def test_many_kills_change_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    assert_killing_changes_nothing(tmp_path, options, n_kills=30, seed=1)
