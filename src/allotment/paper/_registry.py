"""The experiments by name, what the README shows of them, and networks back from their runs."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from .._checks import check_choice, described
from ..experiments import Experiment, TaskChoice, read_experiment
from ..modules import TaskNetwork, as_network
from ..records import RunRecord, read_preprocessing, read_run, read_weights
from ..tasks import TablePreprocessing
from ._causes import CAUSES, CAUSES_PREFIX
from ._clusters import CLUSTERS
from ._codebooks import CODEBOOKS
from ._comparison import COMPARISONS, PREFIX, WELL_TRAINED
from ._images import DIGITS, MNIST
from ._map import MAPS
from ._omniglot import OMNIGLOT, OMNIGLOT_TUNED
from ._omniglot_alone import ALONE
from ._remedy import REMEDIES, REMEDY_PREFIX
from ._synthetic import TRANSFER, TWO_PAIRS

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *(TRANSFER, TWO_PAIRS, CODEBOOKS, DIGITS, MNIST, OMNIGLOT, OMNIGLOT_TUNED, CLUSTERS),
        ALONE,
        *COMPARISONS,
        *MAPS,
        *CAUSES,
        *REMEDIES,
    )
}
# Experiments of one kind on several suites, by what `allotment run` calls the kind: what it is,
# and its experiments by suite.
KINDS = {
    kind: (text, {each.name.removeprefix(prefix): each.name for each in experiments})
    for kind, text, prefix, experiments in (
        ("comparison", "all ways of sharing on one suite, on equal terms", PREFIX, COMPARISONS),
        ("causes", "why gates lose: one change for each cause", CAUSES_PREFIX, CAUSES),
        ("remedy", "the recommended allocation beside fixed patterns", REMEDY_PREFIX, REMEDIES),
    )
}
KINDS["comparison"][1]["omniglot"] = WELL_TRAINED.name  # of which it is a part
# What the README shows: an experiment, its label, and the methods that share nothing, share
# everything, and learn what to share.
HEADLINES = (
    ("two_pairs", "Two pairs of equal functions", "no_sharing", "shared_bottom", "gumbel"),
    ("codebooks", "Digits coded by two books", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("mnist", "MNIST, upright and rotated", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("omniglot_tuned", "Omniglot, well trained", "", "all_bent_shared_bottom", "all_bent"),
)


def experiment_named(name: str) -> Experiment:
    """Returns an experiment; an unknown name is answered with the known ones.

    >>> experiment_named("mnist").name
    'mnist'
    """
    check_choice("experiment", name, list(EXPERIMENTS))
    return EXPERIMENTS[name]


def experiment_on(kind: str, suite: str | None) -> Experiment:
    """Returns the experiment of a kind on a suite; an unknown name is answered with those known.

    Args:
        kind: A key of `KINDS`.
        suite: The name of one of its suites.

    >>> experiment_on("comparison", "digits").name
    'comparison_digits'
    """
    _, names = KINDS[kind]
    check_choice("suite", suite or "", list(names))
    name = names[suite or ""]
    return WELL_TRAINED if name == WELL_TRAINED.name else EXPERIMENTS[name]


def load(
    folder: Path | str,
    *,
    experiment: Experiment | Path | str | None = None,
    network: nn.Module | None = None,
) -> TaskNetwork:
    """Returns the trained network of a finished run, in evaluation mode.

    >>> from tempfile import TemporaryDirectory
    >>> import allotment as al
    >>> from allotment.experiments import overridden
    >>> from allotment.paper import experiment_named
    >>> with TemporaryDirectory() as out:
    ...     short = overridden(experiment_named("two_pairs"), ["rounds=10"])
    ...     records = al.sweep(short, out, methods=["gumbel"], n_runs=1, say=str)
    ...     network = al.load(f"{out}/gumbel/seed-000")
    >>> network.n_tasks
    4

    Args:
        folder: Of the run.
        experiment: What it is a run of, where that is one's own: the declaration, or the Python
            file that defines it, which is run. No code is run that is not named here, not even the
            copy of it in the folder of the sweep.
        network: An untrained network of the same architecture, which is filled in place.
    """
    if not isinstance(folder, str | Path):
        raise TypeError(f"`folder` should be a path. Found {described(folder)}.")
    record = read_run(Path(folder))
    _check_finished(record, Path(folder))
    if network is not None:
        found = as_network(network, list(record.header.task_names))
    else:
        declared = experiment_of(folder, experiment)
        found = _untrained(record, declared, read_table(folder), Path(folder))
    try:
        found.load_state_dict(read_weights(Path(folder)))
    except RuntimeError as error:
        last = str(error).strip().splitlines()[-1].strip()  # of torch's list of differences
        raise ValueError(
            "The network should have the architecture of the one that was trained. "
            f"Found another in `{folder}`: {last}"
        ) from error
    if not record.header.settings.get("allocation", {}).get("keeps_one"):
        for layer in found.modular_layers:
            layer.allocation.keeps_one = False  # as it was trained, and before there was a choice
    return found.eval()


def _check_finished(record: RunRecord, folder: Path) -> None:
    if not record.finished:
        raise ValueError(
            "A run whose network is loaded should have finished. Found one in "
            f"`{folder}` that failed, since its loss was not finite in task batch "
            f"{record.outcome.failed_step}."
        )


def experiment_of(
    folder: Path | str, experiment: Experiment | Path | str | None = None
) -> Experiment:
    """Returns what the run in a folder is of: what was named, or one of the package's.

    Args:
        folder: Of a run.
        experiment: What it is of, or the file that defines it; None: one of the package's.
    """
    header = read_run(Path(folder)).header
    name = header.settings.get("variant_of", {}).get("experiment", header.experiment)
    if isinstance(experiment, Experiment):
        return experiment
    if experiment is not None:
        return read_experiment(experiment).experiment
    if name not in EXPERIMENTS:
        raise ValueError(
            "A run of one's own experiment should be loaded with `experiment=`, its declaration or "
            "file, or with `network=`, an untrained network; on the command line with "
            f"--experiment FILE. Found a run of {name!r} in `{folder}`{_copy_beside(Path(folder))}."
        )
    return EXPERIMENTS[name]


def read_table(folder: Path | str) -> TablePreprocessing | None:
    """Returns how rows of a table become inputs of the network of a run, if it learnt from one."""
    found = read_preprocessing(Path(folder))
    return None if found is None else TablePreprocessing.from_dict(found)


def _copy_beside(folder: Path) -> str:
    """Returns where a sweep left a copy of its experiment's file, above the folder of a run."""
    copies = (parent / "experiment.py" for parent in folder.resolve().parents[:3])
    found = next((path for path in copies if path.is_file()), None)
    return f"; a copy of its file, which naming it would run, is `{found}`" if found else ""


def _untrained(
    record: RunRecord, experiment: Experiment, table: TablePreprocessing | None, folder: Path
) -> TaskNetwork:
    """Returns the network that a run started from."""
    header = record.header
    variant_of = header.settings.get("variant_of", {})
    try:
        method = experiment.method(variant_of.get("method", header.method))
    except ValueError as error:
        raise ValueError(f"`{folder / 'settings.json'}` names another method. {error}") from error
    options = header.settings.get("allocation", {})
    method = replace(method, allocation=method.allocation.as_recorded(options))
    outputs = dict(zip(header.task_names, header.n_classes, strict=False))
    if table is not None:
        outputs = {t.name: 1 if t.classes is None else len(t.classes) for t in table.targets}
    if not outputs:  # of regressions the record does not tell
        tasks = experiment.make_tasks(TaskChoice(header.condition, header.seed, None))
        outputs = {task.name: task.n_outputs for task in tasks}
    return experiment.build_network(method, outputs, header.seed, header.condition)
