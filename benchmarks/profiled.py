"""Measures where the time of a training step goes: operations by kind, and what lies between.

A block of rounds is timed, and then another under torch's profiler. On a GPU operations are
kernels, several of which can run at once; on a CPU they are torch's operations, and what lies
between them is Python's.
"""

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.experiments import device_name
from allotment.records import ProfilePart, ProfileRecord, describe_environment
from allotment.report import profile_lines
from benchmarks.contestants import METHODS, PRECISIONS, Contestant, ours
from benchmarks.measurement import recorded_command, write

# The first pattern that is in a name, without regard to case, says of which kind an operation is.
# Names are those of torch's operations on a CPU, and on a GPU of the kernels of cuDNN, cuBLAS,
# torch and this library.
_VIEWS = (
    "_?view|_unsafe_view|as_strided|expand|squeeze|unsqueeze|slice|detach|permute|transpose|t|select|"
    r"split\w*|unbind|unflatten|flatten|alias|_?reshape\w*|to|empty\w*|resize_|movedim|diagonal"
)
KINDS = {
    "views and room": rf"^aten::({_VIEWS})$",
    "random numbers": r"rand|normal_|bernoulli|philox|distribution",
    "optimizer": r"adam|multi_tensor|foreach|optimizer",
    "gates": r"^_draw",
    "mixing": r"^_add_weighted",
    "pools": r"pool",
    "normalisation": r"^_(forward|backward|tile_|normalise)|norm",
    "convolutions": r"conv|fprop|dgrad|wgrad|winograd|cudnn|^_image_gradients|^_kernel_shares",
    "products": r"gemm|gemv|bmm|addmm|::mm$|matmul|cutlass|nvjet|splitk|::linear|::dot$",
    "sums": r"reduce|sum|mean|^_add_up|softmax|nll",
    "copies and layouts": r"copy|memcpy|memset|fill|cat|contiguous|clone|nchw|nhwc|transpose",
    "indexing": r"index|gather|scatter|select|embedding|unfold",
}
OTHER = "element by element, and others"
N_WARM_UP = 3  # blocks


def kind_of(name: str) -> str:
    """Returns the kind of an operation with this name.

    >>> kind_of("sm90_xmma_fprop_implicit_gemm_bf16"), kind_of("_tile_sums"), kind_of("aten::relu")
    ('convolutions', 'normalisation', 'element by element, and others')
    """
    found = (kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE))
    return next(found, OTHER)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Returns the length of what spans of time cover together.

    >>> covered([(0.0, 2.0), (5.0, 6.0), (1.0, 3.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def measure(contestant: Contestant, device: torch.device, *, command: str) -> ProfileRecord:
    """Returns where the time of a block of rounds goes, for a task batch of one run."""
    environment = describe_environment(device_name(str(device)))
    contestant.warm_up(0.0, 1, device)
    contestant.run_segment(device)
    is_gpu = device.type == "cuda"
    kind = ProfilerActivity.CUDA if is_gpu else ProfilerActivity.CPU
    activities = {ProfilerActivity.CPU, kind}
    with profile(activities=activities, acc_events=True) as profiler:
        started = time.perf_counter()
        for _ in range(contestant.turns_per_segment):
            next(contestant.turns)
        if is_gpu:
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
    n_steps = contestant.turns_per_segment * contestant.steps_per_turn
    scale = 1e-3 / (n_steps * contestant.n_runs)  # microseconds of a block to ours
    parts, busy = _parts(profiler.events(), is_gpu=is_gpu)
    return ProfileRecord(
        command=command,
        label=contestant.label,
        precision=contestant.precision,
        environment=environment,
        milliseconds=round(contestant.milliseconds[-1], 5),
        profiled=round(1e6 * seconds * scale, 5),
        busy=round(busy * scale, 5),
        parts=tuple(
            ProfilePart(kind=kind, milliseconds=round(spent * scale, 6), n_calls=n / n_steps)
            for kind, (spent, n) in sorted(parts.items(), key=lambda item: -item[1][0])
        ),
    )


def _parts(
    events: Sequence[FunctionEvent], *, is_gpu: bool
) -> tuple[dict[str, tuple[float, int]], float]:
    """Returns microseconds and calls by kind, and the microseconds in which any operation ran."""
    found: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    spans: list[tuple[float, float]] = []
    for event in events:
        if event.is_user_annotation or (event.device_type.name == "CUDA") != is_gpu:
            continue
        if not is_gpu and not event.name.startswith("aten::"):
            continue  # a Python function that the profiler has a name for
        interval = event.time_range
        own = interval.elapsed_us() if is_gpu else event.self_cpu_time_total
        spent, n = found[kind_of(event.name)]
        found[kind_of(event.name)] = spent + own, n + 1
        spans.append((interval.start, interval.end))
    return dict(found), covered(spans)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description="Measures where the time of a step goes.")
    parser.add_argument("benchmark", choices=tuple(METHODS))
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="together (default: 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="off")
    parser.add_argument("--joint", action="store_true", help="joint steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--tasks",
        type=int,
        metavar="N",
        help="of an experiment on images, only so many: the profiler takes long over many kernels",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    if options.runs < 1 or (options.tasks is not None and options.tasks < 1):
        parser.error("`--runs` and `--tasks` should be at least 1.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("`--device` should be one that is here. Found 'cuda', but no CUDA device.")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Profiles one benchmark, prints its table, and writes its record if asked to."""
    options = parse(arguments)
    device = torch.device(options.device)
    contestant = ours(
        options.benchmark,
        options.runs,
        device,
        precision=options.precision,
        joint=options.joint,
        n_tasks=options.tasks,
    )
    command = recorded_command("profiled.py", arguments or sys.argv[1:])
    record = measure(contestant, device, command=command)
    console = Console()
    for line in profile_lines(record):
        console.print(line, highlight=False, soft_wrap=True)
    write(record, options.json)
    if options.json:
        console.print(f"Record: {options.json}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as error:
        sys.exit(f"profiled.py: {error}")
