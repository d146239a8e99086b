"""Calls of the library's functions that work, each of whose arguments may be spoilt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import allotment as al
from allotment import allocation, analysis, report
from tests.records.made_up import PAIRS, a_record, accuracy_run

NAMES = ["a", "b", "c", "d"]


class _Broken:
    """An object that answers every question with an error."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __repr__(self) -> str:
        return "a broken object"


def junk() -> list[Any]:
    """Returns values that hardly any argument takes; made anew, since generators are used up."""
    return [
        *(None, True, -1, 0, 2**70, 0.5, float("nan"), float("inf"), "x", "", b"x"),
        *([], [[]], ["x"], [None], {}, {"a": 1}, set("ab"), (n for n in range(2)), range(3)),
        *(int, len, lambda *a, **k: None, object(), _Broken(), 1j),
        np.array(3.0),
        np.array([1, "x"], dtype=object),
        np.zeros((0, 2)),
        np.full((2, 3), np.nan),
        np.ones(4, dtype=np.uint16),
        torch.tensor(1.0),
        torch.ones(4, 4, requires_grad=True),
        torch.zeros(0),
        torch.ones(2, 2, dtype=torch.complex64),
        nn.Linear(2, 2),
        a_record(),
    ]


@dataclass(frozen=True)
class Call:
    """A function and arguments with which it works."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def layer() -> al.ModularLayer:
    return al.ModularLayer([nn.Linear(3, 2) for _ in range(2)], al.GumbelMatrix(2, 2))


def network() -> al.MultiTaskNetwork:
    heads = {"a": nn.Linear(2, 1), "b": nn.Linear(2, 1)}
    return al.MultiTaskNetwork(None, [layer()], heads)


def tasks() -> list[al.Task]:
    return [al.Task(name, (torch.randn(8, 3), torch.randn(8))) for name in "ab"]


def settings() -> al.TrainingSettings:
    return al.TrainingSettings(rounds=1, batch_size=2)


def of_core() -> list[Call]:
    p, pair = torch.full((4,), 0.5), (torch.randn(8, 3), torch.randn(8))
    return [
        Call("FixedMatrix", al.FixedMatrix, {"matrix": [[1, 0], [1, 1]], "reduce": "mean"}),
        Call("GumbelMatrix", al.GumbelMatrix,
             {"n_tasks": 2, "n_components": 2, "p_init": 0.5, "temperature": al.Annealing(),
              "evaluation": "sampled"}),
        Call("SharedBottom", al.SharedBottom, {"n_tasks": 2, "n_components": 2, "reduce": "sum"}),
        Call("NoSharing", al.NoSharing, {"n_tasks": 2, "n_components": 2}),
        Call("Annealing", al.Annealing, {"start": 5.0, "floor": 0.5}),
        Call("budget_penalty", al.budget_penalty,
             {"probabilities": p, "budget": 0.5, "weight": 1.0, "costs": torch.ones(4)}),
        Call("entropy_penalty", al.entropy_penalty,
             {"probabilities": p, "weight": 1.0, "progress": 0.5, "power": 1.0}),
        Call("connection_penalty", al.connection_penalty,
             {"probabilities": p, "weight": 1.0, "costs": torch.ones(4)}),
        Call("disconnect_penalty", al.disconnect_penalty,
             {"probabilities": p, "layer_sizes": [2, 2], "weight": 1.0}),
        Call("Task", al.Task,
             {"name": "a", "train": pair, "validation": pair, "test": pair, "n_outputs": 1,
              "loss": nn.functional.l1_loss, "metrics": {}, "weight": 1.0, "sampling": 1.0,
              "family": "x"}),
        Call("task pair", lambda inputs, targets: al.Task("a", (inputs, targets)),
             {"inputs": pair[0], "targets": pair[1]}),
        Call("Split", al.Split,
             {"inputs": pair[0], "targets": pair[1], "rows": torch.arange(4),
              "permutation": torch.arange(3), "scale": 1.0}),
        Call("ModularLayer", al.ModularLayer,
             {"components": [nn.Linear(3, 2) for _ in "ab"], "allocation": al.GumbelMatrix(2, 2),
              "names": ["x", "y"], "kinds": ["x", "y"]}),
        Call("MultiTaskNetwork", al.MultiTaskNetwork,
             {"stem": None, "layers": [layer()], "heads": {n: nn.Linear(2, 1) for n in "ab"}}),
        Call("network", lambda **given: network()(**given), {"x": torch.randn(2, 3), "task": "a"}),
        Call("task_embeddings", al.task_embeddings, {"network": network()}),
        Call("extract", al.extract, {"network": network(), "task": "a", "merge": False}),
        Call("modularize", al.modularize,
             {"model": nn.Sequential(nn.Linear(3, 2)), "parts": {"0": 2}, "tasks": ["a", "b"],
              "freeze": None}),
        Call("prune", al.prune, {"network": network(), "components": {}}),
        Call("drop_task", al.drop_task, {"network": network(), "task": "a"}),
        *of_allocations(),
    ]  # fmt: skip


def of_allocations() -> list[Call]:
    """Returns allocations with the numbers that are theirs alone."""
    own = {
        allocation.ScoreFunctionMatrix: {"baseline_decay": 0.9},
        allocation.RoutingPolicy: {"entropy_weight": 0.1},
        allocation.HardConcreteMatrix: {"l0_weight": 0.1},
        allocation.SettlingMatrix: {"settle": 0.3, "pull": 0.0},
        allocation.SNR: {"p_init": 0.5, "l0_weight": 0.1},
    }
    sizes = {"n_tasks": 2, "n_components": 2}
    return [Call(kind.__name__, kind, sizes | numbers) for kind, numbers in own.items()]


def of_training() -> list[Call]:
    runs = [al.Run(network(), tasks(), 0, settings())]
    return [
        Call("Run", al.Run,
             {"model": network(), "tasks": tasks(), "seed": 0, "settings": settings()}),
        Call("train", lambda **given: list(al.train(**given)),
             {"runs": runs, "device": "cpu", "n_last_rounds": 1, "resume_from": None}),
        Call("fit", al.fit,
             {"network": network(), "tasks": tasks(), "settings": settings(), "seed": 0,
              "device": "cpu", "shared_learns": False, "show": False}),
        Call("advise", al.advise, {"result": None}),
        Call("load", al.load, {"folder": "nowhere"}),
        Call("plan", al.plan, {"runs": runs, "device": "cpu"}),
        Call("evaluate", al.evaluate, {"network": network(), "tasks": tasks(), "split": "train"}),
        Call("predict", al.predict,
             {"network": network(), "task": "a", "inputs": torch.randn(4, 3), "batch_size": 2}),
        Call("tasks_from_table", al.tasks_from_table,
             {"inputs": np.ones((30, 2)), "targets": {"a": np.linspace(0, 1, 30)},
              "categorical": [], "max_categories": 4}),
    ]  # fmt: skip


def of_evidence() -> list[Call]:
    runs, similarity = [a_record(), a_record()], analysis.cosine_similarity(PAIRS)
    tested = [accuracy_run([0.5, 0.5, 0.6, 0.7])]
    over_time = np.tile(np.linspace(0, 1, 5)[:, None], (1, 3))
    calls = [
        Call("estimate", analysis.estimate, {"values": [1.0, 2.0]}),
        Call("cosine_similarity", analysis.cosine_similarity, {"embeddings": PAIRS}),
        Call("distinct_groups", analysis.distinct_groups, {"embeddings": PAIRS}),
        Call("loss_band", analysis.loss_band, {"records": runs, "window": 100}),
        Call("paired_difference", analysis.paired_difference,
             {"records_a": runs, "records_b": runs}),
        Call("accuracy_by_group", analysis.accuracy_by_group,
             {"records": tested, "groups": {"g": ["a1", "a2"]}}),
        Call("cut", analysis.cut, {"tree": analysis.linkage(similarity), "n_clusters": 2}),
        Call("usage_by_kind", analysis.usage_by_kind, {"records": runs, "tasks": [0, 1]}),
        Call("allocation_map", report.allocation_map,
             {"embeddings": PAIRS, "task_names": NAMES, "component_names": NAMES,
              "layer_sizes": [2, 2], "families": NAMES}),
        Call("similarity_map", report.similarity_map,
             {"embeddings": PAIRS, "task_names": NAMES, "families": NAMES}),
        Call("task_tree", report.task_tree, {"embeddings": PAIRS, "task_names": NAMES}),
        Call("mds_map", report.mds_map, {"embeddings": PAIRS, "task_names": NAMES}),
        Call("probabilities_over_time", report.probabilities_over_time,
             {"rounds": np.arange(5), "probabilities": over_time}),
    ]  # fmt: skip
    alike: list[tuple[dict[str, Any], list[str]]] = [
        ({"similarity": similarity}, ["cluster", "linkage", "classical_mds"]),
        ({"record": runs[0]}, ["measure", "validation_measure", "embeddings", "used_shares"]),
        ({"records": runs},
         ["error_curves", "late_change", "summarise", "group_runs", "typical_run", "relatedness",
          "accuracy_by_checkpoint", "accuracy_by_task", "loss_by_task", "score_by_task",
          "validation_loss_curves"]),
    ]  # fmt: skip
    for arguments, names in alike:
        calls += [Call(name, getattr(analysis, name), arguments) for name in names]
    return calls
