"""The plain loops of the benchmarks train what the experiments declare."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from pytest import CaptureFixture, MonkeyPatch, approx, mark, param
from torch import nn
from torch.testing import assert_close

from allotment.modules import MultiTaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.records import SpeedRecord, read_profile, read_speed
from allotment.report import speed_table
from benchmarks import contestants, floor, profiled, scaling, speed
from benchmarks.reference import (
    MnistNetwork,
    ModularLayer,
    PairsNetwork,
    train_mnist,
    train_two_pairs,
)
from benchmarks.reference_images import ImageNetwork, clusters_components, omniglot_components


def omniglot_reference(widths: list[int], p_init: float) -> ImageNetwork:
    layers = [omniglot_components(stride) for stride in (2, 2, 1, 2, 2, 1, 2, 1)]
    return ImageNetwork((1, 48), layers, widths, p_init)


def clusters_reference(widths: list[int], p_init: float) -> ImageNetwork:
    return ImageNetwork((3, 8), [clusters_components() for _ in range(3)], widths, p_init)


def shapes(network: nn.Module) -> Counter[tuple[int, ...]]:
    return Counter(tuple(parameter.shape) for parameter in network.parameters())


def test_plain_networks_have_the_parameters_of_ours() -> None:
    for name, reference, n_outputs in (
        ("two_pairs", PairsNetwork(), 1),
        ("mnist", MnistNetwork(), 10),
    ):
        experiment = EXPERIMENTS[name]
        outputs = dict.fromkeys("abcd", n_outputs)
        ours = experiment.build_network(experiment.method("gumbel"), outputs, seed=0)
        assert shapes(reference) == shapes(ours), name


@mark.parametrize(
    ("name", "reference", "shape"),
    [
        ("omniglot", omniglot_reference, (1, 105, 105)),
        ("clusters", clusters_reference, (3, 32, 32)),
    ],
)
def test_plain_networks_of_images_compute_what_ours_do(
    name: str, reference: Callable[[list[int], float], ImageNetwork], shape: tuple[int, ...]
) -> None:
    experiment = EXPERIMENTS[name]
    outputs = {"a": 3, "b": 5}
    ours = experiment.build_network(experiment.methods[-1], outputs, seed=0).eval()
    plain = reference(list(outputs.values()), 0.5).eval()
    assert shapes(plain) == shapes(ours)
    assert isinstance(ours, MultiTaskNetwork) and ours.heads is not None
    pairs: list[tuple[nn.Module, nn.Module]] = [(plain.stem, ours.stem), (plain.heads, ours.heads)]
    norms = [m for m in ours.layers if isinstance(m, nn.GroupNorm)]
    for layer, norm, our_layer, our_norm in zip(
        plain.layers, plain.norms, ours.modular_layers, norms, strict=True
    ):
        assert isinstance(layer, ModularLayer)
        pairs += [(layer.components, our_layer.components), (norm, our_norm)]
        nn.init.constant_(layer.logits[..., 0].detach(), 50.0)
        nn.init.constant_(our_layer.allocation.get_parameter("logits")[..., 0].detach(), 50.0)
    for theirs, own in pairs:
        for p, q in zip(theirs.parameters(), own.parameters(), strict=True):
            p.detach().copy_(q)
    x = torch.rand(2, *shape)
    for task in range(2):
        with torch.no_grad():
            assert_close(plain(x, task, 1.0), ours(x, task), rtol=1e-4, atol=1e-5)


def test_the_plain_loops_learn() -> None:
    losses = [loss.item() for loss in train_two_pairs(60, torch.device("cpu"))]
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    images = torch.randint(256, (20, 28, 28), dtype=torch.uint8)
    found = [
        loss.item() for loss in train_mnist(3, images, torch.arange(20) % 10, torch.device("cpu"))
    ]
    # About log 10: nothing is learnt in three rounds. A round has 64 examples on a fresh network,
    # whose mean loss was between 2.2 and 2.5 for twenty seeds.
    assert found == approx([2.35] * 3, abs=0.35)


@mark.parametrize("name", ["two_pairs", param("mnist", marks=mark.slow)])
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


@mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mkldnn_convolution", "convolutions"),
        ("sm90_xmma_dgrad_implicit_gemm_bf16bf16_f32", "convolutions"),
        ("_convolve", "convolutions"),
        ("aten::bmm", "products"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNN", "products"),
        ("_normalise_backward", "normalisation"),
        ("_forward", "normalisation"),
        ("_pool_backward", "pools"),
        ("_add_weighted_backward", "mixing"),
        ("_add_up", "sums"),
        ("_draw", "gates"),
        ("aten::_fused_adam_", "optimizer"),
        ("Memcpy DtoD (Device -> Device)", "copies and layouts"),
        ("aten::select", "views and room"),
        ("aten::select_backward", "indexing"),
        ("aten::mul", "element by element, and others"),
    ],
)
def test_operations_are_told_apart_by_their_names(name: str, kind: str) -> None:
    assert profiled.kind_of(name) == kind


def test_a_profile_adds_up(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "N_WARM_UP", 1)
    path = tmp_path / "profile" / "mnist.json"
    assert profiled.main(["mnist", "--runs", "2", "--tasks", "1", "--json", str(path)]) == 0
    record = read_profile(path)
    assert record.label == "allotment, 2 runs together"
    assert 0 < record.busy <= record.profiled
    # One operation at a time on a CPU; what they take is rounded to whole microseconds.
    n_calls = sum(part.n_calls for part in record.parts) / 2  # of one run
    spent = sum(part.milliseconds for part in record.parts)
    assert spent == approx(record.busy, abs=1e-3 * n_calls)
    assert {"products", "pools", "optimizer"} <= {part.kind for part in record.parts}
    assert "| pools |" in speed_table(tmp_path)


@mark.slow
def test_the_cost_of_a_step_is_measured_for_each_size(capsys: CaptureFixture[str]) -> None:
    sizes = ["--tasks", "2", "4", "--components", "2", "--runs", "1", "2"]
    assert scaling.main([*sizes, "--small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line[:1].isalpha()][1:] == [
        ["tasks", "2"],
        ["tasks", "4"],
        ["components", "2"],
        ["runs", "1"],
        ["runs", "2"],
    ]
