"""What all figures share: checks of what they draw, their colours, and SVG or PNG at the end."""

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from .._checks import described, is_list_of, numbers
from .._schema import Floats
from ..records import write_bytes

# Okabe and Ito's palette, told apart by colour-blind readers; its black and yellow are left out,
# since one vanishes on a dark page and the other on a light one; a grey takes their place.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
# Dashes tell lines apart in print too.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# What the text below a figure takes, in inches: a line's mark, a letter, a row.
_KEY_MARK, _KEY_LETTER, _KEY_ROW = 0.6, 0.075, 0.18
TEXT = "#1b1b1f"  # becomes the colour of the page's text
MAP = "cividis"

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "allotment",  # the same figure gives the same bytes
    "svg.fonttype": "path",
    "text.parse_math": False,  # a task may be called "$x$"
    "font.size": 9,
    "axes.titlesize": 10,
    "text.color": TEXT,
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
}


@dataclass(frozen=True, kw_only=True)
class NamedFigure:
    """A figure that is drawn when it is asked for."""

    name: str  # of its file, without the ending
    caption: str
    draw: Callable[[], Figure]


@contextmanager
def drawing() -> Iterator[None]:
    """Draws with the report's own settings and leaves everyone else's alone."""
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box in its place says as much
        yield


def line_style(place: int, n_lines: int) -> dict[str, Any]:
    """Returns how the line at ``place`` of ``n_lines`` is drawn, apart from the others."""
    n_colours = len(COLOURS)
    if n_lines <= 2 * n_colours:  # the second time round, a colour has another dash
        dash = _DASHES[(place + place // n_colours) % n_colours]
        return {"color": COLOURS[place % n_colours], "linestyle": dash}
    return {"color": colormaps[MAP](0.3 + 0.65 * place / (n_lines - 1))}  # the darkest left out


def family_style(families: Sequence[str], task: int) -> dict[str, Any]:
    """Returns the colour and the marker of a task: its family's, or the same for all tasks.

    Without families, or with more than there are colours, all tasks look alike.
    """
    names = list(dict.fromkeys(families))
    if not 0 < len(names) <= len(COLOURS):
        return {"color": TEXT, "marker": _MARKERS[0]}
    place = names.index(families[task])
    return {"color": COLOURS[place], "marker": _MARKERS[place]}


def families_key(figure: Figure, families: Sequence[str]) -> None:
    """Says below a figure which family has which colour, where families have colours."""
    names = list(dict.fromkeys(families))
    if not 0 < len(names) <= len(COLOURS):
        return
    marks = [
        Line2D([], [], linestyle="", label=name, **family_style(families, families.index(name)))
        for name in names
    ]
    key_below(figure, marks, names)


def key_below(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Says below a figure what is what, in as many columns as fit, and makes room for it."""
    if not names:
        return
    width = figure.get_figwidth()
    longest = _KEY_MARK + _KEY_LETTER * max(map(len, names))
    n_rows = math.ceil(len(names) / max(1, int(width / longest)))
    shown = [fill(name, int((width - _KEY_MARK) / _KEY_LETTER)) for name in names]
    n_lines = n_rows + sum(name.count("\n") for name in shown)  # a column alone has such names
    figure.set_figheight(figure.get_figheight() + _KEY_ROW * max(0, n_lines - 2))
    n_columns = math.ceil(len(names) / n_rows)  # no more than these rows need
    figure.legend(handles, shown, loc="outside lower center", ncols=n_columns, frameon=False)


def panel_row(
    conditions: Iterable[str], *, height: float, ylabel: str
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with a panel over rounds for each condition, side by side."""
    names = list(conditions)
    figure = new_figure(max(4.8, 3.6 * len(names)), height)
    row = figure.subplots(1, len(names), sharey=True, squeeze=False)[0].tolist()
    for axes, name in zip(row, names, strict=True):
        axes.set_title(name)
        axes.set_xlabel("rounds")
        plain_axes(axes)
    row[0].set_ylabel(ylabel)
    return figure, row


def key_of_lines(figure: Figure) -> None:
    """Says below a figure what its lines are, each name once."""
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    key_below(figure, list(entries.values()), list(entries))


def new_figure(width: float, height: float, *, square: bool = False) -> Figure:
    """Returns an empty figure of this size in inches that keeps its labels inside.

    ``square``: for axes with cells as wide as high, whose labels are placed by what is drawn.
    """
    layout: Literal["compressed", "constrained"] = "compressed" if square else "constrained"
    return Figure(figsize=(width, height), layout=layout)


def plain_axes(axes: Axes) -> None:
    """Takes away the frame at the top and at the right."""
    axes.spines[["top", "right"]].set_visible(False)


def make_logarithmic(axes: Axes) -> None:
    """Gives an axis of losses or errors a logarithmic scale with plain numbers.

    They stand at 1, 2 and 5, and between these where the axis is short.
    """
    axes.set_yscale("log")
    least, most = axes.get_ylim()
    between = (1.0, 2.0, 5.0) if most > 12 * least else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axes.yaxis.set_major_locator(LogLocator(subs=between))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def svg(figure: Figure) -> str:
    """Returns a figure to stand in a page, transparent and with lines in the page's colour."""
    content = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with drawing():
        figure.savefig(content, format="svg", metadata=nothing, transparent=True)
    text = content.getvalue()
    text = text[text.index("<svg") :].replace(TEXT, "currentColor")
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)  # each label again, in words
    # Names of groups would stand twice in a page with two figures; nothing refers to them.
    return re.sub(r'<g id="[\w.]+_\d+">', "<g>", text)


def png(figure: Figure) -> bytes:
    """Returns a figure as a picture on white."""
    content = io.BytesIO()
    with drawing():
        figure.savefig(content, format="png", dpi=144, metadata={"Software": None})
    return content.getvalue()


def write_drawing(figure: Figure, stem: Path) -> list[Path]:
    """Writes a figure as PNG and as SVG beside each other and returns their paths."""
    picture, drawn = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    write_bytes(picture, png(figure))
    write_bytes(drawn, svg(figure).encode())
    return [picture, drawn]


def checked_rows(
    embeddings: ArrayLike, task_names: Sequence[str], families: Sequence[str] = ()
) -> Floats:
    """Returns the embeddings as an array ``[T, C]``; raises unless they are finite and named."""
    rows = numbers("embeddings", embeddings)
    if rows.ndim != 2 or 0 in rows.shape or not np.isfinite(rows).all():
        finite = "" if np.isfinite(rows).all() else " with entries that are not finite"
        raise ValueError(
            "`embeddings` should be of shape [T, C] with finite entries. "
            f"Found shape {list(rows.shape)}{finite}."
        )
    _check_names("task_names", task_names, len(rows), "task")
    _check_names("families", families, len(rows), "task", may_lack=True)
    return rows


def checked_layers(
    layer_sizes: Sequence[int], component_names: Sequence[str], n_components: int
) -> tuple[list[int], list[str]]:
    """Returns the size of each layer and the name of each component, made up where not given.

    >>> checked_layers([2, 1], [], 3)
    ([2, 1], ['1', '2', '1'])
    """
    if not is_list_of(layer_sizes, int):
        raise TypeError(f"`layer_sizes` should be a list of int. Found {described(layer_sizes)}.")
    sizes = list(layer_sizes) or [n_components]
    if sum(sizes) != n_components or min(sizes) < 1:
        raise ValueError(
            f"`layer_sizes` should be positive and sum to {n_components}, the number of "
            f"components. Found {sizes}."
        )
    _check_names("component_names", component_names, n_components, "component", may_lack=True)
    if not len(component_names):
        return sizes, [str(place + 1) for size in sizes for place in range(size)]
    return sizes, list(component_names)


def _check_names(
    name: str, found: Sequence[str], n: int, what: str, *, may_lack: bool = False
) -> None:
    if not is_list_of(found, str):
        raise TypeError(f"`{name}` should be a list of texts. Found {described(found)}.")
    if len(found) != n and (found or not may_lack):
        raise ValueError(
            f"`{name}` should be one for each {what}. Found {len(found)} for {n} {what}s."
        )
