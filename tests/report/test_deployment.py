"""What budgets cost and bring, and what new tasks reach: from records to tables."""

from dataclasses import replace
from pathlib import Path

from pytest import raises

from allotment.records import (
    BudgetRecord,
    BudgetRow,
    GrowthRecord,
    GrowthRow,
    RecordError,
    read_budgets,
    read_growth,
)
from allotment.report import deployment_blocks
from tests.records.made_up import ENVIRONMENT

HALF = BudgetRow(
    suite="Made up",
    cost="flops",
    budget=0.5,
    scores=(0.9, 0.92),
    shares_open=(0.5, 0.6),
    flops=(50.0, 50.0),
    full_flops=100.0,
    milliseconds={"1": (1.0, 2.0)},
    full_milliseconds={"1": (2.0, 3.0)},
    trunk_flops=(120.0, 120.0),
    sum_flops=(200.0, 200.0),
    trunk_milliseconds={"1": (2.0, 2.0)},
    sum_milliseconds={"1": (4.0, 8.0)},
)
ALL = replace(HALF, cost="count", budget=1.0, scores=(0.95, 0.95), flops=(100.0, 100.0))
BUDGETS = BudgetRecord(
    command="python budgets.py",
    description="a small network",
    processor="a made-up processor",
    environment=ENVIRONMENT,
    rows=(ALL, HALF),
)
REACHED = (("added", 100, 0.8), ("alone", 100, 0.7), ("added", 1_000, 0.9), ("alone", 1_000, 0.91))
GROWTH = GrowthRecord(
    command="python growing.py",
    description="a late task",
    processor="a made-up processor",
    environment=ENVIRONMENT,
    rows=tuple(
        GrowthRow(suite="Made up", task="late", way=way, n_examples=n, scores=(score,))
        for way, n, score in REACHED
    ),
)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    budgets, growth = tmp_path / "budgets_a.json", tmp_path / "growing_a.json"
    budgets.write_text(BUDGETS.to_json())
    growth.write_text(GROWTH.to_json())
    assert read_budgets(budgets) == BUDGETS
    assert read_growth(growth) == GROWTH
    with raises(RecordError, match="A record of budgets"):
        read_budgets(growth)


def test_a_budget_stands_beside_the_full_network(tmp_path: Path) -> None:
    (tmp_path / "budgets_a.json").write_text(BUDGETS.to_json())
    blocks = deployment_blocks(tmp_path)
    assert "`python budgets.py`, a small network" in blocks["budgets"]
    # Seed by seed: 2 and 1.5 times as fast.
    row = "| Made up | 0.5 of FLOPs | 91.0 ± 1.4 sd (n=2) | 55 % | 50 % | 1.5 | 1.75 |"
    assert row in blocks["budgets"].splitlines()
    assert "| Made up | none | " in blocks["budgets"]
    assert "| Made up | 0.5 of FLOPs | 60 % | 2 | 3.00 |" in blocks["trunk"].splitlines()
    assert blocks["growth"] == "Not measured yet."


def test_merged_networks_stand_behind_the_others_among_budgets_alone(tmp_path: Path) -> None:
    (tmp_path / "budgets_b.json").write_text(BUDGETS.to_json())
    merged = replace(BUDGETS, rows=(replace(HALF, suite="Made up, merged"),))
    (tmp_path / "merged_a.json").write_text(merged.to_json())
    blocks = deployment_blocks(tmp_path)
    assert blocks["budgets"].index("| Made up | ") < blocks["budgets"].index("| Made up, merged |")
    assert "merged" not in blocks["trunk"]


def test_a_late_task_has_a_row_for_each_way(tmp_path: Path) -> None:
    (tmp_path / "growing_a.json").write_text(GROWTH.to_json())
    rows = deployment_blocks(tmp_path)["growth"].splitlines()
    assert "| Made up: late | 100 examples | 1,000 examples |" in rows
    assert "| alone | 70 (n=1, no spread) | 91 (n=1, no spread) |" in rows
