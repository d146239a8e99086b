"""What all figures share: their colours, their ink, and how they leave as SVG or PNG."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind readers; its black and yellow are left out,
# since one vanishes on a dark page and the other on a light one.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))  # for a page without colour
INK = "#1b1b1f"  # becomes the colour of the page's text
MAP = "cividis"

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "allotment",  # the same figure gives the same bytes
    "svg.fonttype": "path",
    "text.parse_math": False,  # a task may be called "$x$"
    "font.size": 9,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draws with the report's own settings and leaves everyone else's alone."""
    with matplotlib.rc_context(_SETTINGS):
        yield


def line_style(place: int, n_lines: int) -> dict[str, Any]:
    """Returns how the line at ``place`` of ``n_lines`` is drawn, apart from the others."""
    if n_lines <= len(COLOURS):
        return {"color": COLOURS[place], "linestyle": _DASHES[place]}
    return {"color": colormaps[MAP](0.3 + 0.65 * place / (n_lines - 1))}  # the darkest left out


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of this size in inches that keeps its labels inside."""
    return Figure(figsize=(width, height), layout="constrained")


def plain_axes(axes: Axes) -> None:
    """Takes away the frame at the top and at the right."""
    axes.spines[["top", "right"]].set_visible(False)


def svg(figure: Figure) -> str:
    """Returns a figure to stand in a page, transparent and with lines in the page's colour."""
    content = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with drawing():
        figure.savefig(content, format="svg", metadata=nothing, transparent=True)
    text = content.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)  # each label again, in words
    # Names of groups would stand twice in a page with two figures; nothing refers to them.
    return re.sub(r'<g id="[\w.]+_\d+">', "<g>", text)


def png(figure: Figure) -> bytes:
    """Returns a figure as a picture on white."""
    content = io.BytesIO()
    with drawing():
        figure.savefig(content, format="png", dpi=144, metadata={"Software": None})
    return content.getvalue()
