"""A sweep as a call in Python, which makes the runs that `allotment run` makes."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..records import RunRecord, read_run
from ..training import Progress, asked_by_signals
from ._experiment import Experiment
from ._file import read_experiment
from ._running import run_sweep
from ._stop import Stop
from ._sweep import RunGroup, Sweep, chosen_device
from .launchers import choose_launcher

_PAUSE = 30.0  # seconds between two lines on a run group


def sweep(
    experiment: Experiment | Path | str,
    out: Path | str | None = None,
    *,
    methods: Sequence[str] = (),
    n_runs: int | None = None,
    first_seed: int | None = None,
    group_size: int | None = None,
    device: str = "auto",
    data_folder: Path | str | None = None,
    checkpoint_every: int | None = None,
    deterministic: bool = False,
    resume: bool = False,
    minutes: float | None = None,
    workers: int | str | None = None,
    ray: str | None = None,
    gpus_per_group: float | None = None,
    say: Callable[[str], None] = print,
) -> list[RunRecord]:
    """Makes runs of an experiment, as `allotment run` does, and returns their records.

    Ctrl-C, or the end of the minutes, ends it with checkpoints and the exception ``Stopped``.

    >>> import tempfile
    >>> from torch import nn, randn
    >>> import allotment as al
    >>> from allotment.experiments import Experiment, Method, using
    >>> def network(allocate, outputs):
    ...     layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], allocate(3))
    ...     return al.MultiTaskNetwork(None, [layer], task_names=list(outputs))
    >>> mine = Experiment(
    ...     name="mine",
    ...     tasks=[al.Task(name, (randn(40, 8), randn(40))) for name in "ab"],
    ...     network=network,
    ...     methods=[Method(name="gumbel", allocation=using(al.GumbelMatrix))],
    ...     training=al.TrainingSettings(rounds=10),
    ... )
    >>> folder = tempfile.mkdtemp()
    >>> records = al.sweep(mine, folder, n_runs=2, device="cpu", say=lambda line: None)
    >>> [(record.header.method, record.header.seed) for record in records]
    [('gumbel', 0), ('gumbel', 1)]

    Args:
        experiment: One, or a Python file that defines it, such as ``"experiment.py"``.
        out: Where records go; None: ``runs/`` and the experiment's name.
        methods: Names of some of the experiment's methods; none: all.
        n_runs: Of each method; None: as many as the experiment declares.
        first_seed: Of the first run; the next has one more. None: as the experiment declares.
        group_size: The most runs that train together; None: as many as can.
        device: "auto" is a GPU where there is one.
        data_folder: Of the data sets; None: the usual one.
        checkpoint_every: Rounds between checkpoints; None: one a minute.
        deterministic: On a GPU: the same bits each time, if slower.
        resume: Go on with the runs that are in ``out``.
        minutes: After which it stops; None: at the end.
        workers: Processes that train run groups side by side; "auto": one for each GPU, or else
            for each core; None: one for each GPU, or else none but this.
        ray: The address of a Ray cluster that trains them, or "auto".
        gpus_per_group: A share of a GPU on that cluster; None: 1 where it has GPUs.
        say: Is told how far runs are, and what else people should know.
    """
    file = None if isinstance(experiment, Experiment) else read_experiment(experiment)
    declared = file.experiment if file else experiment
    assert isinstance(declared, Experiment)
    folder = Path(out) if out is not None else Path("runs") / declared.name
    chosen = {"methods": list(methods), "n_runs": n_runs, "first_seed": first_seed}
    made = Sweep(
        experiment=declared,
        out=folder,
        methods=[declared.method(name) for name in methods],
        n_runs=n_runs,
        first_seed=first_seed,
        group_size=group_size,
        device=chosen_device(device),
        data_folder=None if data_folder is None else Path(data_folder),
        command=_call(repr(file.reference) if file else declared.name, folder, **chosen),
        checkpoint_every=checkpoint_every,
        deterministic=deterministic,
        resume=resume,
        file=file,
        is_own=True,
    )
    launcher = choose_launcher(device, workers=workers, ray=ray, gpus_per_group=gpus_per_group)
    stop = Stop(minutes)
    with asked_by_signals(stop.ask, terminates=False):
        folders = run_sweep(made, _Lines(say), say=say, stop=stop, launcher=launcher)
    say(f"Records: {folder}. A page of them: allotment report {folder} -o report.html")
    return [read_run(each) for each in folders]


def _call(experiment: str, out: Path, **chosen: object) -> str:
    """Returns the call for the record, with what was chosen of the experiment."""
    given = [f"{name}={value!r}" for name, value in chosen.items() if value not in (None, [])]
    return f"al.sweep({', '.join([experiment, repr(str(out)), *given])})"


class _Lines:
    """Says how far run groups are: now and then, and at their end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[RunGroup, float] = {}

    def __call__(self, group: RunGroup, progress: Progress) -> None:
        now = time.perf_counter()
        is_early = now < self._told.setdefault(group, now) + _PAUSE
        if is_early and progress.outcomes is None:
            return
        self._told[group] = now
        losses = progress.losses[np.isfinite(progress.losses)]
        loss = f"{losses.mean():.3g}" if len(losses) else "not finite"
        rounds = group.runs[0].settings.rounds
        self._say(f"{group.name}: round {progress.round} of {rounds}, training loss {loss}")
