import json
from dataclasses import replace
from typing import Any

import numpy as np
from pytest import MonkeyPatch, approx

from allotment.analysis import (
    cluster,
    cosine_similarity,
    embeddings,
    error_curves,
    estimate,
    linkage,
    loss_band,
    measure,
    used_parameters,
    used_shares,
)
from allotment.records import RunRecord
from allotment.report import OwnSection, ReportSpec, _explorer, _pages, html_page
from tests.records.made_up import (
    a_header,
    a_record,
    an_evaluation,
    an_outcome,
    failed_run,
    loss_run,
)
from tests.report.expected import TWO_PAIRS, runs
from tests.report.packed import data_of, end_of, over_time_of
from tests.report.suites import OMNIGLOT, alphabets_run, clusters_run

RUNS = [*runs("gumbel", [0.3, 0.31, 0.32], recovered=3), *runs("no_sharing", [0.5, 0.55, 0.6])]


def only(records: list[RunRecord], spec: ReportSpec = TWO_PAIRS) -> dict[str, Any]:
    """The one experiment of a page of these runs."""
    (experiment,) = data_of(html_page(records, [spec]))["experiments"]
    return dict(experiment)


def test_every_method_with_runs_and_every_run_can_be_chosen() -> None:
    experiment = only(RUNS)
    found = [
        (each["name"], [run["seed"] for run in each["runs"]]) for each in experiment["methods"]
    ]
    assert found == [("No sharing", [0, 1, 2]), ("Gumbel-Matrix", [0, 1, 2])]
    assert [each["typical"] for each in experiment["methods"]] == [1, 1]
    assert experiment["methods"][1]["value"] == "0.310 ± 0.010 sd (n=3)"


def test_the_numbers_of_a_run_are_those_of_its_record() -> None:
    run = clusters_run(3)
    entry = only([run])["methods"][0]["runs"][0]
    assert entry["value"] == approx(100 * measure(run), rel=1e-4)
    assert entry["open"] == approx(100 * used_shares(run).mean(), rel=1e-4)
    assert entry["cost"] == approx(100 * used_parameters(run).mean(), rel=1e-4)
    assert (entry["rounds"], entry["best"], entry["failed"]) == (3000, None, False)


def test_the_end_of_a_run_holds_its_gates_its_tree_and_its_clusters() -> None:
    run = clusters_run()
    experiment = data_of(html_page([run], []))["experiments"][0]
    found = end_of(experiment["methods"][0]["runs"][0], experiment["suites"][0])
    similarity = cosine_similarity(embeddings(run))
    tree = linkage(similarity)
    assert found["rows"].tolist() == embeddings(run).ravel().tolist()
    assert found["gates"].tolist() == np.rint(100 * run.outcome.probabilities).ravel().tolist()
    assert found["merges"].tolist() == tree[:, :2].ravel().tolist()
    assert found["heights"].tolist() == approx(tree[:, 2].tolist(), abs=1e-6)
    assert tuple(found["clusters"]) == cluster(similarity).labels
    assert found["used"].tolist() == np.rint(100 * used_shares(run)).tolist()


def test_what_tasks_reached_is_shown_as_the_report_shows_it() -> None:
    accuracies = np.linspace(0.5, 0.9, 20)
    run = alphabets_run()
    run = replace(run, outcome=replace(run.outcome, test=an_evaluation(accuracies)))
    experiment = only([run], OMNIGLOT)
    found = end_of(experiment["methods"][0]["runs"][0], experiment["suites"][0])
    assert found["tested"].tolist() == approx((100 * (1 - accuracies)).tolist(), abs=1e-4)


def test_gates_over_time_are_those_of_the_logged_rounds() -> None:
    run = RUNS[0]
    entry = only(RUNS)["methods"][1]["runs"][0]
    logged = run.snapshots.rounds.tolist()
    assert len(logged) > len(entry["at"]) == 40
    assert (entry["at"][0], entry["at"][-1]) == (logged[0], logged[-1])
    places = [logged.index(at) for at in entry["at"]]
    shown = np.rint(100 * run.snapshots.probabilities[places]).reshape(40, -1)
    assert over_time_of(entry).tolist() == shown.tolist()


def test_shares_are_kept_as_they_are_and_may_be_negative() -> None:
    shares = np.array([[1.25, -0.5], [0.1, 0.9]])
    header = a_header(
        task_names=("a", "b"),
        families=(),
        layer_sizes=(2,),
        component_names=("1", "2"),
        component_kinds=("dense",) * 2,
        is_binary=False,
    )
    record = a_record(header, an_outcome(matrix=shares, probabilities=shares))
    experiment = only([record])
    found = end_of(experiment["methods"][0]["runs"][0], experiment["suites"][0])
    assert found["gates"].tolist() == [125, -50, 10, 90]
    assert found["rows"].tolist() == shares.astype(np.float32).ravel().tolist()


def test_curves_are_the_bands_of_the_analysis() -> None:
    curve = only(RUNS)["methods"][1]["loss"]
    band = loss_band(RUNS[:3], TWO_PAIRS.window)
    assert curve["n"] == 3
    assert curve["rounds"] == band.rounds.tolist()
    assert curve["mean"] == approx(band.mean.tolist(), rel=1e-4)
    assert curve["low"] == approx(band.low.tolist(), rel=1e-4)


def test_checks_have_a_band_over_runs() -> None:
    every = [alphabets_run(seed) for seed in range(3)]
    curve = only(every, OMNIGLOT)["methods"][0]["checks"]
    at, _ = every[0].validation[2]
    assert (curve["rounds"][2], curve["label"]) == (at, "Validation error, %")
    found = estimate(100 * error_curves([run]).mean[2] for run in every)
    assert curve["mean"][2] == approx(found.mean, rel=1e-4)
    assert [curve["low"][2], curve["high"][2]] == approx(list(found.interval), rel=1e-4)


def test_long_curves_keep_their_first_and_last_round() -> None:
    run = a_record(outcome=an_outcome(rounds=50 * 400))
    rounds = only([run])["methods"][0]["loss"]["rounds"]
    assert (len(rounds), rounds[0], rounds[-1]) == (_explorer.MAX_POINTS, 50, 50 * 400)


def test_a_failed_run_is_there_without_a_map_and_a_lone_run_without_a_band() -> None:
    method = only([loss_run(0.5, 0), failed_run(1)])["methods"][0]
    good, failed = method["runs"]
    assert (failed["failed"], failed["value"], "end" in failed) == (True, None, False)
    assert "end" in good
    assert set(method["loss"]["low"]) == {None}


def test_maps_that_there_is_no_room_for_are_left_out_the_typical_run_last(
    monkeypatch: MonkeyPatch,
) -> None:
    sizes = [len(run["end"]) for each in only(RUNS)["methods"] for run in each["runs"]]
    monkeypatch.setattr(_explorer, "_ROOM", 2 * max(sizes) + 1)
    kept = [["end" in run for run in each["runs"]] for each in only(RUNS)["methods"]]
    assert kept == [[False, True, False], [False, True, False]]


def test_typical_runs_have_their_gates_over_time_before_others_have_a_map(
    monkeypatch: MonkeyPatch,
) -> None:
    method = only(RUNS[:3])["methods"][0]
    end, gates = (max(len(run[name]) for run in method["runs"]) for name in ("end", "over_time"))
    monkeypatch.setattr(_explorer, "_ROOM", end + 2 * gates + 1)
    kept = [("end" in run, "over_time" in run) for run in only(RUNS[:3])["methods"][0]["runs"]]
    assert kept[1] == (True, True)
    assert not kept[0][1]
    assert not kept[2][1]


def test_figures_that_there_is_no_room_for_are_left_out_and_counted(
    monkeypatch: MonkeyPatch,
) -> None:
    assert "Figures for papers (4)" in html_page(RUNS, [TWO_PAIRS])
    monkeypatch.setattr(_pages, "_ROOM", 0)
    page = html_page(RUNS, [TWO_PAIRS])
    assert "Figures for papers (0)" in page
    assert "4 more took too much room for this page." in page


def test_large_drawings_become_pictures_where_that_takes_less(monkeypatch: MonkeyPatch) -> None:
    assert '<img src="data:image/png' not in html_page(RUNS, [TWO_PAIRS])
    monkeypatch.setattr(_pages, "_LARGE_DRAWING", 0)
    monkeypatch.setattr(_pages, "png", lambda figure: b"small")
    assert html_page(RUNS, [TWO_PAIRS]).count('<img src="data:image/png') == 4


def test_an_experiment_with_its_own_way_is_not_explored() -> None:
    own = replace(TWO_PAIRS, own=lambda records: OwnSection(sentences=("In its own way.",)))
    assert data_of(html_page(RUNS, [own])) == {"experiments": []}


def test_names_cannot_leave_the_data() -> None:
    name = "</script><script>alert(1)</script><!-- & \u2028 \"'"
    record = loss_run(
        1.0, 0, experiment=name, method=name, task_names=(name, "b", "c", "d"), families=(name,) * 4
    )
    page = html_page([record], [])
    text = page.partition('id="data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028") & set(text)
    (experiment,) = json.loads(text)["experiments"]
    assert experiment["title"] == experiment["methods"][0]["name"] == name
    assert experiment["suites"][0]["tasks"][0] == experiment["suites"][0]["families"][0] == name
    assert page.count("</script>") == 2
