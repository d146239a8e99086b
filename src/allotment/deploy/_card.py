"""A card for a task: what its network costs and reaches, what it shares, where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, StrictUndefined
from torch.utils._pytree import tree_map

from .._schema import Evaluation
from ..modules import Cost, TaskNetwork, cost_of, with_every_component
from ..records import RunRecord
from ..report import Table, markdown_table
from ..tasks import TablePreprocessing, Task
from ._examples import examples_of
from ._network import DeployedNetwork

BATCHES = (1, 64)  # examples at a time
_N_TIMES = 30
_MARKED = "\\`*_[]<>#"  # what Markdown gives a meaning; tables see to "|"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is told of a task's network.

    Attributes:
        title: The task's name.
        summary: A sentence.
        tables: Costs, results, what is shared, and where it came from.
    """

    title: str
    summary: str
    tables: tuple[Table, ...]

    def markdown(self) -> str:
        """Returns the card as a Markdown page."""
        blocks = [f"# {_plain(self.title)}", _plain(self.summary)]
        for table in self.tables:
            cells = Table(
                head=tuple(map(_plain, table.head)),
                rows=tuple(tuple(map(_plain, row)) for row in table.rows),
            )
            blocks += [f"## {_plain(table.caption)}", markdown_table(cells)]
        return "\n\n".join(blocks) + "\n"

    def html(self) -> str:
        """Returns the card as one HTML page."""
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        template = files("allotment.deploy").joinpath("card.html.jinja").read_text("utf-8")
        return environment.from_string(template).render(card=self)

    def write(self, path: Path) -> None:
        """Writes the card as HTML or Markdown, as the file's name says."""
        if path.suffix not in (".html", ".md"):
            raise ValueError(f"`output` should end in .html or .md. Found `{path.name}`.")
        text = self.html() if path.suffix == ".html" else self.markdown()
        path.write_text(text, encoding="utf-8")


def card_of(
    record: RunRecord,
    network: TaskNetwork,
    task: Task,
    *,
    preprocessing: TablePreprocessing | None = None,
) -> Card:
    """Returns the card of one of a run's tasks; latency is measured here and now.

    ``network`` is the run's, and ``task`` has the data that it was trained on.

    Args:
        record: Of the run.
        network: The run's, trained.
        task: With the data that it was trained on.
        preprocessing: Of the table that these are from, if they are: it tells the units of losses.
    """
    header = record.header
    costs = {
        "Whole network": _costs(with_every_component(network), task),
        "This task's network": _costs(network, task),
    }
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    first, second = (by_batch[1] for by_batch in costs.values())
    tables = (
        _cost_table(n_parameters, costs),
        _result_table(record, task.name, preprocessing),
        _sharing_table(record, task.name),
        _component_table(record, task.name),
        _origin_table(record, task),
    )
    share = 100 * second.parameters / n_parameters
    summary = f"The network of this task has {share:.0f} % of the parameters of all tasks' network"
    if first.flops:
        needed = 100 * second.flops / first.flops
        summary += f", and takes {needed:.0f} % of the operations"
    summary += f". Experiment {header.experiment}, method {header.method}, seed {header.seed}."
    shown = [table for table in tables if table is not None and table.rows]
    return Card(title=task.name, summary=summary, tables=tuple(shown))


@torch.no_grad()
def _costs(network: TaskNetwork, task: Task) -> dict[int, Cost]:
    """Returns what a task's part of a network costs, from inputs as they are stored, by batch."""
    inputs, scale = examples_of([task])
    own = DeployedNetwork(network, [task.name], scale=scale)

    def rows(n: int) -> Any:  # some of them again where there are fewer
        return tree_map(lambda x: x[torch.arange(n) % len(x)], inputs)

    return {n: cost_of(own, partial(own, rows(n)), _N_TIMES) for n in BATCHES}


def _cost_table(n_parameters: int, costs: Mapping[str, Mapping[int, Cost]]) -> Table:
    first, second = costs.values()
    numbers = {
        "Parameters": (n_parameters, second[1].parameters),
        "Operations for one example": (first[1].flops, second[1].flops),
    }
    rows = [(name, f"{a:,}", f"{b:,}", _share(a, b)) for name, (a, b) in numbers.items()]
    for n in BATCHES:
        a, b = 1e3 * first[n].latency, 1e3 * second[n].latency
        rows.append((f"Milliseconds for a batch of {n}", f"{a:.3g}", f"{b:.3g}", _share(a, b)))
    n_threads = torch.get_num_threads()
    head = (f"CPU, {n_threads} thread{'s' * (n_threads > 1)}", *costs, "Share")
    return Table(head=head, rows=tuple(rows), caption="Cost, before and after")


def _share(whole: float, part: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _result_table(
    record: RunRecord, task: str, preprocessing: TablePreprocessing | None
) -> Table | None:
    place = record.header.task_names.index(task)
    found = [each for each in (record.outcome.test, record.outcome.validation) if each]
    by_split = [_numbers(each, place) for each in found]
    names = dict.fromkeys(name for numbers in by_split for name in numbers)
    rows = tuple((name, *(own.get(name, "–") for own in by_split)) for name in names)
    head = ("", *(each.split.capitalize() for each in found))
    caption = f"Results{_units_text(task, preprocessing)}"
    return Table(head=head, rows=rows, caption=caption) if rows else None


def _units_text(task: str, preprocessing: TablePreprocessing | None) -> str:
    """Returns the units of losses, where they are not the target's own."""
    target = None if preprocessing is None else preprocessing.target(task)
    if target is None or target.std == 1.0:
        return ""
    return f", in units of the target's standard deviation, {target.std:.4g}"


def _numbers(found: Evaluation, place: int) -> dict[str, str]:
    """Returns what is known of a task's results on a split, by name."""
    values = {"Loss": found.losses, **found.metrics}
    known = {name: f"{own[place]:.4g}" for name, own in values.items() if not np.isnan(own[place])}
    if found.accuracies is not None and not np.isnan(found.accuracies[place]):
        known["Accuracy"] = f"{100 * found.accuracies[place]:.2f} %"
    return known


def _sharing_table(record: RunRecord, task: str) -> Table | None:
    """Returns with which tasks it has components in common, most of them first."""
    header, uses = record.header, record.outcome.matrix > 0
    own = uses[header.task_names.index(task)]
    both = {
        name: (int((own & row).sum()), int(row.sum()))
        for name, row in zip(header.task_names, uses, strict=True)
        if name != task
    }
    ordered = sorted(both.items(), key=lambda item: -item[1][0])
    rows = tuple((name, f"{n} of {int(own.sum())}", str(theirs)) for name, (n, theirs) in ordered)
    head = ("Other task", "Components of this task that it uses too", "Components it uses in all")
    return Table(head=head, rows=rows, caption="What it shares, and with whom") if rows else None


def _component_table(record: RunRecord, task: str) -> Table:
    """Returns which components of each layer it uses."""
    header = record.header
    row = record.outcome.matrix[header.task_names.index(task)]
    starts = np.cumsum([0, *header.layer_sizes])
    rows = []
    for layer, (start, end) in enumerate(pairwise(starts)):
        names = [
            name if header.is_binary else f"{name} ({share:.2f})"
            for name, share in zip(header.component_names[start:end], row[start:end], strict=True)
            if share > 0
        ]
        rows.append((str(layer + 1), f"{len(names)} of {end - start}", ", ".join(names) or "none"))
    head = ("Modular layer", "Used", "Components")
    return Table(head=head, rows=tuple(rows), caption="What it uses")


def _origin_table(record: RunRecord, task: Task) -> Table:
    header, environment = record.header, record.environment
    training = header.settings.get("training", {})
    groups = {**training, **training.get("optimization", {}), **training.get("penalties", {})}
    names = ["batch_size", "schedule", "learning_rate", "allocation_learning_rate"]
    names += ["evaluate_every", "patience"]
    names += ["budget", "cost"] * (groups.get("budget") is not None)
    settings = ", ".join(f"{n} {groups[n]}" for n in names if groups.get(n) is not None)
    allocation = header.settings.get("allocation", {})
    options = ", ".join(f"{n} {v}" for n, v in allocation.items() if n != "kind")
    rows = [
        ("Examples", repr(task).partition(": ")[2].rstrip(")")),
        ("Condition", header.condition),
        ("Way of sharing", f"{allocation.get('kind', '')}{f' ({options})' if options else ''}"),
        ("Settings", settings),
        ("Rounds", _rounds(record)),
        ("Command", header.command),
        ("Commit", environment.short_commit),
        ("Started", environment.started),
        ("Versions", f"allotment {environment.allotment}, torch {environment.torch}"),
        ("Device", environment.device),
        ("File", environment.source),
    ]
    told = tuple((name, value) for name, value in rows if value)
    return Table(head=("", ""), rows=told, caption="Where it came from")


def _rounds(record: RunRecord) -> str:
    """Returns how long was trained, and of which round the weights are."""
    done, best = record.outcome.rounds, record.outcome.best_round
    return f"{done:,}" if best is None else f"{done:,}; weights of round {best:,}"


def _plain(text: str) -> str:
    """Returns a text that Markdown shows as it is, on one line."""
    marked = "".join(f"\\{letter}" if letter in _MARKED else letter for letter in text)
    return " ".join(marked.split())
