"""Run groups on a Ray cluster of two nodes on this machine."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch, TempPathFactory, fixture, importorskip, mark, raises

from allotment.experiments import RunGroup, Stopped, Sweep, run_sweep
from allotment.experiments.launchers import Message, RayCluster, _ray
from allotment.experiments.launchers._launcher import Order
from allotment.experiments.launchers._ray import _train
from allotment.experiments.launchers._training import Parcel
from allotment.records import read_environment
from allotment.training import Progress, TrainingState
from tests.cli.processes import ended, started
from tests.cli.test_kill import records_without_commands
from tests.cli.test_workers import wait_for_checkpoint
from tests.experiments.test_running import a_sweep, records_in, stop_after
from tests.experiments.toy import toy

# Before the cluster starts, and for its processes.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray's workers would starve beside other tests; the name is spelt as Ray reads it.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
ray = importorskip("ray")
cluster_utils = importorskip("ray.cluster_utils")

pytestmark = mark.xdist_group("ray")  # one cluster at a time
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster whose first node has room for one run group; tests add others."""
    head = {**NODE, "include_dashboard": False}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def twelve(out: Path, **changes: Any) -> Sweep:
    """A sweep of twelve run groups, each long enough for a node to be killed meanwhile."""
    experiment = toy("two_pairs", rounds=100)
    values: dict[str, Any] = {"experiment": experiment, "methods": experiment.methods}
    sizes = {"n_runs": 4, "group_size": 1, "checkpoint_every": 20}
    return a_sweep(out, **values | sizes | changes)


@fixture(scope="session")
def whole(tmp_path_factory: TempPathFactory) -> Any:
    """What twelve run groups leave without Ray."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    run_sweep(twelve(out))
    return records_in(out)


def hanging(doomed: str, hangs: Path) -> Any:
    """Training that hangs on one node after its first checkpoint; elsewhere it waits for that.

    So the node that a test kills has a run group in the middle, however busy this machine is. It
    is a function within another, and so sent whole: workers cannot import the tests.
    """

    def train(parcel: Parcel, order: Order, wish: Any) -> Iterator[tuple[Message, ...]]:
        is_doomed = ray.get_runtime_context().get_node_id() == doomed
        while not (is_doomed or hangs.exists()):
            time.sleep(0.05)
        for batch in _train(parcel, order, wish):
            yield batch
            if is_doomed and any(isinstance(message, TrainingState) for message in batch):
                hangs.touch()
                time.sleep(600)

    return train


def test_a_node_killed_in_the_middle_changes_nothing(
    cluster: Any, whole: Any, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    nodes = [cluster.add_node(**NODE)]
    hangs = tmp_path / "hangs"
    monkeypatch.setattr(_ray, "_train", hanging(nodes[0].node_id, hangs))
    said: list[str] = []

    def kill(group: RunGroup, progress: Progress) -> None:
        if nodes and hangs.exists():
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    out = tmp_path / "out"
    run_sweep(twelve(out), kill, say=said.append, launcher=RayCluster(cluster.address))
    assert not nodes
    # Ray may give the dead node another run group before it notices, which is lost as well.
    assert any("its worker was lost" in text for text in said)
    assert any("Resuming after round 20." in text for text in said)
    assert records_in(out) == whole
    assert not (out / "checkpoints").exists()
    assert read_environment(out / "gumbel" / "seed-003").n_threads == 1


@mark.slow
def test_a_driver_killed_and_started_again_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    options = ("--method", "gumbel", "--runs", "3", "--group-size", "1", "--rounds", "200")
    more = ("--checkpoint-every", "10", "--device", "cpu")
    on_ray = ("--ray", cluster.address)
    process = started(tmp_path, "run", "two_pairs", "--out", "out", *options, *more, *on_ray)
    wait_for_checkpoint(tmp_path / "out", process)
    process.kill()
    ended(process)
    process = started(tmp_path, "run", "two_pairs", "--resume", "out", *on_ray)
    text, error = ended(process)
    assert (process.returncode, error) == (0, "")
    assert text.count(": Resuming after round") == 1
    process = started(tmp_path, "run", "two_pairs", "--out", "whole", *options, *more)
    assert ended(process)[1] == ""
    whole = records_without_commands(tmp_path / "whole")
    assert records_without_commands(tmp_path / "out") == whole


def test_a_stop_on_a_cluster_leaves_a_checkpoint_that_goes_on_without_it(
    cluster: Any, whole: Any, tmp_path: Path
) -> None:
    listen, stop = stop_after(1)
    sweep = twelve(tmp_path, n_runs=1)
    sweep = replace(sweep, methods=sweep.methods[-1:])
    with raises(Stopped, match="tired"):
        run_sweep(sweep, listen, stop=stop, launcher=RayCluster(cluster.address))
    assert len(list(tmp_path.rglob("interrupted.json"))) == 1
    said: list[str] = []
    run_sweep(replace(sweep, resume=True), say=said.append)
    assert [text[:20] for text in said] == ["Resuming after round"]
    found = records_in(tmp_path)
    assert len(found) == 5
    assert found == {name: whole[name] for name in found}


@mark.parametrize("address", ["127.0.0.1:6", "nonsense"])
def test_an_address_without_a_cluster_is_refused(address: str, tmp_path: Path) -> None:
    with raises(ValueError, match=r"`ray` should be the address of a Ray cluster that is running"):
        run_sweep(twelve(tmp_path, n_runs=1), launcher=RayCluster(address))
