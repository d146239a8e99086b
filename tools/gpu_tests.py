"""Runs the tests on a GPU and keeps what came of them, with device, date and commit.

`make test-gpu` runs it. It needs torch with CUDA, pytest and pytest-xdist, and installs nothing;
tests of packages that are not there are skipped. The record is `results/gpu_tests.json`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

REPOSITORY = Path(__file__).parents[1]
RECORD = REPOSITORY / "results" / "gpu_tests.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tests, those named or all, and returns pytest's status."""
    chosen = list(sys.argv[1:] if arguments is None else arguments) or ["tests"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # pytest-benchmark, where it is installed, warns, and warnings are errors here.
        command = ["-m", "pytest", "-p", "no:benchmark", "-n", "6", "-q", f"--junitxml={report}"]
        environment = os.environ | {"ALLOTMENT_TEST_DEVICE": "cuda"}
        done = subprocess.run(
            [sys.executable, *command, *chosen], cwd=REPOSITORY, env=environment, check=False
        )
        found = counts(report.read_text(encoding="utf-8"))
    RECORD.write_text(json.dumps(machine() | {"tests": chosen} | found, indent=1) + "\n")
    print(f"Kept: {RECORD.relative_to(REPOSITORY)}")
    return done.returncode


def counts(report: str) -> dict[str, Any]:
    """Returns how many tests passed, failed or were skipped, and why, from pytest's XML."""
    (suite,) = ElementTree.fromstring(report).iter("testsuite")
    total, failed, errors, skipped = (
        int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
    )
    reasons = Counter(skip.get("message", "") for skip in suite.iter("skipped"))
    return {
        "passed": total - failed - errors - skipped,
        "failed": failed + errors,
        "skipped": skipped,
        "why_skipped": dict(reasons.most_common()),
        "seconds": round(float(suite.get("time", 0.0)), 1),
    }


def machine() -> dict[str, Any]:
    """Returns where and when, and of which commit."""
    import torch  # here, so that counting needs nothing

    from allotment.records import describe_environment

    now = describe_environment(torch.cuda.get_device_name())
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": now.commit,
        "device": now.device,
        "torch": now.torch,
        "python": now.python,
    }


def sentence(record: dict[str, Any]) -> str:
    """Returns what a record says, for the README.

    >>> sentence({"device": "NVIDIA H200", "date": "2026-11-18", "commit": "0123456789",
    ...           "passed": 1744, "failed": 0, "skipped": 70, "seconds": 82.7})
    'NVIDIA H200, 2026-11-18, commit 0123456: 1,744 passed, 0 failed, 70 skipped in 83 s'
    """
    found = ", ".join(f"{record[name]:,} {name}" for name in ("passed", "failed", "skipped"))
    place = f"{record['device']}, {record['date']}, commit {str(record['commit'])[:7]}"
    return f"{place}: {found} in {record['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
