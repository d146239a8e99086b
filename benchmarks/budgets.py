"""Measures what budgets cost in accuracy, and what they bring: FLOPs and time of what is extracted.

Networks are trained first and kept (`deployed.py`); then latencies are measured in one process, in
turns: of the full network, of each task's, and of the one for all tasks. The full network is
extracted too, with every gate open: what is compared has the same form and differs in components.
Networks as small as these spend their time in calls; so each is measured again with the same gates
and components that are wider, and not trained.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.experiments import device_name
from allotment.modules import Operations, TaskNetwork, extract, with_every_component
from allotment.records import BudgetRecord, BudgetRow, describe_environment
from allotment.report import budget_table, trunk_table
from allotment.tasks import Split, Task
from benchmarks.deployed import KEPT, SUITES, Suite, Trained, read_all, train_all
from benchmarks.measurement import processor_name, write

BATCHES = (1, 64)
TIMES = 16  # as wide: where arithmetic, and not the number of calls, takes the time
DESCRIPTION = (
    "a task's extracted network beside the one with every component, medians over passes in turns "
    "in one process, means over tasks and seeds"
)
Times = dict[str, tuple[float, ...]]
Call = Callable[[Tensor], Any]
Measure = Callable[[TaskNetwork], dict[str, Any]]


@torch.no_grad()
def wider(network: TaskNetwork, times: int) -> TaskNetwork:
    """Returns the network with its gates, and with new components and heads so many times as wide.

    Components are a linear layer or a convolution with ReLU, as those of both suites.
    """
    made = deepcopy(network)
    for place, layer in enumerate(made.modular_layers):
        for component in layer.components:
            assert isinstance(component, nn.Sequential)
            component[0] = _wider(component[0], times if place else 1, times)
    assert isinstance(made.heads, nn.ModuleList)
    for task, head in enumerate(made.heads):
        made.heads[task] = _wider(head, times, 1)
    return made


def _wider(module: nn.Module, n_inputs: int, n_outputs: int) -> nn.Module:
    if isinstance(module, nn.Conv2d):
        sizes = (n_inputs * module.in_channels, n_outputs * module.out_channels)
        return nn.Conv2d(*sizes, module.kernel_size)  # type: ignore[arg-type]
    assert isinstance(module, nn.Linear)
    return nn.Linear(n_inputs * module.in_features, n_outputs * module.out_features)


def forms(network: TaskNetwork, *, merge: bool = False) -> dict[str, nn.Module]:
    """Returns the full network, the one for all tasks, and each task's own, by name."""
    own = {f"task {task}": extract(network, task, merge=merge) for task in range(network.n_tasks)}
    full = extract(with_every_component(network), 0, merge=merge)
    return {"full": full, "trunk": extract(network, network.task_names, merge=merge), **own}


def flops(module: nn.Module, x: Tensor) -> int:
    """Returns the operations of a pass."""
    with Operations() as counter:  # type: ignore[no-untyped-call]
        module(x)
    return int(counter.total)


def in_turns(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Returns the median milliseconds of each call; they take turns, after two that prepare."""
    # On one thread processor time, to which other programs on the machine add little.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 2):
        for name, call in calls.items():
            start = clock()
            call()
            taken[name].append(1e3 * (clock() - start))
    return {name: median(times[2:]) for name, times in taken.items()}


def examples(task: Task, n: int) -> Tensor:
    """Returns a batch as the network takes it."""
    assert isinstance(task.train, Split)
    x: Tensor = task.train.fetch(torch.arange(n))[0]
    return x


def as_onnx(module: nn.Module, x: Tensor) -> Call:
    """Returns a module as ONNX Runtime computes it, for batches of any size."""
    import onnxruntime

    batch = ({0: torch.export.Dim("batch")},)
    # What exporters say of packages that are not there concerns nobody.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, (x,), dynamic_shapes=batch, verbose=False)
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Threads of sessions that wait would take the cores from the one that is measured.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    (given,) = session.get_inputs()
    return lambda x: session.run(None, {given.name: x.numpy()})


RUNTIMES: dict[str, Callable[[nn.Module, Tensor], Call]] = {
    "torch": lambda module, x: module,
    "onnx": as_onnx,
}


@torch.inference_mode()
def measure_one(
    network: TaskNetwork, task: Task, repeats: int, runtime: str = "torch", *, merge: bool = False
) -> dict[str, Any]:
    """Returns what one trained network's forms take; inputs are those of a task."""
    modules = forms(network, merge=merge)
    calls = {name: RUNTIMES[runtime](one, examples(task, 2)) for name, one in modules.items()}
    own = [name for name in modules if name.startswith("task")]
    found: dict[str, Any] = {}
    counted = {name: flops(module, examples(task, 1)) for name, module in modules.items()}
    found["full_flops"], found["trunk_flops"] = counted["full"], counted["trunk"]
    found["flops"] = fmean(counted[name] for name in own)
    found["sum_flops"] = sum(counted[name] for name in own)
    for size in BATCHES:
        x = examples(task, size)
        taken = in_turns({name: partial(one, x) for name, one in calls.items()}, repeats)
        found[f"full {size}"], found[f"trunk {size}"] = taken["full"], taken["trunk"]
        found[f"own {size}"] = fmean(taken[name] for name in own)
        found[f"sum {size}"] = sum(taken[name] for name in own)
    return found


def share_open(network: TaskNetwork) -> float:
    """Returns the share of gates that are open in evaluation."""
    matrices = [layer.allocation.matrix() for layer in network.modular_layers]
    return float((torch.cat(matrices, dim=1) != 0).float().mean())


def measured_row(
    title: str, case: tuple[str, float], runs: Sequence[Trained], measure: Measure
) -> BudgetRow:
    """Returns what the networks of one budget reached, where they were tried, and take."""
    found = [measure(run.network) for run in runs]

    def each(name: str) -> tuple[float, ...]:
        return tuple(round(one[name], 5) for one in found)

    def times(name: str) -> Times:
        return {str(size): each(f"{name} {size}") for size in BATCHES}

    return BudgetRow(
        suite=title,
        cost=case[0],
        budget=case[1],
        scores=tuple(round(run.score, 5) for run in runs if run.score is not None),
        shares_open=tuple(round(share_open(run.network), 4) for run in runs),
        flops=each("flops"),
        full_flops=found[0]["full_flops"],
        milliseconds=times("own"),
        full_milliseconds=times("full"),
        trunk_flops=each("trunk_flops"),
        sum_flops=each("sum_flops"),
        trunk_milliseconds=times("trunk"),
        sum_milliseconds=times("sum"),
    )


def measure(
    suite: Suite,
    repeats: int,
    runtime: str = "torch",
    folder: Path = KEPT,
    *,
    merge: bool = False,
) -> list[BudgetRow]:
    """Trains what is not there yet, and measures all of it; merged or as ONNX without the wide."""
    tasks = suite.tasks()
    train_all(suite, tasks, folder)
    kept = read_all(suite, tasks, folder)
    wide = {
        case: [Trained(network=wider(run.network, TIMES), score=None) for run in runs]
        for case, runs in kept.items()
    }
    titles = {suite.title: kept, f"{suite.title}, {TIMES} times as wide": wide}
    if merge or runtime == "onnx":
        titles = {f"{suite.title}{', merged' * merge}{', as ONNX' * (runtime == 'onnx')}": kept}
    one = partial(measure_one, task=tasks[0], repeats=repeats, runtime=runtime, merge=merge)
    return [
        measured_row(title, *item, one) for title, found in titles.items() for item in found.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures one suite, prints what was found, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description="Measures what budgets cost and bring.")
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--runtime", choices=list(RUNTIMES), default="torch")
    parser.add_argument("--merge", action="store_true", help="linear maps made one, as exports do")
    parser.add_argument("--repeats", type=int, default=30, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    suite = SUITES[options.suite]
    rows = measure(suite, options.repeats, options.runtime, merge=options.merge)
    is_one = options.threads == 1
    threads = "processor time of one thread" if is_one else f"{options.threads} threads"
    runtime = "" if options.runtime == "torch" else f" --runtime {options.runtime}"
    chosen = f"{suite.name} --threads {options.threads}{runtime}{' --merge' * options.merge}"
    record = BudgetRecord(
        command=f"python benchmarks/budgets.py {chosen}",
        description=f"{DESCRIPTION}; {threads}",
        processor=processor_name(),
        environment=describe_environment(device_name("cpu")),
        rows=tuple(rows),
    )
    print(budget_table(record), trunk_table(record), sep="\n\n")
    write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
