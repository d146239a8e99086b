"""Training as one would write it down: one run, one step after another, nothing batched."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork, Noise
from allotment.tasks import Split, as_seen
from allotment.settings import ROUNDS_PER_BLOCK, TrainingSettings
from allotment.training import Run
from allotment._engine._sampler import BlockMaker
from allotment._engine._losses import layout_of, some_targets
from allotment._engine._dataset import Store

NORMALISATIONS = (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)


class Step(NamedTuple):
    """What a run draws for one batch; a joint step takes one of every task."""

    task: int
    inputs: Tensor
    targets: Tensor
    noise: Noise


def steps_of(run: Run) -> Iterator[Step]:
    """Yields what a run draws, step after step."""
    network, tasks = run.network, run.tasks
    splits = [task.train for task in tasks if isinstance(task.train, Split)]
    store = Store(splits, torch.device("cpu")) if splits else None
    n_features = 0
    if network.dropout and isinstance(network.heads, nn.ModuleList):
        head = network.heads[0]
        assert isinstance(head, nn.Linear)
        n_features = head.in_features
    layouts = list(dict.fromkeys(layout_of(some_targets(task.train)) for task in tasks))
    maker = BlockMaker([run], store, sum(network.layer_sizes), n_features)
    for first in range(0, run.settings.rounds, ROUNDS_PER_BLOCK):
        block = maker.make(first // ROUNDS_PER_BLOCK)
        n_rounds = min(ROUNDS_PER_BLOCK, run.settings.rounds - first)
        for step in range(n_rounds * len(tasks)):
            task = int(block.tasks[step, 0])
            dropout = None if block.dropout is None else block.dropout[step, 0]
            noise = Noise(block.gates[step, 0], dropout)
            if block.rows is None:
                assert block.inputs is not None
                y = block.targets[layouts.index(layout_of(some_targets(tasks[task].train)))]
                yield Step(task, block.inputs[step, 0], y[step, 0], noise)
                continue
            assert store is not None
            split, rows = tasks[task].train, block.rows[step, 0]
            x = as_seen(store.inputs[rows], split.view, split.scale)
            y = split.targets[rows - store.rows(replace(split, rows=None))[0]]
            yield Step(task, x, y if y.is_floating_point() else y.long(), noise)


def plainly_trained(run: Run) -> tuple[MultiTaskNetwork, list[tuple[int, float]]]:
    """Trains a copy of a run's network; returns it and the task and loss of every batch."""
    network, settings = deepcopy(run.network).train(), run.settings
    optimizer = torch.optim.Adam(parameter_groups(network, settings), foreach=False, fused=False)
    n_batches = settings.rounds * len(run.tasks)
    per_step = len(run.tasks) if settings.schedule == "joint" else 1
    losses: list[tuple[int, float]] = []
    for batches in zip(*[steps_of(run)] * per_step, strict=True):
        n_before = len(losses)  # what the temperature and the ramp see: of the whole step
        for module in network.modules():
            if isinstance(module, GumbelMatrix):
                module.n_draws.fill_(n_before)
        total = torch.zeros(())
        for task, inputs, targets, noise in batches:
            loss = run.tasks[task].loss_function(network(inputs, task, noise=noise), targets)
            charge = penalty(network, task, settings, n_before / n_batches)
            total = total + (loss + charge) / per_step
            losses.append((task, loss.item()))
        optimizer.zero_grad()
        total.backward()
        for parameter in network.parameters():
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)  # dense: idle tasks' moments move too
        if settings.clip_norm is not None:
            clip_grad_norm_(network.parameters(), settings.clip_norm)
        optimizer.step()
    return network, losses


def parameter_groups(network: nn.Module, settings: TrainingSettings) -> list[dict[str, object]]:
    """Returns one group for each parameter: logits, biases, and everything else."""
    groups: list[dict[str, object]] = []
    seen: set[int] = set()
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or not parameter.requires_grad:
                continue
            seen.add(id(parameter))
            is_logit = isinstance(module, GumbelMatrix)
            is_bias = name == "bias" and not isinstance(module, NORMALISATIONS)
            rate = settings.logit_learning_rate if is_logit else None
            groups.append(
                {
                    "params": [parameter],
                    "lr": rate or settings.learning_rate,
                    "weight_decay": 0.0 if is_logit or is_bias else settings.weight_decay,
                }
            )
    return groups


def penalty(
    network: MultiTaskNetwork, task: int, settings: TrainingSettings, progress: float
) -> Tensor:
    """Returns all that is charged for gates, written out."""
    p = network.probabilities(None if settings.budget_scope == "global" else task)
    total = torch.zeros(())
    if settings.budget is not None:
        total = total + settings.budget_weight * torch.relu(p.mean() - settings.budget)
    entropy = -(p * p.log() + (1 - p) * (1 - p).log())
    if settings.entropy_weight:
        weight = settings.entropy_weight * progress**settings.entropy_power
        total = total + weight * entropy.mean()
    if settings.connection_weight:
        total = total + settings.connection_weight * p.mean()
    if settings.disconnect_weight:
        shut = [(1 - layer).prod(dim=-1) for layer in p.split(list(network.layer_sizes), dim=-1)]
        total = total + settings.disconnect_weight * sum(shut).mean()
    return total
