"""How the steps of a training are computed: decided once, before the first step, with reasons."""

import random
import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from .._checks import first_line
from ..modules import Operations
from ..settings import TrainingSettings
from ._batch import Batch
from ._forward import Forward
from ._run_by_run import RunByRun
from ._vmapped import Vmapped

# Runs whose pass has so many floating-point operations go on streams in place of being batched,
# where each would be a group of one convolution. Convolutions that say that they are fast over runs
# are not batched like that.
LARGE = 1_000_000_000
SMALL = 8_000_000  # floating-point operations of all runs below which one thread is best on a CPU
# So many steps of a lone run on a CPU are worth recording one. It takes half a second for a small
# network and saves 3 of 9 ms a step; for a residual network of 20 convolutions, 2 s and next to
# nothing.
FEW_SMALL_STEPS, FEW_LARGE_STEPS = 300, 1_000

_PLAIN = (bool, int, float, complex, str, type(None))  # what counts as a value in Python


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why; ``is_slower`` where another way would have been faster."""

    value: str
    reason: str
    is_slower: bool = False

    def __str__(self) -> str:
        return f"{self.value}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan:
    """How runs that train together are computed.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.SharedBottom(1, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["sum"]), torch.randn(9, 8)
    >>> print(al.plan([al.Run(network, [al.Task("sum", (x, x.sum(1)))])]).runs)
    alone: there is one run.

    Attributes:
        device: Where.
        n_runs: How many train together.
        runs: "alone", "vmapped", "on streams" or "one by one".
        task: Whether a pass is given its task as a "tensor" or as a "number".
        step: "eager", "compiled pass", "traced", "compiled" or "CUDA graph".
        threads: "one" or "all", of a CPU.
        annealing: At which training batch the gates' temperature begins.
    """

    device: str
    n_runs: int
    runs: Choice
    task: Choice
    step: Choice
    threads: Choice
    annealing: Choice

    def __str__(self) -> str:
        title = f"{self.n_runs} run{'s' * (self.n_runs > 1)} on {self.device}"
        rows = [(f.name, getattr(self, f.name)) for f in fields(self)]
        lines = [f"  {name:<9}  {choice}" for name, choice in rows if isinstance(choice, Choice)]
        return "\n".join([title, *lines])

    @property
    def is_vmapped(self) -> bool:
        """Whether one tensor program serves all runs."""
        return self.runs.value == "vmapped"

    def warn(self) -> None:
        """Tells where a slower way is taken, with its cause."""
        if self.runs.is_slower:
            warnings.warn(f"Training one run at a time: {self.runs.reason}", stacklevel=4)
        if self.step.is_slower:
            warnings.warn(
                f"Training without a recorded step, which is slower: {self.step.reason}",
                stacklevel=4,
            )


@dataclass(frozen=True)
class Findings:
    """What a first pass of a first run showed."""

    n_operations: int  # floating-point operations of a forward pass of one run
    side_effects: str  # what a pass changes in Python itself; empty for nothing


@torch.no_grad()
def first_pass(forward: Forward, batch: Batch) -> Findings:
    """Computes the first run alone; a mistake in the network or its data is seen here, as it is."""
    network = forward.parameters.network
    by_tensor = not why_by_number(forward) and forward.losses.are_one
    effects = SideEffects(network)
    with Operations() as counter:  # type: ignore[no-untyped-call]
        RunByRun(forward, task_is_tensor=by_tensor).first(batch)
    found = Findings(counter.total, effects.what_changed())
    effects.undo()
    return found


def why_by_number(forward: Forward) -> str:
    """Returns why a task has to be a Python number, or nothing."""
    if isinstance(forward.parameters.network.heads, nn.ModuleList):
        return "heads that are not all linear, of one width in, take the task as a Python number."
    if getattr(forward.parameters.network, "_tells_task", False):
        return "a model whose `forward` takes the task is given it as a Python number."
    modules = forward.parameters.network.modules()
    if any(getattr(module, "needs_task_number", False) for module in modules):
        return "a module that differs by task, as in `PerTask`, takes it as a Python number."
    if forward.is_joint and forward.parameters.keeps_statistics:
        return "statistics of batches, in a joint step, take the task as a Python number."
    return forward.losses.why_not_by_tensor()


def choose_runs(forward: Forward, batch: Batch, findings: Findings) -> Choice:
    """Returns how several runs are computed."""
    parameters = forward.parameters
    if parameters.n_runs == 1:
        return Choice("alone", "there is one run.")
    reason = why_by_number(forward) or forward.why_apart
    if reason:
        return Choice("one by one", reason, is_slower=True)
    is_large = findings.n_operations >= LARGE
    if is_large and not _are_fast_over_runs(parameters.network, parameters.device):
        return Choice(
            "on streams",
            "runs are large, and batched each would be a group of every convolution.",
        )
    reason = _why_not_vmapped(forward, batch)
    if not reason:
        return Choice("vmapped", "one tensor program serves all runs.")
    return Choice("on streams" if is_large else "one by one", reason, is_slower=not is_large)


def _are_fast_over_runs(network: nn.Module, device: torch.device) -> bool:
    """Tells whether large runs are batched all the same, on a GPU.

    Convolutions that are not modules are not seen.
    """
    kinds = [m for m in network.modules() if isinstance(m, nn.modules.conv._ConvNd)]
    are_fast = bool(kinds) and all(getattr(m, "fast_over_runs", False) for m in kinds)
    return device.type == "cuda" and are_fast


@torch.no_grad()
def _why_not_vmapped(forward: Forward, batch: Batch) -> str:
    effects = SideEffects(forward.parameters.network)
    try:
        Vmapped(forward)((), batch)
    except Exception as error:  # whatever a user's component or loss raises
        return f"a component or a loss cannot be batched over runs ({first_line(error)})"
    finally:
        effects.undo()
    return ""


def why_eager(
    settings: TrainingSettings, forward: Forward, runs: Choice, findings: Findings, is_over: bool
) -> Choice | None:
    """Returns why a step cannot be recorded, or None where it can be tried."""
    parameters, by_number = forward.parameters, why_by_number(forward)
    balancing, own_optimizer = settings.loss_balancing, settings.optimization.optimizer
    reasons = {
        "no steps are left.": is_over,
        "`execution.trace` is off.": settings.execution.trace is False,
        f"{findings.side_effects}.": bool(findings.side_effects),
        by_number: bool(by_number),
        forward.why_apart: bool(forward.why_apart),
        "runs are computed one by one.": runs.is_slower,
        "a pass changes buffers, such as the statistics of batches.": parameters.keeps_statistics,
        "the loss balancing asks for each task's gradients.": balancing is not None
        and balancing.needs_gradients,
        "an optimizer of one's own takes its steps from Python.": own_optimizer is not None
        and parameters.device.type == "cuda",
        "there are too few steps to gain from recording one.": runs.value == "alone"
        and _are_few(settings, forward, findings),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    if reason is None:
        return None
    # A module that counts its passes could be written otherwise, so it is told.
    return Choice("eager", reason, is_slower=reason == f"{findings.side_effects}.")


def _are_few(settings: TrainingSettings, forward: Forward, findings: Findings) -> bool:
    """Tells whether recording a step takes longer than it saves, where the plan may choose."""
    execution, n_tasks = settings.execution, forward.parameters.network.n_tasks
    if execution.trace is not None or execution.compile or forward.parameters.device.type != "cpu":
        return False
    n_steps = settings.rounds * (1 if settings.is_joint else n_tasks)
    return n_steps < (FEW_SMALL_STEPS if findings.n_operations < SMALL else FEW_LARGE_STEPS)


def choose_task(forward: Forward, runs: Choice, step: Choice) -> Choice:
    """Returns in which form a pass is given its task."""
    reason = why_by_number(forward)
    if reason:
        return Choice("number", reason)
    is_apart = step.value == "eager" and runs.value != "vmapped" and not forward.shares_inputs
    if is_apart and not forward.losses.are_one:
        return Choice("number", "each batch needs the loss of its own task alone.")
    return Choice("tensor", "gates and heads are looked up by it.")


def choose_threads(device: torch.device, n_operations: int) -> Choice:
    """Returns how many threads of a CPU steps use.

    The operations of a small program are too short to gain from more (two_pairs with 5 runs took
    the same time on one as on two), and where another program wanted the cores, steps took 20
    times as long. The rule looks at sizes alone, so that a seed gives the same numbers each time.
    """
    if device.type == "cpu" and n_operations < SMALL:
        return Choice("one", f"a pass has {n_operations:,} floating-point operations, few.")
    return Choice("all", f"a pass has {n_operations:,} floating-point operations.")


def choose_annealing(first_batch: int) -> Choice:
    """Returns where annealing begins."""
    if first_batch:
        return Choice(
            f"batch {first_batch:,}",
            "the network has made that many passes in training mode, and goes on.",
        )
    return Choice("batch 0", "the network is new.")


class SideEffects:
    """What a pass changes in Python itself, which a recorded step would freeze.

    That is what the modules of a network hold beside tensors, and Python's and NumPy's generators.

    A step is recorded as operations on tensors. A module that counts its passes, or draws from
    `random`, would do so once, and every later step would use what it found then.
    """

    def __init__(self, network: nn.Module) -> None:
        self._modules = dict(network.named_modules())
        self._values = self._plain_values()
        self._random = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002  (the generator that modules would use)

    def what_changed(self) -> str:
        """Returns what a pass has changed since, in words; nothing where it changed nothing."""
        now = self._plain_values()
        for (path, name), value in self._values.items():
            if now.get((path, name), value) != value:
                kind = type(self._modules[path]).__name__
                return f"a pass changes `{name}` of {kind}"
        if random.getstate() != self._random:
            return "a pass draws from Python's `random`"
        state = np.random.get_state()  # noqa: NPY002
        if repr(state) != repr(self._numpy):
            return "a pass draws from NumPy's generator"
        return ""

    def undo(self) -> None:
        """Undoes what was changed."""
        for (path, name), value in self._values.items():
            setattr(self._modules[path], name, value)
        random.setstate(self._random)
        np.random.set_state(self._numpy)  # noqa: NPY002

    def _plain_values(self) -> dict[tuple[str, str], Any]:
        return {
            (path, name): value
            for path, module in self._modules.items()
            for name, value in vars(module).items()
            if isinstance(value, _PLAIN)
        }
