"""A trained network back from its run."""

from pathlib import Path

from ..modules import MultiTaskNetwork
from ..records import read_run, read_weights
from ._registry import experiment_named


def load(folder: Path | str) -> MultiTaskNetwork:
    """Returns the trained network of a finished run, in evaluation mode."""
    header = read_run(Path(folder)).header
    experiment = experiment_named(header.experiment)
    widths = header.n_classes or [1] * len(header.task_names)
    outputs = dict(zip(header.task_names, widths, strict=True))
    network = experiment.build_network(experiment.method(header.method), outputs, header.seed)
    network.load_state_dict(read_weights(Path(folder)))
    return network.eval()
