import ast
import io
from pathlib import Path

from pytest import MonkeyPatch, mark
from rich.console import Console

from tests.made_up_tree import write_tree
from tools.imports import Package
from tools.metrics import ROOT, Measure, complexity, running_measures, show, static_measures
from tools.one_fit import OneFit

HELD = {
    *("median file length, lines", "longest file, lines"),
    *("functions above complexity 10", "names at the top"),
}


@mark.parametrize(
    ("body", "expected"),
    [
        ("return 1", 1),
        ("if a and b or c: return 1", 4),
        ("return 1 if a else 2", 2),
        ("return [x for x in a if x if b]", 4),
        ("for x in a:\n  while x: assert x", 4),
        ("match a:\n  case 1: pass\n  case _: pass", 3),
        ("try: pass\nexcept ValueError: pass\nelse: pass", 2),
        ("def inner():\n  if a: return b\nreturn inner", 1),
    ],
)
def test_complexity_counts_ways(body: str, expected: int) -> None:
    function = ast.parse("def f():\n" + "\n".join(f"  {line}" for line in body.splitlines()))
    assert complexity(function.body[0]) == expected


def test_measures_of_a_made_up_package(tmp_path: Path) -> None:
    branches = "".join(f"    if {n}: pass\n" for n in range(10))
    files = {
        "__init__.py": "from .shop import sell as sell\n",
        "_checks.py": f"def check():\n{branches}",
        "shop/__init__.py": "from ._till import sell as sell\n",
        "shop/_till.py": "from .._checks import check\ndef sell(): ...\n",
        "_engine/__init__.py": "from ._motor import Motor as Motor\n",
        "_engine/_motor.py": "class Motor: ...\n",
    }
    measures = static_measures(Package(write_tree(tmp_path / "toy", files)))
    assert {each.name: each.value for each in measures} == {
        "longest import chain": 2,
        "modules with one importer, %": 33,
        "functions above complexity 10": 1,
        "median file length, lines": 1,
        "longest file, lines": 11,
        "lines of the package": 17,
        "names at the top": 1,
        "names exported in the folders": 1,  # the private folder's are not
    }
    assert measures[0].places == ("toy.shop._till", "toy._checks")
    assert measures[1].places == ("toy._checks <- toy.shop._till",)
    assert measures[2].places == (" 11 toy._checks.check",)


@mark.parametrize(
    ("measure", "is_met", "limit"),
    [
        (Measure("n", 12, 12), True, "at most 12"),
        (Measure("n", 13, 12), False, "at most 12"),
        (Measure("n", 60, 150, 60), True, "60 to 150"),
        (Measure("n", 59, 150, 60), False, "60 to 150"),
        (Measure("n", 1e6), True, ""),
    ],
)
def test_limits(measure: Measure, is_met: bool, limit: str) -> None:
    assert (measure.is_met, measure.limit) == (is_met, limit)


def test_places_are_shown_where_a_limit_is_missed() -> None:
    page = io.StringIO()
    measures = [Measure("n", 1, 1, places=("here",)), Measure("m", 2, 1, places=("there [x]",))]
    show(measures, Console(file=page))
    table, places = page.getvalue().split("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["measure", "found", "limit"],
        ["n", "1", "at", "most", "1"],
        ["m", "2", "at", "most", "1", "look"],
    ]
    assert places == "m:\n  there [x]\n"


def test_what_one_fit_goes_through_is_counted(monkeypatch: MonkeyPatch) -> None:
    seen = OneFit(files=("a.py", "b.py", "c.py"), eager=("a.py: fit",), recorded=("a.py: fit", "b"))
    monkeypatch.setattr("tools.one_fit.one_fit", lambda: seen)  # a real one has a test of its own
    assert [(each.value, each.places) for each in running_measures()] == [
        (1, seen.eager),
        (2, seen.recorded),
        (3, seen.files),
    ]


def test_limits_that_are_met_stay_met() -> None:
    measures = {each.name: each for each in static_measures(Package(ROOT))}
    assert set(measures) >= HELD
    missed = [f"{name}: {measures[name].value:g}" for name in HELD if not measures[name].is_met]
    assert not missed, f"{missed}; `make metrics` says where to look."
