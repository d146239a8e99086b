"""The page to explore, in a real browser: what one sees is what the records say."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytest import fixture, mark

from allotment.analysis import (
    cluster,
    cosine_similarity,
    embeddings,
    leaf_order,
    linkage,
    loss_band,
    measure,
)
from allotment.report import html_page
from tests.browser.chromium import PATH, Browser, browser
from tests.records.made_up import failed_run, loss_run
from tests.report.expected import TWO_PAIRS, runs
from tests.report.suites import CLUSTER_TASKS, clusters_run

pytestmark = [
    mark.skipif(PATH is None, reason="needs a browser: `chromium` is not on the path"),
    mark.xdist_group("browser"),  # one browser for all of them
]

HOSTILE = "</script><img src=x onerror=window.hurt=1>"
PAIRS = [
    *runs("gumbel", [0.3, 0.31, 0.32], recovered=3),
    *runs("no_sharing", [0.5, 0.55, 0.6]),
    failed_run(3),
]
CLUSTERS = [clusters_run(seed) for seed in range(2)]
OTHER = loss_run(1.0, 0, experiment="data", method=HOSTILE, task_names=(HOSTILE, "=1+1", "c", "d"))


@fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "page.html"
    path.write_text(html_page([*PAIRS, *CLUSTERS, OTHER], [TWO_PAIRS]), encoding="utf-8")
    with browser(folder) as found:
        yield found, path


@fixture
def tab(page: tuple[Browser, Path]) -> Iterator[Browser]:
    """The page, opened anew; it should meet no error in any test."""
    found, path = page
    found.open(path)
    found.wait("Number(document.querySelector('#explorer').dataset.drawn) > 0")
    yield found
    assert not found.problems


def drawn(tab: Browser, action: str, *arguments: str) -> None:
    """Does something and waits until what follows from it is drawn."""
    count = "Number(document.querySelector('#explorer').dataset.drawn)"
    before = tab.run(count)
    getattr(tab, action)(*arguments)
    tab.wait(f"{count} > {before}")


def options(tab: Browser, selector: str) -> list[str]:
    return tab.texts(f"{selector} option")


def told(tab: Browser, host: str) -> str:
    """What a screen reader is told of the cell that has the focus."""
    return tab.text(f"{host} + [role=status]")


def test_experiment_method_and_run_are_chosen_in_plain_lists(tab: Browser) -> None:
    assert options(tab, "#experiment") == ["Two pairs of tasks", "clusters", "data"]
    assert options(tab, "#method") == ["No sharing", "Gumbel-Matrix"]
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    values = [float(f"{measure(run):.5g}") for run in PAIRS[:3]]
    assert options(tab, "#run") == [
        f"seed 0: {values[0]}",
        f"seed 1: {values[1]} (median)",
        f"seed 2: {values[2]}",
        "seed 3: failed",
    ]
    assert tab.texts("#tiles dd")[:2] == ["0.310 ± 0.010 sd (n=3)", "0.31"]
    drawn(tab, "choose", "#run", "seed 2: 0.32")
    assert tab.texts("#tiles dd")[1] == "0.32"
    drawn(tab, "choose", "#experiment", "clusters")
    medians = [text.partition("(")[2] for text in options(tab, "#run")]
    assert sorted(medians) == ["", "lower median)"]  # of two runs neither is the median


def test_what_is_drawn_while_a_run_is_unpacked_is_still_the_one_before(tab: Browser) -> None:
    tab.run(
        """for (const place of [1, 2, 1]) {
          const select = document.querySelector("#experiment");
          select.value = place;
          select.dispatchEvent(new Event("change"));
          dispatchEvent(new Event("beforeprint"));  // which draws
          dispatchEvent(new Event("afterprint"));
        }"""
    )
    tab.wait("document.querySelector('#task').options.length === 41")
    assert options(tab, "#task")[1:] == list(CLUSTER_TASKS)


def test_a_failed_run_says_so_in_place_of_maps(tab: Browser) -> None:
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    drawn(tab, "choose", "#run", "seed 3: failed")
    assert tab.text("#missing") == "This run failed: it has no allocation to show."
    assert tab.run("document.querySelector('#map').offsetParent === null")


def test_the_keyboard_reads_every_cell_as_it_is_recorded(tab: Browser) -> None:
    drawn(tab, "choose", "#experiment", "clusters")
    run = CLUSTERS[0]
    drawn(tab, "choose", "#run", options(tab, "#run")[0])
    order = leaf_order(linkage(cosine_similarity(embeddings(run))))
    tab.run("document.querySelector('#map').focus()")
    tab.press("ArrowDown")  # to the first cell
    for row, column, keys in ((0, 0, []), (2, 0, ["ArrowDown"] * 2), (2, 47, ["End"])):
        tab.press(*keys)
        task, rows = order[row], embeddings(run)
        users = [other for other in np.flatnonzero(rows[:, column]) if other != task]
        said = told(tab, "#map")
        assert said.startswith(f"{CLUSTER_TASKS[task]} ({run.header.families[task]}). ")
        assert f"component {run.header.component_names[column]}. " in said
        assert f"probability {round(100 * run.outcome.probabilities[task, column])} %" in said
        assert ("not used by this task" in said) == (rows[task, column] == 0)
        assert f"used by {len(users)} other" in said or not users
        assert not users or CLUSTER_TASKS[users[0]] in said


def test_the_pointer_says_the_same_as_the_keyboard(tab: Browser) -> None:
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    tab.run("document.querySelector('#map').focus()")
    tab.press("ArrowDown", "ArrowDown", "ArrowRight")
    said = told(tab, "#map")
    tab.press("Escape")
    assert tab.run("document.querySelector('.tip').hidden")
    tab.middle("#map")
    x, y = tab.run(
        """(() => {
          const box = document.querySelectorAll("#map .cells rect")[5].getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        })()"""
    )
    tab.hover_at(x, y)
    assert ". ".join(tab.texts(".tip > *")) == said


def test_the_slider_goes_through_the_logged_rounds(tab: Browser) -> None:
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    run = PAIRS[1]
    assert tab.text("#round") == "end of training, round 3,000"
    tab.run("document.querySelector('#time').focus()")
    tab.press("Home")
    assert tab.text("#round") == "round 50 of 3,000"
    tab.run("document.querySelector('#map').focus()")
    tab.press("ArrowDown")
    first = leaf_order(linkage(cosine_similarity(embeddings(run))))[0]
    value = round(100 * run.snapshots.probabilities[0, first, 0])
    assert f"probability {value} %. at 50 % or more by" in told(tab, "#map")
    tab.run("document.querySelector('#time').focus()")
    tab.press(*["ArrowRight"] * 25)
    at = int(tab.text("#round").split()[1].replace(",", ""))
    tab.run("document.querySelector('#map').focus()")
    tab.press("ArrowDown")
    (place,) = np.flatnonzero(run.snapshots.rounds == at)
    value = round(100 * run.snapshots.probabilities[place, first, 0])
    assert f"probability {value} %" in told(tab, "#map")
    tab.run("document.querySelector('#time').focus()")
    tab.press("End")
    tab.run("document.querySelector('#play').click()")
    assert tab.text("#play") == "Pause"
    tab.wait("document.querySelector('#time').value > 0")
    tab.click("#play")
    assert tab.text("#play") == "Play"


def test_a_picked_task_and_its_neighbours_are_marked_everywhere(tab: Browser) -> None:
    drawn(tab, "choose", "#experiment", "clusters")
    drawn(tab, "choose", "#run", options(tab, "#run")[0])
    task = 3
    drawn(tab, "choose", "#task", CLUSTER_TASKS[task])
    similarity = cosine_similarity(embeddings(CLUSTERS[0]))[task]
    others = [other for other in range(40) if other != task]
    near = sorted(others, key=lambda other: (-similarity[other], other))[:5]
    assert tab.texts("#near .chip") == [
        f"{CLUSTER_TASKS[other]} {similarity[other]:.2f}" for other in near
    ]
    assert tab.run("document.querySelectorAll('#tree circle').length") == 6
    bold = tab.texts("#tree text[font-weight='700'] title")
    assert sorted(bold) == sorted(CLUSTER_TASKS[other] for other in (task, *near))
    assert sorted(tab.texts("#map text[font-weight='700'] title")) == sorted(bold)
    drawn(tab, "click", "#near .chip")
    assert tab.text("#near strong") == CLUSTER_TASKS[near[0]]


def test_the_tree_and_the_similarities_pick_tasks_too(tab: Browser) -> None:
    run = PAIRS[1]
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    similarity = cosine_similarity(embeddings(run))
    order = leaf_order(linkage(similarity))
    names = run.header.task_names
    tab.run("document.querySelector('#similarity').focus()")
    tab.press("ArrowDown", "ArrowRight", "ArrowRight")
    pair = f"{names[order[0]]} and {names[order[2]]}"
    value = f"{similarity[order[0], order[2]]:.2f}"
    assert told(tab, "#similarity") == f"{pair}. cosine similarity {value}"
    drawn(tab, "press", "Enter")
    assert tab.text("#near strong") == names[order[0]]
    tab.run("document.querySelector('#tree').focus()")
    tab.press("ArrowDown", "ArrowDown")
    label = cluster(similarity).labels[order[1]] + 1
    assert told(tab, "#tree").startswith(f"{names[order[1]]}. family pair a. cluster {label}. ")
    drawn(tab, "press", "Enter")
    assert tab.text("#near strong") == names[order[1]]


def test_bars_beside_the_rows_are_explained(tab: Browser) -> None:
    drawn(tab, "choose", "#experiment", "clusters")
    names = list(dict.fromkeys(CLUSTERS[0].header.families))
    assert tab.texts("#families .family") == names
    rects = "[...document.querySelectorAll({!r})].map((each) => each.getAttribute('fill'))"
    colours = tab.run(rects.format("#families rect"))
    bars = tab.run(rects.format("#map svg > rect[width='4']"))
    assert len(bars) == len(CLUSTER_TASKS) and set(bars) == set(colours)


@mark.parametrize("by", ["cluster", "family", "name", "order of the records"])
def test_rows_are_sorted(tab: Browser, by: str) -> None:
    drawn(tab, "choose", "#experiment", "clusters")
    drawn(tab, "choose", "#sort", "name")
    drawn(tab, "choose", "#sort", by)
    leaves = leaf_order(linkage(cosine_similarity(embeddings(CLUSTERS[0]))))
    families = CLUSTERS[0].header.families
    expected = {
        "cluster": leaves,
        "family": sorted(leaves, key=lambda task: families.index(families[task])),
        "order of the records": list(range(40)),
    }
    shown = tab.texts("#map > svg > text > title")
    shown = [name for name in shown if name in CLUSTER_TASKS]
    if by == "name":
        assert shown == sorted(CLUSTER_TASKS, key=str.lower)
    else:
        assert shown == [CLUSTER_TASKS[task] for task in expected[by]]


def test_curves_are_switched_on_and_off_and_read(tab: Browser) -> None:
    lines = "document.querySelectorAll('#curves path[stroke]').length"
    assert tab.run(lines) == 2
    tab.click("#keys label:nth-child(2) input")
    assert tab.run(lines) == 1
    tab.click("#all-off")
    assert tab.run(lines) == 0
    tab.click("#all-on")
    assert tab.run(lines) == 2
    tab.run("document.querySelector('#curves').focus()")
    tab.press("ArrowRight", "End")
    band = loss_band(PAIRS[3:6], TWO_PAIRS.window)
    line = f"No sharing: {band.mean[-1]:.3g} ({band.low[-1]:.3g} to {band.high[-1]:.3g})"
    assert told(tab, "#curves").startswith(f"round 3,000. {line}")


def test_a_point_of_cost_chooses_its_method(tab: Browser) -> None:
    tab.run("document.querySelector('#costs').focus()")
    tab.press("ArrowRight", "End")
    said = told(tab, "#costs")
    assert "components that a task uses, %: 37.5" in said
    name = said.partition(".")[0]
    other = next(each for each in options(tab, "#method") if each != name)
    drawn(tab, "choose", "#method", other)
    tab.run("document.querySelector('#costs').focus()")
    tab.press("ArrowRight", "End")
    drawn(tab, "press", "Enter")
    assert tab.run("document.querySelector('#method').selectedOptions[0].text") == name


def test_an_interval_that_is_cut_off_has_an_arrow(
    page: tuple[Browser, Path], tmp_path: Path
) -> None:
    found, _ = page
    cut = "document.querySelectorAll('#costs path.cut').length"
    for values, n_arrows in (([0.39, 0.4, 0.41], 0), ([0.3, 0.5], 2)):  # two runs say little
        path = tmp_path / f"{n_arrows}.html"
        every = [*runs("gumbel", values), *runs("no_sharing", [0.5, 0.52, 0.54])]
        path.write_text(html_page(every, [TWO_PAIRS]), encoding="utf-8")
        found.open(path)
        found.wait("Number(document.querySelector('#explorer').dataset.drawn) > 0")
        assert found.run(cut) == n_arrows


def test_three_digits_of_a_run_are_shown_and_fit_a_phone(
    page: tuple[Browser, Path], tmp_path: Path
) -> None:
    found, _ = page
    path = tmp_path / "page.html"
    path.write_text(html_page(runs("gumbel", [0.31234]), [TWO_PAIRS]), encoding="utf-8")
    found.open(path, width=400)
    found.wait("Number(document.querySelector('#explorer').dataset.drawn) > 0")
    assert options(found, "#run") == ["seed 0: 0.312"]
    assert found.texts("#tiles dd")[1] == "0.312"
    assert found.run("document.querySelector('#run').clientWidth") > 300


def test_tables_are_sorted_by_a_click_on_a_heading(tab: Browser) -> None:
    drawn(tab, "choose", "#method", "Gumbel-Matrix")
    tab.click("#explorer details:last-of-type summary")
    tab.wait("document.querySelector('#run-table table') !== null")
    column = "#run-table tbody td:nth-child(2)"
    assert tab.texts(column) == ["0.3", "0.31", "0.32", "–"]
    for order in (["0.3", "0.31", "0.32", "–"], ["0.32", "0.31", "0.3", "–"]):
        tab.click("#run-table th:nth-child(2) button")
        assert tab.texts(column) == order  # what is missing stays last
    assert tab.run("document.querySelector('#run-table th[aria-sort]').ariaSort") == "descending"
    drawn(tab, "click", "#run-table tbody tr:first-child button")
    assert tab.texts("#tiles dd")[1] == "0.32"
    static = "main > section:not([data-explorer]) table"
    tab.click(f"{static} th:nth-child(3) button")
    assert tab.texts(f"{static} td:nth-child(1)")[:3] == [
        *("Gumbel-Matrix", "No sharing", "Shared bottom"),
    ]


def test_a_table_is_copied(tab: Browser) -> None:
    tab.run(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: (text) => "
        "{ window.copied = text; return Promise.resolve(); } } })"
    )
    tab.run("document.querySelector('main > section:not([data-explorer]) .tools button').click()")
    tab.wait("window.copied !== undefined")
    head, first, *_ = tab.run("window.copied").split("\n")
    assert head.split("\t")[0] == "Method"
    assert "↕" not in head
    assert first.split("\t")[:2] == ["No sharing", "–"]


def test_the_map_is_saved_as_csv_and_as_svg(tab: Browser) -> None:
    drawn(tab, "choose", "#experiment", "clusters")
    drawn(tab, "choose", "#run", options(tab, "#run")[0])
    run = CLUSTERS[0]
    name, text = tab.downloaded("[data-save='map.csv']")
    assert name == "clusters-gumbel-seed-0-map.csv"
    head, *rows = csv.reader(io.StringIO(text))
    assert head[:3] == ["task", "family", "layer 1: conv3x3 A"]
    for task, family, *values in rows:
        place = CLUSTER_TASKS.index(task)
        assert family == run.header.families[place]
        recorded = np.rint(100 * run.outcome.probabilities[place]).astype(int)
        assert [int(value) for value in values] == recorded.tolist()
    for part in ("map", "similarity", "tree", "curves", "costs"):
        _, text = tab.downloaded(f"[data-save='{part}.svg']")
        assert text.startswith("<svg")
        assert "NaN" not in text
        assert tab.run(
            f"!new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml')"
            ".querySelector('parsererror')"
        )


def test_names_are_text_and_never_markup_or_formulas(tab: Browser) -> None:
    drawn(tab, "choose", "#experiment", "data")
    drawn(tab, "choose", "#task", HOSTILE)
    assert tab.text("#near strong") == HOSTILE
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("window.hurt") is None
    _, text = tab.downloaded("[data-save='similarity.csv']")
    assert "'=1+1" in text


def test_no_other_script_can_run(tab: Browser) -> None:
    tab.run(
        "(() => { const added = document.createElement('script'); "
        "added.textContent = 'window.hurt = 1'; document.body.append(added); })()"
    )
    assert tab.run("window.hurt") is None
    assert any("Content Security Policy" in problem for problem in tab.problems)
    tab.problems.clear()


@mark.parametrize("width", [360, 768, 1200])
def test_nothing_is_wider_than_the_window(tab: Browser, width: int) -> None:
    tab.resize(width, 800)
    drawn(tab, "choose", "#experiment", "clusters")
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_everything_one_operates_has_a_name(tab: Browser) -> None:
    tab.send("Accessibility.enable")
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    operated = ("button", "combobox", "slider", "checkbox", "application")
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    assert set(operated) <= {role.lower() for role in roles}
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"] and node["role"]["value"].lower() in operated
        if not node.get("name", {}).get("value")
    ]
    assert nameless == []


def test_dark_and_light_have_colours_of_their_own_and_print_is_light(tab: Browser) -> None:
    cell = "document.querySelector('#map .cells rect').getAttribute('fill')"
    light = tab.run(cell)
    tab.media(dark=True)
    tab.wait(f"{cell} !== '{light}'")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run(cell) == light
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(cell) != light
