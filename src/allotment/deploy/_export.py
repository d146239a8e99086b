"""Networks as files for other programs, compared with the network before they are there."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from .._checks import first_line
from ..modules import TaskNetwork, as_network
from ..tasks import TablePreprocessing
from ._examples import Rows, rows_to_compare
from ._formats import FORMATS, Run, Traced
from ._network import DeployedNetwork

TOLERANCE = 1e-4  # of a difference, beside the largest output, or beside 1 where that is less


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """A network that was exported.

    >>> from pathlib import Path
    >>> facts = {"inputs": {"x": "float32 [N, 8]"}, "difference": 1e-6, "n_real": 9, "n_random": 9}
    >>> ExportedFile(path=Path("a.onnx"), tasks=("a",), **facts).path.suffix
    '.onnx'

    Attributes:
        path: Of the file.
        tasks: One output each, in this order.
        inputs: What it takes, in words, by name.
        difference: The largest between its outputs and the network's, on all rows compared.
        n_real: Examples of the tasks that were compared.
        n_random: Random inputs that were compared.
    """

    path: Path
    tasks: tuple[str, ...]
    inputs: dict[str, str]
    difference: float
    n_real: int
    n_random: int


@torch.no_grad()
def export(
    network: nn.Module,
    tasks: str | Sequence[str],
    path: Path | str,
    examples: Any,
    *,
    preprocessing: TablePreprocessing | None = None,
    scale: float = 1.0,
) -> ExportedFile:
    """Writes what tasks use of a network into a file, and compares both before it is there.

    The number of rows may be any. A file has one output for each task, and tells the names of
    classes and columns. ``FILE.onnx`` is for onnxruntime and others, ``FILE.pt2`` for
    `torch.export.load`.

    >>> from tempfile import TemporaryDirectory
    >>> from torch import nn
    >>> import allotment as al
    >>> from allotment.deploy import export
    >>> layer = al.ModularLayer([nn.Linear(8, 4) for _ in range(2)], al.SharedBottom(2, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> with TemporaryDirectory() as folder:
    ...     made = export(network, ["a", "b"], f"{folder}/both.pt2", torch.randn(9, 8))
    >>> made.tasks, made.difference < 1e-4
    (('a', 'b'), True)

    Args:
        network: A network, or any module with modular layers in it.
        tasks: A name, or several, whose common parts are then computed once.
        path: Ends in ``.onnx`` or ``.pt2``.
        examples: Inputs as the network is given them, two at least: a tensor, or a dict or tuple
            of them. With `scale` they are as they are stored, and multiplied by it on the way.
        preprocessing: Of the table that the network learnt from. The file then takes the columns of
            a table, and gives numbers in their own units.
        scale: What stored inputs, such as images of bytes, are multiplied by.
    """
    whole, path = as_network(network).eval(), Path(path)
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    if path.suffix not in FORMATS:
        raise ValueError(f"`path` should end in .onnx or .pt2. Found `{path.name}`.")
    for name in names:
        whole.task_index(name)
    if preprocessing is not None:
        _check_has_targets(preprocessing, names)
    own = DeployedNetwork(whole, names, preprocessing=preprocessing, scale=scale)
    rows = rows_to_compare(examples, preprocessing, scale)
    traced = Traced(_traced(own, rows[0]), names, preprocessing, list(rows[0].feed))
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        with _quiet():
            run = FORMATS[path.suffix](traced, made)
        difference = max(_difference(whole, names, preprocessing, own, run) for own in rows)
        made.replace(path)
    return ExportedFile(
        path=path,
        tasks=tuple(names),
        inputs=_in_words(rows[0], takes_texts=path.suffix == ".onnx"),
        difference=difference,
        n_real=rows[0].n,
        n_random=rows[1].n,
    )


def _check_has_targets(preprocessing: TablePreprocessing, tasks: Sequence[str]) -> None:
    """Raises unless all tasks are targets of the table."""
    known = [target.name for target in preprocessing.targets]
    for name in tasks:
        if name not in known:
            raise ValueError(
                "`preprocessing` should have a target for each of `tasks`. Found no "
                f"{name!r} among {known}; `tasks_from_table(..., preprocessing=...)` reads a later "
                "table so that the targets of both are there."
            )


def _traced(own: DeployedNetwork, rows: Rows) -> torch.export.ExportedProgram:
    """Returns the operations of a network, for any number of rows."""
    two = tree_map(lambda x: x[:2], rows.inputs)
    try:
        own(*two)
    except Exception as error:  # whatever a user's module raises
        found = [list(x.shape) for x in tree_leaves(rows.inputs)]
        raise ValueError(
            "`examples` should be such as the network takes. "
            f"Found shapes {found}: {first_line(error)}"
        ) from error
    shapes = (tree_map(lambda _: {0: torch.export.Dim("rows", min=1)}, two),)  # of `*inputs`
    try:
        with _quiet():
            # What torch cannot prove of the number of rows, such as min(32, 32 * rows) = 32, is
            # checked by the file where it runs; it would be refused here.
            return torch.export.export(
                own,
                two,
                dynamic_shapes=shapes,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except Exception as error:  # whatever a user's module raises
        raise ValueError(
            "`network` should be one that torch.export can follow for any number of rows. "
            f"Found: {first_line(error)}"
        ) from error


def _difference(
    network: TaskNetwork,
    tasks: Sequence[str],
    preprocessing: TablePreprocessing | None,
    rows: Rows,
    run: Run,
) -> float:
    """Returns the largest difference between a file and a network; raises where it is too large."""
    found, largest = run(rows), 0.0
    for name, y in zip(tasks, found, strict=True):
        expected = network(rows.given, name)
        target = None if preprocessing is None else preprocessing.target(name)
        if target is not None and target.classes is None:
            expected = torch.from_numpy(target.decoded(expected))
        difference = float((y.double() - expected.double()).abs().max())
        # Outputs of a table are told in its units, and compared in those of training.
        unit = 1.0 if target is None or target.classes is not None else target.std
        if not difference <= TOLERANCE * max(unit, float(expected.abs().max())):
            raise ValueError(
                "An exported network should give what the network gives, up to rounding. "
                f"Found a difference of {difference:.2g} in the outputs of {name!r}."
            )
        largest = max(largest, difference)
    return largest


def _in_words(rows: Rows, *, takes_texts: bool) -> dict[str, str]:
    """Returns what a file takes, by name; without texts it takes their places in their stead."""
    found = {}
    for name, array in rows.feed.items():
        is_place = array.dtype == object and not takes_texts
        kind = "text" if array.dtype == object else str(array.dtype)
        shape = ", ".join(["N", *map(str, array.shape[1:])])
        found[name] = f"{'place among its categories, int64' if is_place else kind} [{shape}]"
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what torch's exporter says of its own affairs from a user, who can do nothing there."""
    # The second logs a traceback of what is raised all the same.
    names = ("torch.onnx", "torch._subclasses.fake_tensor")
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in names}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
