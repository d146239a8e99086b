import re
import subprocess
import sys
from pathlib import Path

from pytest import raises

import allotment as al

REPOSITORY = Path(__file__).parents[1]


def test_the_library_is_imported_without_what_draws() -> None:
    source = """
import sys
import allotment as al
late = ("matplotlib", "scipy", "sklearn")
assert not any(name in sys.modules for name in late)
assert {"analysis", "report"} <= set(dir(al))
assert al.analysis.distinct_groups([[1], [1]]) == [[0, 1]]
assert "matplotlib" not in sys.modules
assert al.report.allocation_map([[1]], ["a"])
"""
    subprocess.run([sys.executable, "-c", source], check=True)


def test_a_name_that_is_not_there_is_named() -> None:
    with raises(AttributeError, match="module 'allotment' has no attribute 'reports'"):
        _ = al.reports  # type: ignore[attr-defined]


def test_one_version_is_told_everywhere() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert f"\nversion: {al.__version__}\n" in citation
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[(\d.*?)\]", changes, re.MULTILINE)[0] == al.__version__
