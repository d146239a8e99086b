"""A network of one task, or of several in which what they share is computed once."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ._context import Pass, current_pass, opened
from ._heads import Features
from ._inputs import call_with
from ._parts import NAMED, ByTask, Layers, WeightedSum
from ._structures import tensors_of


class OneTask(nn.Module):
    """A model whose modular layers are one task's, and that task's head."""

    def __init__(
        self,
        body: nn.Module,
        head: nn.Module,
        task: int | None,
        features: Features | None,
    ) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.features = nn.Identity() if features is None else features
        self._told = {} if task is None else {"task": task}

    def forward(self, input: Any = NAMED, /, *arguments: Any, **options: Any) -> Tensor:
        x, options = (options, {}) if input is NAMED else (input, options)
        features = call_with(self.body, x, *arguments, **self._told, **options)
        y: Tensor = self.head(self.features(features))
        return y


class SeveralTasks(nn.Module):
    """A model with the parts of several tasks, and a head for each.

    Tasks are computed one after another. A module that is called again with the same input, for a
    task with the same parts in it, gives what it gave, and so does an operation between modules.
    So nothing need be known of the model, and what tasks have in common is computed once.
    """

    def __init__(
        self,
        body: nn.Module,
        tasks: Mapping[str, int],
        heads: Sequence[nn.Module],
        features: Features | None,
        *,
        tells_task: bool,
    ) -> None:
        super().__init__()
        self.body = body
        self.heads = nn.ModuleList(heads)
        self.features = nn.Identity() if features is None else features
        self.tasks = dict(tasks)
        self._tells_task = tells_task
        for module in body.modules():
            if getattr(module, "inplace", False) is True:
                module.inplace = False  # type: ignore[assignment]  # its input may be another's
        for module in _remembering_parts(body):
            _let_remember(module, list(tasks.values()))

    def forward(self, input: Any = NAMED, /, *arguments: Any, **options: Any) -> dict[str, Tensor]:
        """Returns the outputs of each task, by name."""
        x, options = (options, {}) if input is NAMED else (input, options)
        token = _memory.set({})
        # Between parts in a row there are no operations, and looking at each takes its time.
        between = nullcontext() if isinstance(self.body, Layers) else _Operations()
        try:
            with _counted_versions(), between:
                outputs = {}
                for head, (name, task) in zip(self.heads, self.tasks.items(), strict=True):
                    told = {"task": task} if self._tells_task else {}
                    with opened(Pass(task)):
                        features = call_with(self.body, x, *arguments, **told, **options)
                        outputs[name] = head(self.features(features))
                return outputs
        finally:
            _memory.reset(token)

    def extra_repr(self) -> str:
        return f"tasks={list(self.tasks)}"


class _Given(NamedTuple):
    """What a module gave in a pass, with what it was called with, so that no identity is reused."""

    output: Any
    versions: list[int]
    arguments: Any


_memory: ContextVar[dict[Hashable, _Given] | None] = ContextVar("_memory", default=None)


class _Remembers:
    """Lets a module give what it gave before, where it is called with the same for like tasks."""

    _kinds: dict[int, Hashable]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        memory, running = _memory.get(), current_pass()
        if memory is None or running is None:
            return super().__call__(*arguments, **options)  # type: ignore[misc]
        # Not its own identity: `torch.export` puts another object with its attributes in its place.
        whose, kind = id(self._kinds), self._kinds[int(running.task)]
        key = (whose, kind, _identity((arguments, options)))
        return _once(memory, key, super().__call__, arguments, options)  # type: ignore[misc]


class _Operations(TorchFunctionMode):
    """Lets operations give what they gave before; those that change a tensor are left alone."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        memory, options, name = _memory.get(), kwargs or {}, getattr(func, "__name__", "_")
        changes = name.startswith("__") or name.endswith("_") or "out" in options
        if memory is None or (changes and name not in _ARITHMETIC):
            return func(*args, **options)
        return _once(memory, (func, _identity((args, options))), func, args, options)


# Python's operators; others with such names, as `__iadd__`, change a tensor or return none.
_ARITHMETIC = frozenset(
    f"__{name}__"
    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "matmul", "getitem", "neg")
)


def _once(
    memory: dict[Hashable, "_Given"], key: Hashable, compute: Any, arguments: Any, options: Any
) -> Any:
    """Returns what was computed under a key, or computes it."""
    found = memory.get(key)
    # An output that was changed in place since is no longer what was given.
    if found is None or _versions(found.output) != found.versions:
        y = compute(*arguments, **options)
        found = memory[key] = _Given(y, _versions(y), (arguments, options))
    return found.output


def _remembering_parts(body: nn.Module) -> list[nn.Module]:
    """Returns the modules that should remember what they gave.

    Parts in a row, and components, are called as a whole: where all tasks have the same inside,
    what is inside need not remember. Other models may call any module in them.
    """
    if not isinstance(body, Layers):
        return list(body.modules())
    found: dict[nn.Module, None] = {}

    def visit(module: nn.Module) -> None:
        found[module] = None
        is_ours = isinstance(module, Layers | ByTask | WeightedSum | nn.ModuleList)
        if is_ours or any(isinstance(inner, ByTask) for inner in module.modules()):
            for child in module.children():
                visit(child)

    visit(body)
    return list(found)


def _let_remember(module: nn.Module, tasks: Sequence[int]) -> None:
    """Gives a module a class that remembers; it keeps its name, attributes and tensors."""
    if isinstance(module, torch.jit.ScriptModule | _Remembers):
        return
    module._kinds = {task: _kind(module, task) for task in tasks}  # type: ignore[assignment]
    module.__class__ = _remembering(type(module))  # type: ignore[arg-type]


@cache
def _remembering(kind: type[nn.Module]) -> type[nn.Module]:
    return type(kind.__name__, (_Remembers, kind), {"__module__": kind.__module__})


def _kind(module: nn.Module, task: int) -> Hashable:
    """Returns what is equal for tasks that have the same parts in a module."""
    if isinstance(module, ByTask):
        place = module.places[task]
        return place, _kind(module.parts[place], task)
    kinds = tuple(_kind(child, task) for child in module.children())
    return kinds if any(kinds) else ()


def _identity(value: Any) -> Hashable:
    """Returns what is equal for the same tensors and for equal plain values."""
    if isinstance(value, Tensor):
        return id(value), _version(value)
    if isinstance(value, tuple | list):
        return type(value), *map(_identity, value)
    if isinstance(value, Mapping):
        return type(value), *((name, _identity(own)) for name, own in value.items())
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return (type(value), value) if is_plain else id(value)


def _versions(value: Any) -> list[int]:
    """Returns how often each tensor was changed in place."""
    if isinstance(value, Tensor):  # by far the most; looking for others takes its time
        return [_version(value)]
    return [_version(tensor) for tensor in tensors_of(value)]


def _version(tensor: Tensor) -> int:
    """Returns how often it was changed in place; what inference mode made cannot tell."""
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def _counted_versions() -> Iterator[None]:
    """Leaves inference mode, in which changes in place are not counted; gradients stay off."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield
