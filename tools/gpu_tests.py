"""Runs the tests on a GPU or a CPU and keeps what came of them, with device, date and commit.

`make test-gpu` runs it. It needs torch with CUDA, pytest and pytest-xdist, and installs nothing;
tests of packages that are not there are skipped. The record is `results/gpu_tests.json`, or with
``--device cpu`` `results/cpu_tests.json`; `make docs` shows both in the README.
"""

import argparse
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
RESULTS = REPOSITORY / "results"
RECORDS = {"cuda": "gpu_tests.json", "cpu": "cpu_tests.json"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tests, those named or all, and returns pytest's status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=RECORDS, default="cuda")
    parser.add_argument("--processes", default="6", help="a number, or auto")
    parser.add_argument("tests", nargs="*", default=["tests"])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # pytest-benchmark, where it is installed, warns, and warnings are errors here.
        command = ["-m", "pytest", "-p", "no:benchmark", "-q", f"--junitxml={report}"]
        command += ["-n", options.processes, "--dist", "loadgroup", *options.tests]
        # Tests start processes in folders of their own, to which a relative path means another.
        places = [REPOSITORY / "src", *map(Path, os.environ.get("PYTHONPATH", "").split(":"))]
        environment = os.environ | {
            "ALLOTMENT_TEST_DEVICE": options.device,
            "PYTHONPATH": os.pathsep.join(str(place.resolve()) for place in places),
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=REPOSITORY, env=environment, check=False
        )
        found = counts(report.read_text(encoding="utf-8"))
    record = machine(options.device) | {"tests": options.tests} | found
    path = RESULTS / RECORDS[options.device]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"Kept: {path.relative_to(REPOSITORY)}")
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


def machine(device: str) -> dict[str, Any]:
    """Returns where and when, and of which commit."""
    from allotment.experiments import device_name  # here, so that counting needs nothing
    from allotment.records import describe_environment

    now = describe_environment(device_name(device))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": now.short_commit,
        "device": now.device,
        "torch": now.torch,
        "python": now.python,
    }


def with_records(readme: str) -> str:
    """Returns the README with what the kept records say, a line for each device."""
    from allotment.report import with_block  # here, for the same reason

    paths = [RESULTS / name for name in reversed(RECORDS.values())]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    return with_block(readme, "tests", "\n".join(f"- {sentence(record)}" for record in records))


def sentence(record: dict[str, Any]) -> str:
    """Returns what a record says, for the README.

    >>> sentence({"device": "NVIDIA H200", "date": "2026-11-18", "commit": "0123456",
    ...           "passed": 1744, "failed": 0, "skipped": 70, "seconds": 82.7, "torch": "2.11.0"})
    'NVIDIA H200: 1,744 tests passed, 0 failed, 70 skipped (2026-11-18, 0123456, torch 2.11.0)'
    """
    found = [f"{record['passed']:,} tests passed", f"{record['failed']:,} failed"]
    found.append(f"{record['skipped']:,} skipped")
    place = f"{record['date']}, {record['commit']}, torch {record['torch']}"
    return f"{record['device']}: {', '.join(found)} ({place})"


if __name__ == "__main__":
    sys.exit(main())
