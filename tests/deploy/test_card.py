"""The card of a task: true numbers, and names that stay names."""

from dataclasses import replace
from pathlib import Path
from re import fullmatch
from typing import Any

import torch
from pytest import fixture, mark, raises
from torch import nn

import allotment as al
from allotment.deploy import Card, card_of
from allotment.experiments import Experiment, Method, Sweep, run_sweep, using
from allotment.records import read_run
from allotment.tasks import TablePreprocessing, TargetColumn

ODD = "a|b <script>*x*</script> `c`"


def network(allocate: Any, outputs: Any) -> al.MultiTaskNetwork:
    parts = [nn.Sequential(nn.Linear(6, 8), nn.ReLU()) for _ in range(2)]
    layer = al.ModularLayer(parts, allocate(2), names=["left", "right"])
    return al.MultiTaskNetwork(None, [layer], {n: nn.Linear(8, k) for n, k in outputs.items()})


@fixture(scope="module")
def made(tmp_path_factory: Any) -> tuple[Card, Path]:
    torch.manual_seed(0)
    x = torch.randn(40, 6)
    tasks = [
        al.Task(ODD, (x, (x[:, 0] > 0).long()), test=(x, (x[:, 0] > 0).long())),
        al.Task("other", (x, x[:, :1].clone()), test=(x, x[:, :1].clone())),
    ]
    rows = [[1, 0], [1, 1]]
    mine = Experiment(
        name="mine",
        tasks=tasks,
        network=network,
        methods=[Method(name="fixed", allocation=using(_Fixed, rows=rows))],
        training=al.TrainingSettings(rounds=10).changed(allocation_learning_rate=0.03),
    )
    (folder,) = run_sweep(Sweep(experiment=mine, out=tmp_path_factory.mktemp("runs")))
    trained = al.load(folder, experiment=mine)
    record = read_run(folder)
    record = replace(record, outcome=replace(record.outcome, best_round=7))
    return card_of(record, trained, tasks[0]), folder


class _Fixed(al.FixedMatrix):
    def __init__(self, n_tasks: int, n_components: int, *, rows: Any) -> None:
        super().__init__(rows)


def rows_of(card: Card, caption: str) -> dict[str, tuple[str, ...]]:
    table = next(table for table in card.tables if table.caption == caption)
    return {row[0]: row[1:] for row in table.rows}


def test_costs_are_those_of_the_network_and_of_the_part(made: Any) -> None:
    card, _ = made
    costs = rows_of(card, "Cost, before and after")
    linear, heads = 6 * 8 + 8, [8 * 2 + 2, 8 * 1 + 1]
    whole, own = 2 * linear + sum(heads), linear + heads[0]
    assert costs["Parameters"] == (f"{whole}", f"{own}", f"{100 * own / whole:.0f} %")
    # Two operations for each product, and one task's head in either.
    products = (2 * (2 * 6 * 8 + 8 * 2), 2 * (6 * 8 + 8 * 2))
    assert costs["Operations for one example"] == (*map(str, products), "57 %")
    assert all(float(ms) > 0 for ms in costs["Milliseconds for a batch of 64"][:2])
    assert "57 % of the operations" in card.summary


def test_results_sharing_and_origin_are_those_of_the_record(made: Any) -> None:
    card, folder = made
    test: Any = read_run(folder).outcome.test
    assert rows_of(card, "Results")["Loss"] == (f"{test.losses[0]:.4g}",)
    assert rows_of(card, "Results")["Accuracy"] == (f"{100 * test.accuracies[0]:.2f} %",)
    assert rows_of(card, "What it shares, and with whom") == {"other": ("1 of 1", "2")}
    assert rows_of(card, "What it uses") == {"1": ("1 of 2", "left")}
    origin = rows_of(card, "Where it came from")
    assert origin["Examples"][0].startswith("40 train examples, 40 test examples")
    assert origin["Rounds"] == ("10; weights of round 7",)
    assert origin["Settings"] == (
        "batch_size 64, schedule alternating, learning_rate 0.001, allocation_learning_rate 0.03",
    )


@mark.parametrize(("std", "units"), [(1.0, ""), (77.13, ", in units of .*deviation, 77.13")])
def test_the_units_of_losses_are_told(made: Any, std: float, units: str) -> None:
    _, folder = made
    columns = TablePreprocessing(
        (), (TargetColumn("other", std=std), TargetColumn(ODD, ("a", "b")))
    )
    record, net = read_run(folder), network(lambda n: al.SharedBottom(n, 2), {ODD: 2, "other": 1})
    x = torch.randn(8, 6)
    for name, expected in ((ODD, "Results"), ("other", f"Results{units}")):
        task = al.Task(name, (x, x[:, :1].clone()))
        card = card_of(record, net, task, preprocessing=columns)
        assert fullmatch(expected, card.tables[1].caption)


def test_names_are_shown_as_they_are(made: Any, tmp_path: Path) -> None:
    card, _ = made
    card.write(tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text()
    assert "<script" not in page and "a|b &lt;script&gt;*x*&lt;/script&gt; `c`" in page
    assert page.count("<table>") == len(card.tables) == 5
    card.write(tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text()
    assert text.startswith("# a|b \\<script\\>\\*x\\*\\</script\\> \\`c\\`\n")
    with raises(ValueError, match=r"`output` should end in .html or .md. Found `card.pdf`"):
        card.write(tmp_path / "card.pdf")
