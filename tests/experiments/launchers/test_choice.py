"""Which launcher options mean."""

from typing import Any

from pytest import MonkeyPatch, mark, raises

from allotment.experiments import choose_launcher, run_sweep
from allotment.experiments.launchers import InTurn, Launcher, Processes, RayCluster
from tests.experiments.test_running import a_sweep


@mark.parametrize(
    ("device", "options", "expected"),
    [
        ("auto", {"workers": 1}, InTurn()),
        ("cpu", {"workers": 2}, Processes(2)),
        ("cpu", {"workers": "auto"}, Processes(None)),
        ("auto", {"ray": "auto"}, RayCluster("auto", None)),
        ("cpu", {"ray": "here:1"}, RayCluster("here:1", 0.0)),
        ("cuda", {"ray": "auto", "gpus_per_group": 0.5}, RayCluster("auto", 0.5)),
    ],
)
def test_options_mean_a_launcher(device: str, options: dict[str, Any], expected: Launcher) -> None:
    assert choose_launcher(device, **options) == expected


@mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, r"`workers` should be at least 1\. Found `workers = 0`"),
        ({"workers": "all"}, r"should be a number or 'auto'\. Found `workers = 'all'`"),
        ({"workers": 2, "ray": "auto"}, r"`workers` should be left out .* Found `workers = 2`"),
        ({"gpus_per_group": 0.5}, r"should come with `ray`\. Found `gpus-per-group = 0\.5`"),
        ({"ray": "auto", "gpus_per_group": -1.0}, r"should be at least 0\. Found"),
        ({"ray": "ray://far:10001"}, r"`ray` should be `auto` or .* Found `ray = 'ray://far"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with raises(ValueError, match=message):
        choose_launcher("cpu", **options)


def test_ray_is_needed_only_where_it_is_asked_for(tmp_path: Any, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with raises(ValueError, match=r"should be installed .* pip install 'allotment\[ray\]'"):
        run_sweep(a_sweep(tmp_path), launcher=RayCluster())


@mark.parametrize(("wanted", "found", "expected"), [(None, 0, 0), (None, 8, 1), (0.5, 8, 0.5)])
def test_a_group_has_one_gpu_unless_a_share_is_given(
    wanted: float | None, found: float, expected: float
) -> None:
    assert RayCluster("auto", wanted)._n_gpus(found) == expected


def test_gpus_that_no_cluster_has_are_refused() -> None:
    with raises(ValueError, match=r"should be what a node of the cluster has\. Found .* = 0\.5`"):
        RayCluster("auto", 0.5)._n_gpus(0.0)
