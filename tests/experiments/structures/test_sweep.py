"""Methods with structures go through a sweep like all others."""

from pathlib import Path

from pytest import mark

from allotment.allocation import (
    PLE,
    SNR,
    CrossStitch,
    NoSharing,
    SharedBottom,
    SoftmaxMatrix,
)
from allotment.experiments import Experiment, Method, Sweep, run_sweep, structures, using
from allotment.records import read_run
from tests.experiments.structures.toy import WIDTHS, small_network
from tests.training.toy import SETTINGS, classes

METHODS = [
    Method(name="single_task", allocation=using(NoSharing), structure=structures.single_task),
    Method(
        name="soft_ordering", allocation=using(SoftmaxMatrix), structure=structures.soft_ordering
    ),
    Method(
        name="task_routing",
        allocation=using(SharedBottom, reduce="mean"),
        structure=structures.task_routing,
    ),
    Method(name="cross_stitch", allocation=using(CrossStitch), structure=structures.cross_stitch),
    Method(name="snr_trans", allocation=using(SNR), structure=structures.snr_trans),
    Method(name="snr_aver", allocation=using(SNR), structure=structures.snr_aver),
    Method(name="ple", allocation=using(PLE), structure=structures.ple),
]


@mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_method_with_a_structure_is_run_and_recorded(method: Method, tmp_path: Path) -> None:
    experiment = Experiment(
        name="toy",
        tasks=classes(*WIDTHS),
        network=small_network,
        methods=[method],
        training=SETTINGS.changed(rounds=2, trace=False),
        n_runs=2,
    )
    folders = run_sweep(Sweep(experiment=experiment, out=tmp_path))
    assert len(folders) == 2
    for folder in folders:
        record = read_run(folder)
        assert record.header.settings["allocation"]["structure"] == method.name
        n_components = sum(record.header.layer_sizes)
        assert len(record.header.component_names) == n_components
        assert record.outcome.matrix.shape == (2, n_components)
