"""What one small `fit` goes through: the files it enters, and the frames down to a component."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

import allotment as al

ROOT = Path(al.__file__).parent
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")  # Python 3.12 has no frames for them


@dataclass(frozen=True)
class OneFit:
    """What was seen of one `fit`.

    Attributes:
        files: The files of the package in which a function ran, below its root.
        eager: The package's frames from `fit` to a component's `forward`, in an eager step.
        recorded: The same while a step is recorded.
    """

    files: tuple[str, ...]
    eager: tuple[str, ...]
    recorded: tuple[str, ...]


def one_fit() -> OneFit:
    """Trains a tiny network twice, recorded and eager, and returns what it went through."""
    recorded, files = _fit(trace=True)
    eager, _ = _fit(trace=False)
    return OneFit(tuple(sorted(files)), eager, recorded)


@contextmanager
def functions_run(root: Path) -> Iterator[set[str]]:
    """Collects the files under ``root`` in which a function runs, until the end."""
    files: set[str] = set()

    def notice(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and _is_function_of(root, frame.f_code):
            files.add(Path(frame.f_code.co_filename).relative_to(root).as_posix())

    sys.setprofile(notice)
    try:
        yield files
    finally:
        sys.setprofile(None)


def frames_below(function: str, root: Path) -> tuple[str, ...]:
    """Returns the frames of ``root`` from the call of ``function`` down to the caller, in order."""
    frames: list[str] = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if _is_function_of(root, code) and code.co_name not in _COMPREHENSIONS:
            file = Path(code.co_filename).relative_to(root).as_posix()
            frames.append(f"{file}: {code.co_qualname}")
            if code.co_name == function:
                return tuple(reversed(frames))
        frame = frame.f_back  # type: ignore[assignment]
    return ()


def _is_function_of(root: Path, code: CodeType) -> bool:
    """Whether it is a function in a file under ``root``, and not the body of a module or class."""
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    return is_function and code.co_filename.startswith(f"{root}/")


class _Watched(nn.Linear):
    """A component that notes how each of its training passes was reached."""

    passes: list[tuple[str, ...]]

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.passes.append(frames_below("fit", ROOT))
        return super().forward(x)


def _fit(*, trace: bool) -> tuple[tuple[str, ...], set[str]]:
    """Returns the frames of the last training pass of a tiny `fit`, and the files it entered.

    Where steps are eager the last pass is one of them. Where they are recorded it is the recording:
    the component's Python does not run after it.
    """
    torch.manual_seed(0)
    _Watched.passes = []
    layer = al.ModularLayer([_Watched(4, 8), _Watched(4, 8)], al.GumbelMatrix(2, 2))
    network = al.MultiTaskNetwork(None, [layer], {"a": nn.Linear(8, 3), "b": nn.Linear(8, 3)})
    x, y = torch.randn(60, 4), torch.randint(3, (60,))
    tasks = [al.Task(name, (x[:40], y[:40]), validation=(x[40:], y[40:])) for name in "ab"]
    settings = al.TrainingSettings(
        rounds=20, evaluate_every=10, execution=al.Execution(trace=trace)
    )
    with functions_run(ROOT) as files:
        al.fit(network, tasks, settings)
    return _Watched.passes[-1], files
