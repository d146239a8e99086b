"""The command that shows which tasks belong together."""

from argparse import Namespace

from rich.console import Console
from rich.markup import escape

from ..records import RecordError
from ._display import say
from ._pages import expectations, read_records
from ._terminal_table import print_table


def show_embeddings(options: Namespace) -> int:
    """Prints which tasks belong together in runs, and draws it."""
    from ..report import embeddings_views, write_views  # here, since figures take long to import

    records = read_records(*options.runs)
    if options.output.exists() and not options.output.is_dir():
        raise RecordError(f"`output` should be a folder. Found the file {options.output}.")
    views = embeddings_views(records, expectations(records))
    if not views:
        raise RecordError(
            f"`runs` should hold a run that reached its end. Found {len(records)} that failed."
        )
    options.output.mkdir(parents=True, exist_ok=True)  # before anything is said
    console = Console()
    for view in views:
        console.print(f"[bold]{escape(view.title)}[/bold]\n", highlight=False)
        for table in view.tables:
            if table.caption:
                console.print(table.caption, highlight=False, markup=False)
            print_table(console, table)
            console.print()
    paths = write_views(views, options.output)
    say(console, f"Drew {len(paths) // 2} figures, each as PNG and SVG: {options.output}")
    return 0
