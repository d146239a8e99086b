"""Methods to compare: a way of sharing, and a way of training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache, cached_property
from inspect import Parameter, signature
from typing import Any, ClassVar, Protocol

from torch import nn

from .._checks import described, nearest
from ..allocation import Allocation
from ..settings import TrainingSettings, group_of


class Allocate(Protocol):
    """What a network is given to make the allocation of a layer.

    ``offered`` are facts about the layer, such as ``n_features=64``: an allocation that takes an
    option of this name gets it.
    """

    def __call__(self, n_components: int, **offered: Any) -> Allocation: ...


class Structure(Protocol):
    """How a method puts a network together, where that is more than allocations for its layers.

    ``build(allocate, outputs)`` is the experiment's own network, made anew at each call.
    """

    __name__: str

    def __call__(
        self,
        build: Callable[[Allocate, Mapping[str, int]], nn.Module],
        allocate: Allocate,
        outputs: Mapping[str, int],
    ) -> nn.Module: ...


@dataclass(frozen=True)
class AllocationSpec:
    """A way of sharing as a value: the class of an allocation and its options; see `using`."""

    takes_facts: ClassVar[bool] = True  # of a layer, and leaves those that it has no use for

    kind: Callable[..., Allocation]
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, n_tasks: int, n_components: int, **offered: Any) -> Allocation:
        taken = {name: value for name, value in offered.items() if name in self.parameters}
        given = taken | dict(self.options)
        for name, parameter in self.parameters.items():
            is_needed = parameter.kind != parameter.VAR_POSITIONAL
            if is_needed and parameter.default is parameter.empty and name not in given:
                raise ValueError(
                    f"{self.name} should be given `{name}`: the network should call "
                    f"`allocate(n_components, {name}=...)`, unless `using({self.name}, "
                    f"{name}=...)` has it. Found {', '.join(given) or 'no option'}."
                )
        return self.kind(n_tasks, n_components, **given)

    @property
    def name(self) -> str:
        return str(getattr(self.kind, "__name__", type(self.kind).__name__))

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The options that the class takes, beside the numbers of tasks and components."""
        return {name: p for name, p in _parameters(self.kind).items() if p.kind != p.VAR_KEYWORD}

    @cached_property
    def is_learnt(self) -> bool:
        """Whether training changes the allocation."""
        try:
            return self(2, 4).is_learnt
        except Exception:  # made for other sizes, or for a layer of which it has to know more
            return True  # an allocation that is fixed needs no more than the two numbers

    def changed(self, **options: Any) -> "AllocationSpec":
        return using(self.kind, **dict(self.options) | options)

    def as_recorded(self, record: Mapping[str, Any]) -> "AllocationSpec":
        """Returns it with the options that the record of a run holds, also one of version 0.1."""
        declared = {name: p.default for name, p in self.parameters.items()} | dict(self.options)
        return self.changed(
            **{name: _restored(record[name], declared[name]) for name in declared if name in record}
        )


def using(kind: Callable[..., Allocation], **options: Any) -> AllocationSpec:
    """Returns a way of sharing: ``kind(n_tasks, n_components, **options)`` in each layer.

    >>> from allotment.allocation import GumbelMatrix
    >>> using(GumbelMatrix, p_init=0.75)(n_tasks=2, n_components=3).probabilities(0)
    tensor([0.7500, 0.7500, 0.7500], grad_fn=<SigmoidBackward0>)

    Args:
        kind: The class of an allocation.
        options: Arguments of it, beside the numbers of tasks and components.
    """
    if not callable(kind) or isinstance(kind, Allocation):
        raise TypeError(f"`kind` should be the class of an allocation. Found {described(kind)}.")
    known = _parameters(kind)
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    for name in options:
        if name not in known and not takes_any:
            raise ValueError(
                f"The options of {AllocationSpec(kind).name} are {', '.join(known) or 'none'}. "
                f"Found {name!r}." + nearest(name, known)
            )
    return AllocationSpec(kind, tuple((name, _fixed(options[name])) for name in sorted(options)))


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of an experiment: a way of sharing and training, and what the paper printed.

    >>> import allotment as al
    >>> from allotment.experiments import Method, using
    >>> allocation = using(al.GumbelMatrix, p_init=0.9)
    >>> Method(name="gumbel", allocation=allocation, training={"budget": 0.5}).name
    'gumbel'

    Attributes:
        name: Of its folder of runs; different from the other methods' names.
        label: What tables call it; empty: its name.
        allocation: The way of sharing, made by `using`.
        structure: Puts the network together, where the method needs another one; None: the
            experiment's, with such an allocation in each layer.
        training: Settings, each by its name, where they differ from the experiment's.
        paper: What the paper printed, by condition.
        paper_distinct: The number of distinct embeddings as printed.
        variant_of: The method that it was made from, by `varied`.
    """

    name: str
    label: str = ""
    allocation: AllocationSpec
    structure: Structure | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)
    paper_distinct: str | None = None
    variant_of: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.allocation, AllocationSpec):
            raise TypeError(
                "`allocation` should be made by `using`, such as `using(GumbelMatrix, p_init=0.9)`."
                f" Found {described(self.allocation)} for the method {self.name!r}."
            )
        for name in self.training:
            group_of(name)  # which tells of one that is no setting
        object.__setattr__(self, "label", self.label or self.name)

    @property
    def is_learnt(self) -> bool:
        return self.allocation.is_learnt

    def settings(self, common: TrainingSettings) -> TrainingSettings:
        """Returns the settings that the method trains with, given those of its experiment."""
        return common.changed(**self.training)


@cache
def _parameters(kind: Callable[..., Allocation]) -> Mapping[str, Parameter]:
    """Returns what a class takes after the numbers of tasks and components."""
    try:
        found = signature(kind, eval_str=True).parameters
    except NameError:  # a type that is imported for a type checker alone
        found = signature(kind).parameters
    return dict(list(found.items())[2:])


def _fixed(value: Any) -> Any:
    """Returns a value that can be compared and hashed, where a list was given."""
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def _restored(value: Any, declared: Any) -> Any:
    """Returns an option out of a record; what no record can hold is as it is declared."""
    if is_dataclass(declared) and not isinstance(declared, type) and isinstance(value, dict):
        return type(declared)(**value)
    is_plain = declared is None or isinstance(declared, bool | int | float | str | tuple)
    return value if is_plain or declared is Parameter.empty else declared
