"""The plain loops of the benchmarks train what the experiments declare."""

from collections import Counter
from pathlib import Path

import torch
from pytest import CaptureFixture, MonkeyPatch, approx, mark
from torch import nn

from allotment.experiments import EXPERIMENTS
from allotment.report import SpeedRecord, read_speed, speed_table
from benchmarks import contestants, floor, scaling, speed
from benchmarks.reference import MnistNetwork, PairsNetwork, train_mnist, train_two_pairs


def shapes(network: nn.Module) -> Counter[tuple[int, ...]]:
    return Counter(tuple(parameter.shape) for parameter in network.parameters())


@mark.parametrize(
    ("name", "reference", "n_outputs"),
    [("two_pairs", PairsNetwork, 1), ("mnist", MnistNetwork, 10)],
)
def test_the_plain_network_has_the_parameters_of_ours(
    name: str, reference: type[nn.Module], n_outputs: int
) -> None:
    experiment = EXPERIMENTS[name]
    outputs = dict.fromkeys("abcd", n_outputs)
    ours = experiment.build_network(experiment.method("gumbel"), outputs, seed=0)
    assert shapes(reference()) == shapes(ours)


def test_the_plain_loops_learn() -> None:
    losses = [loss.item() for loss in train_two_pairs(60, torch.device("cpu"))]
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    images = torch.randint(256, (20, 28, 28), dtype=torch.uint8)
    found = [
        loss.item() for loss in train_mnist(3, images, torch.arange(20) % 10, torch.device("cpu"))
    ]
    assert found == approx([2.3] * 3, rel=1.0)  # about log 10: nothing is learnt in three rounds


@mark.parametrize("name", ["two_pairs", "mnist"])
def test_a_benchmark_leaves_a_record_that_becomes_a_table(
    name: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(contestants, "N_WARM_UP", 1)
    monkeypatch.setitem(floor.SIDE, "cpu", 64)
    path = tmp_path / "speed" / f"{name}.json"
    few = ["--runs", "1", "2", "--segments", "1", "--seconds", "0.01"]
    assert speed.main([name, *few, "--json", str(path)]) == 0
    record: SpeedRecord = read_speed(path)
    assert record.command.startswith(f"python benchmarks/speed.py {name} --runs 1 2")
    assert [(t.n_runs, len(t.milliseconds)) for t in record.timings] == [(1, 1), (1, 1), (2, 1)]
    assert "| allotment, 2 runs together |" in speed_table(path.parent)


def test_the_cost_of_a_step_is_measured_for_each_size(capsys: CaptureFixture[str]) -> None:
    assert scaling.main(["--tasks", "2", "4", "--components", "2", "--runs", "1", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line[:1].isalpha()][1:] == [
        ["tasks", "2"],
        ["tasks", "4"],
        ["components", "2"],
        ["runs", "1"],
        ["runs", "2"],
    ]
