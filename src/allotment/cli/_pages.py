"""The commands that read records: pages, figures, kept results."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from ..paper import (
    CAUSES,
    COMPARED,
    EXPERIMENTS,
    HEADLINES,
    MAP_PAGE,
    MAPS,
    REMEDIES,
    WELL_TRAINED,
    causes_page,
    map_summary,
    remedy_page,
    remedy_summary,
)
from ..records import (
    RecordError,
    RunRecord,
    file_name,
    keep,
    keep_rates,
    read_declarations,
    read_kept,
    read_runs,
    unfinished_runs,
    write_bytes,
)
from ._display import say
from ._output import printable
from ._terminal_table import print_table

if TYPE_CHECKING:
    from ..report import ReportSpec

WHEN = (*MAPS, *CAUSES, *REMEDIES)  # the experiments of docs/when.md


def report(options: Namespace) -> int:
    """Writes one HTML page from the runs in one or more folders."""
    write_page(options.runs, options.output)
    print(f"Report: {options.output}")
    return 0


def write_page(folders: Sequence[Path], page: Path) -> None:
    """Writes the page of the runs in the folders."""
    from ..report import html_page  # here, since figures take long to import

    records = read_records(*folders)
    if page.is_dir():
        raise RecordError(f"`output` should be a file. Found the folder {page}.")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"`output` should be in a folder that can be made. Found {error}."
        ) from error
    write_bytes(page, html_page(records, report_specs(records, *folders)).encode())


def show_embeddings(options: Namespace) -> int:
    """Prints which tasks belong together in runs, and draws it."""
    from ..report import embeddings_views, write_views  # here, since figures take long to import

    records = read_records(*options.runs)
    if options.output.exists() and not options.output.is_dir():
        raise RecordError(f"`output` should be a folder. Found the file {options.output}.")
    views = embeddings_views(records, report_specs(records, *options.runs))
    if not views:
        raise RecordError(
            f"`runs` should hold a run that reached its end. Found {len(records)} that failed."
        )
    options.output.mkdir(parents=True, exist_ok=True)  # before anything is said
    console = Console()
    for view in views:
        console.print(f"[bold]{escape(printable(view.title))}[/bold]\n", highlight=False)
        for table in view.tables:
            if table.caption:
                console.print(printable(table.caption), highlight=False, markup=False)
            print_table(console, table)
            console.print()
    paths = write_views(views, options.output)
    say(console, f"Drew {len(paths) // 2} figures, each as PNG and SVG: {options.output}")
    return 0


def keep_runs(options: Namespace) -> int:
    """Adds finished runs to the kept results."""
    records = read_records(*options.runs)
    many = {each.name for each in WHEN}  # runs, of which only the ends are looked at
    ends = [record for record in records if record.header.experiment in many]
    others = [record for record in records if record.header.experiment not in many]
    paths = [*keep(others, options.results), *keep(ends, options.results, with_curves=False)]
    for path in [*paths, *keep_rates(options.runs, options.results)]:
        print(f"Kept: {path}")
    return 0


def docs(options: Namespace) -> int:
    """Writes the pages of results and their figures from the kept results."""
    from ..report import write_figures  # here, for the same reason

    root: Path = options.root
    for path, text in generated_pages(root).items():
        write_bytes(path, text.encode())
        print(f"Wrote {path}.")
    records, _, when = _kept(root)
    shown = [*records, *when]
    figures = write_figures(shown, report_specs(shown), root / "docs" / "figures")
    print(f"Drew {len(figures)} figures.")
    return 0


def generated_pages(root: Path) -> dict[Path, str]:
    """Returns what the pages that are made from the kept results should hold."""
    from ..report import (
        deployment_blocks,
        markdown_comparison,
        markdown_results,
        ranking_summary,
        scale_blocks,
        speed_table,
        with_block,
    )

    results, docs = root / "results", root / "docs"
    records, compared, when = _kept(root)
    specs = [_remarked(each, results) for each in report_specs(records)]
    suites = {
        name: _remarked(each.report_spec(compared), results) for name, each in COMPARED.items()
    }
    well_trained = {(WELL_TRAINED.name, method.name) for method in WELL_TRAINED.methods}
    compared += [r for r in records if (r.header.experiment, r.header.method) in well_trained]
    speed = f"\n## Speed\n\n{speed_table(results / 'speed')}\n"
    readme = _readme_blocks(results, records, specs, when)
    blocks = {
        docs / "scale.md": scale_blocks(results / "speed"),
        docs / "deploy.md": deployment_blocks(results / "deploy"),
        root / "README.md": {**readme, "ranks": ranking_summary(compared, suites)},
    }
    filled = {path: path.read_text(encoding="utf-8") for path in blocks}
    for path, parts in blocks.items():
        for name, text in parts.items():
            filled[path] = with_block(filled[path], name, text)
    return {
        docs / "results.md": markdown_results(records, specs) + speed,
        docs / "comparison.md": markdown_comparison(
            compared, [*suites.values(), WELL_TRAINED.report_spec(compared)]
        ),
        docs / "when.md": _when_page(results, when),
        **filled,
    }


def _when_page(results: Path, when: list[RunRecord]) -> str:
    """Returns the page of when learnt gates pay, why they lose, and what is recommended."""
    from ..report import markdown_page, markdown_part

    maps, causes, remedies = (
        [_remarked(each.report_spec(when), results) for each in kind]
        for kind in (MAPS, CAUSES, REMEDIES)
    )
    mapped = [record for record in when if record.header.experiment in {m.name for m in MAPS}]
    return "\n".join(
        [
            markdown_page(*MAP_PAGE, mapped, maps),
            markdown_part(*causes_page(when), when, causes),
            markdown_part(*remedy_page(when), when, remedies),
        ]
    )


def _readme_blocks(
    results: Path, records: list[RunRecord], specs: list["ReportSpec"], when: list[RunRecord]
) -> dict[str, str]:
    from ..report import Headline, readme_results, speed_summary

    return {
        "results": readme_results(records, specs, [Headline(*row) for row in HEADLINES]),
        "speed": speed_summary(results / "speed"),
        "map": f"{map_summary(when)}\n\n{remedy_summary(when)}",
    }


def _kept(root: Path) -> tuple[list[RunRecord], list[RunRecord], list[RunRecord]]:
    """Returns the kept runs, and those of comparisons and of when gates pay, on other pages."""
    pages: list[list[RunRecord]] = [[], [], []]
    places = {each.name: 1 for each in COMPARED.values()} | {each.name: 2 for each in WHEN}
    for record in read_kept(root / "results"):
        pages[places.get(record.header.experiment, 0)].append(record)
    experiments, comparisons, when = pages
    return experiments, comparisons, when


def _remarked(spec: "ReportSpec", results: Path) -> "ReportSpec":
    """Returns a spec with what is written beside the kept results, if anything is."""
    path = results / file_name(spec.experiment) / "remark.md"
    remark = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return replace(spec, remark=remark)


def read_records(*folders: Path) -> list[RunRecord]:
    """Returns the runs in the folders, each once, or says which of them has none."""
    for folder in folders:
        if not folder.is_dir():
            raise RecordError(
                f"`runs` should be a folder with runs in it. Found no folder {folder}."
            )
        if not any(folder.rglob("summary.json")):
            raise RecordError(
                f"`runs` should hold at least one finished run. Found none in {folder}, "
                f"and {len(unfinished_runs(folder))} that did not reach their end."
            )
    return read_runs(*folders)


def report_specs(records: list[RunRecord], *folders: Path) -> list["ReportSpec"]:
    """Returns how the experiments that the records are of are reported, in their order.

    Of those that the package does not have, the folders of their runs say it.
    """
    from ..report import ReportSpec  # here, since figures take long to import

    present = {record.header.experiment for record in records}
    known = [e.report_spec(records) for name, e in EXPERIMENTS.items() if name in present]
    declared = read_declarations(*folders) if present - set(EXPERIMENTS) else {}
    own = [name for name in declared if name in present and name not in EXPERIMENTS]
    return known + [ReportSpec.from_record(declared[name]) for name in own]
