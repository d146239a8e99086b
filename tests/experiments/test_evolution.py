"""Ways of sharing that evolve are methods of an experiment like any other."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import allotment as al
from allotment.allocation import ChampionChallenger, PathNet
from allotment.experiments import Allocate, Method, Sweep, run_sweep, using
from allotment.records import read_run, read_runs
from tests.experiments.test_own import OWN


def network(allocate: Allocate, outputs: Mapping[str, int]) -> nn.Module:
    """Tells each layer its place, as the paper's networks do."""
    layers = [
        al.ModularLayer([nn.Linear(6, 6) for _ in range(3)], allocate(3, depth=depth, n_layers=2))
        for depth in range(2)
    ]
    heads = {name: nn.Linear(6, n_outputs) for name, n_outputs in outputs.items()}
    return al.MultiTaskNetwork(None, layers, heads)


HELD_OUT = {"allocation_held_out": 0.3}
EVOLUTION = replace(
    OWN,
    name="evolution",
    network=network,
    methods=[
        Method(
            name="pathnet",
            allocation=using(PathNet, n_active=2, n_members=4, n_each=2),
            training=HELD_OUT,
        ),
        Method(name="ctr", allocation=using(ChampionChallenger, n_each=2), training=HELD_OUT),
        Method(name="gumbel", allocation=using(al.GumbelMatrix), training=HELD_OUT),
    ],
    training=al.TrainingSettings(rounds=30),
)


def test_runs_are_recorded_and_networks_come_back(tmp_path: Path) -> None:
    folders = run_sweep(Sweep(experiment=EVOLUTION, out=tmp_path))
    records = read_runs(tmp_path)
    assert len(records) == 6
    assert all(record.finished and record.header.is_binary for record in records)
    assert {record.outcome.n_together for record in records} == {2}
    chosen = {r.header.settings["training"]["optimization"]["allocation_held_out"] for r in records}
    assert chosen == {0.3}
    for folder in folders:
        loaded, record = al.load(folder, experiment=EVOLUTION), read_run(folder)
        np.testing.assert_allclose(loaded.matrix().detach(), record.outcome.matrix, atol=1e-6)
    rows = EVOLUTION.report_spec(records).rows
    assert [(row.method, row.learnt) for row in rows] == [
        ("pathnet", True),
        ("ctr", True),
        ("gumbel", True),
    ]


def test_a_layer_is_told_its_place_where_the_method_asks_for_it() -> None:
    def allocate(n_components: int, **offered: Any) -> al.Allocation:
        return using(ChampionChallenger)(2, n_components, **offered)

    built = network(allocate, {"a": 2, "b": 3})
    layers = [module for module in built.modules() if isinstance(module, al.ModularLayer)]
    allocations = [layer.allocation for layer in layers]
    assert [vars(allocation)["depth"] for allocation in allocations] == [0, 1]
    assert [vars(allocation)["n_layers"] for allocation in allocations] == [2, 2]
