"""Training as one would write it down: one run, one step after another, nothing batched."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from allotment._engine._dataset import DeviceDataset
from allotment._engine._sampler import BatchSampler
from allotment.allocation import Allocation
from allotment.modules import Noise, Pass, TaskNetwork
from allotment.settings import ROUNDS_PER_BLOCK, TrainingSettings
from allotment.tasks import Split, preprocess, some_targets, target_spec
from allotment.training import Run

NORMALISATIONS = (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)


class Step(NamedTuple):
    """What a run draws for one batch; a joint step takes one of every task."""

    task: int
    inputs: Tensor
    targets: Tensor
    noise: Noise


def steps_of(run: Run, *, held_out: bool = False) -> Iterator[Step]:
    """Yields what a run draws, step after step; or the held-out batches beside them."""
    tasks = run.tasks
    splits = [task.train for task in tasks if isinstance(task.train, Split)]
    dataset = DeviceDataset(splits, torch.device("cpu")) if splits else None
    specs = list(dict.fromkeys(target_spec(some_targets(task.train)) for task in tasks))
    sampler = BatchSampler([run], dataset, noise_widths(run.network))
    for first in range(0, run.settings.rounds, ROUNDS_PER_BLOCK):
        whole = sampler.make(first // ROUNDS_PER_BLOCK)
        block = whole.held_out if held_out else whole
        assert block is not None
        n_rounds = min(ROUNDS_PER_BLOCK, run.settings.rounds - first)
        for step in range(n_rounds * len(tasks)):
            task = int(block.tasks[step, 0])
            noise = Noise(**{use: part[step, 0] for use, part in block.noise.items()})
            if block.rows is None:
                assert block.inputs is not None
                y = block.targets[specs.index(target_spec(some_targets(tasks[task].train)))]
                yield Step(task, block.inputs[step, 0], y[step, 0], noise)
                continue
            assert dataset is not None
            split, rows = tasks[task].train, block.rows[step, 0]
            x = preprocess(dataset.inputs[rows], split.permutation, split.scale)
            y = split.targets[rows - dataset.rows(replace(split, rows=None))[0]]
            yield Step(task, x, y if y.is_floating_point() else y.long(), noise)


def noise_widths(network: TaskNetwork) -> dict[str, int]:
    """Returns how many uniform numbers each use takes in a batch, or for each example of it."""
    allocations = [layer.allocation for layer in network.modular_layers]
    n_features = 0
    if network.dropout and isinstance(network.heads, nn.ModuleList):
        head = network.heads[0]
        assert isinstance(head, nn.Linear)
        n_features = head.in_features
    return {
        "gates": sum(a.n_noise for a in allocations if not a.sees_examples),
        "examples": sum(a.n_noise for a in allocations if a.sees_examples),
        "dropout": n_features,
    }


def plainly_trained(run: Run) -> tuple[TaskNetwork, list[tuple[int, float]]]:
    """Trains a copy of a run's network; returns it and the task and loss of every batch."""
    network, settings = deepcopy(run.network).train(), run.settings
    optimizer = an_optimizer(network, settings)
    schedule = settings.optimization.lr_schedule
    scheduler = schedule(optimizer) if callable(schedule) else None
    n_batches = settings.rounds * len(run.tasks)
    per_step = len(run.tasks) if settings.schedule == "joint" else 1
    losses: list[tuple[int, float]] = []
    for batches in zip(*[steps_of(run)] * per_step, strict=True):
        progress = len(losses) / n_batches  # what the ramp sees: of the whole step
        total = torch.zeros(())
        for batch in batches:
            task = run.tasks[batch.task]
            loss, auxiliary = loss_of(network, run, batch)
            charge = penalty(network, batch.task, settings, progress) + auxiliary
            total = total + (task.weight * loss + charge) / per_step
            losses.append((batch.task, loss.item()))
        optimizer.zero_grad()
        total.backward()
        for parameter in network.parameters():
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)  # dense: idle tasks' moments move too
        if settings.optimization.clip_norm is not None:
            clip_grad_norm_(network.parameters(), settings.optimization.clip_norm)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        with torch.no_grad():
            take_note(network, losses[-per_step:])
    return network, losses


def take_note(network: TaskNetwork, batches: Sequence[tuple[int, float]]) -> None:
    """Tells each allocation of the batches of a step, one after another."""
    for allocation in {layer.allocation for layer in network.modular_layers}:
        for task, loss in batches:
            allocation.observe(task, torch.tensor(loss))
            allocation.advance()


def loss_of(network: TaskNetwork, run: Run, batch: Step) -> tuple[Tensor, Tensor]:
    """Returns the loss of a batch, and what the allocations add to it."""
    running = Pass(batch.task, batch.noise)
    outputs = network.compute(batch.inputs, running)
    loss = run.tasks[batch.task].loss_function(outputs, batch.targets)
    auxiliary = torch.zeros(())
    for used in running.used:
        told = loss
        if used.allocation.rewards_examples:
            examples = zip(outputs.detach().split(1), batch.targets.split(1), strict=True)
            told = torch.stack([run.tasks[batch.task].loss_function(*one) for one in examples])
        extra = used.allocation.auxiliary_loss(batch.task, told, used.weights)
        auxiliary = auxiliary if extra is None else auxiliary + extra
    return loss, auxiliary


def an_optimizer(network: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Returns the optimizer that the settings ask for."""
    groups = parameter_groups(network, settings)
    if settings.optimization.optimizer is not None:
        return settings.optimization.optimizer(groups)
    return torch.optim.Adam(groups, foreach=False, fused=False)


def parameter_groups(network: nn.Module, settings: TrainingSettings) -> list[dict[str, object]]:
    """Returns one group for each parameter: of allocations, biases, and everything else."""
    groups: list[dict[str, object]] = []
    chosen = settings.optimization
    allocations = [module for module in network.modules() if isinstance(module, Allocation)]
    allocated = {id(p) for allocation in allocations for p in allocation.parameters()}
    seen: set[int] = set()
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or not parameter.requires_grad:
                continue
            seen.add(id(parameter))
            is_allocated = id(parameter) in allocated
            is_bias = name == "bias" and not isinstance(module, NORMALISATIONS)
            rate = chosen.allocation_learning_rate if is_allocated else None
            groups.append(
                {
                    "params": [parameter],
                    "lr": rate or chosen.learning_rate,
                    "weight_decay": 0.0 if is_allocated or is_bias else chosen.weight_decay,
                }
            )
    return groups


def penalty(network: TaskNetwork, task: int, settings: TrainingSettings, progress: float) -> Tensor:
    """Returns all that is charged for gates, written out."""
    chosen = settings.penalties
    p = network.probabilities(None if chosen.budget_scope == "global" else task)
    total = torch.zeros(())
    counts = (
        torch.tensor(chosen.cost) if isinstance(chosen.cost, tuple) else torch.ones(p.shape[-1])
    )
    share = (p * counts).sum(dim=-1).mean() / counts.sum()
    budget = chosen.budget
    if isinstance(budget, tuple):
        budget = budget[task]
    if budget is not None:
        assert isinstance(budget, float)
        total = total + chosen.budget_weight * torch.relu(share - budget)
    entropy = -(p * p.log() + (1 - p) * (1 - p).log())
    if chosen.entropy_weight:
        ramp = chosen.entropy_weight * progress**chosen.entropy_power
        total = total + ramp * entropy.mean()
    total = total + chosen.connection_weight * share
    if chosen.disconnect_weight:
        for layer in (1 - p).split(list(network.layer_sizes), dim=-1):
            total = total + chosen.disconnect_weight * layer.prod(dim=-1).mean()
    return total
