"""The paper's allocation: binary gates learnt by straight-through Gumbel-Softmax, annealed."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, overload

import torch
from torch import Tensor, nn

from .._checks import check_choice, check_field_types, check_positive, check_probability, described
from .._ops import can_draw, drawn_weights
from ._base import Allocation, row


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """A temperature that falls as ``start / sqrt(step + 1)`` down to ``floor``.

    The paper says "annealing temperature"; the form and both numbers are those of the authors'
    code. With them the floor is reached at step 9,999.

    >>> [Annealing(start=50.0, floor=0.5)(step) for step in (0, 99, 999_999)]
    [50.0, 5.0, 0.5]

    Attributes:
        start: The temperature at step 0.
        floor: The lowest temperature.
    """

    start: float = 50.0
    floor: float = 0.5

    def __post_init__(self) -> None:
        check_field_types(self)
        check_positive("start", self.start)
        check_positive("floor", self.floor)

    @overload
    def __call__(self, step: int) -> float: ...

    @overload
    def __call__(self, step: Tensor) -> Tensor: ...

    def __call__(self, step: int | Tensor) -> float | Tensor:
        """Returns the temperature at this step, counted from 0."""
        if isinstance(step, Tensor):
            return (self.start / (step + 1.0).sqrt()).clamp_min(self.floor)
        return max(self.floor, self.start / sqrt(step + 1))


class GumbelMatrix(Allocation):
    """The Gumbel-Matrix allocation (paper, Section III).

    Each gate has two logits, "open" and "shut", and is drawn once for each training batch. The
    forward pass uses the binary draw, the backward pass a softmax at the annealed temperature.
    Open components are averaged. Where no gate would be open, the most likely one is, which is
    ours; with ``keeps_one=False`` the weights are zero then, as in the paper.

    In a loop of one's own nothing need be handed in: a training pass draws from torch's
    generator, and `advance` takes the temperature one step further.

    >>> from allotment.allocation import GumbelMatrix
    >>> allocation = GumbelMatrix(2, 3, p_init=[[0.9, 0.9, 0.1], [0.1, 0.9, 0.9]])
    >>> allocation.matrix()
    tensor([[1., 1., 0.],
            [0., 1., 1.]])
    >>> allocation.eval().weights(0)
    tensor([0.5000, 0.5000, 0.0000])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start, one number or ``[T, C]``.
        temperature: The temperature as a function of the number of training batches.
        evaluation: ``"most_likely"`` opens a gate whose open-logit is at least its shut-logit
            (the paper's choice); ``"sampled"`` draws as in training.
        keeps_one: Whether the most likely gate opens where all are shut.
    """

    axes: tuple[tuple[str, str], ...] = (("logits", "TC"),)
    logits: nn.Parameter
    n_batches: Tensor
    annealing: Tensor | None  # start and floor, where runs that train together have others

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        temperature: Annealing = Annealing(),
        evaluation: str = "most_likely",
        keeps_one: bool = True,
    ) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        check_choice("evaluation", evaluation, ["most_likely", "sampled"])
        check_annealing(temperature)
        p_open = prior(p_init, n_tasks, n_components)
        self.logits = nn.Parameter(torch.stack([p_open.log(), (1 - p_open).log()], dim=-1))
        self.temperature = temperature
        self.register_buffer("annealing", None, persistent=False)
        self.evaluation = evaluation
        self.keeps_one = keeps_one
        self.same_in_evaluation = evaluation == "most_likely"
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        if self.training and noise is not None and isinstance(task, Tensor) and self._can_fuse:
            start, floor = self.temperature.start, self.temperature.floor
            return drawn_weights(self._table(), task, noise, self.n_batches, start, floor)
        return averaged(self.gates(task, noise=noise))

    @property
    def _can_fuse(self) -> bool:
        """Whether one kernel may draw the gates: on a GPU, by the paper's rules for all runs."""
        is_annealed = type(self.temperature) is Annealing and self.annealing is None
        return is_annealed and not self.keeps_one and can_draw(self.logits)

    def gates(self, task: int | Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Returns the gates of one pass, each exactly 0 or 1, shape ``[C]``."""
        advantage = open_advantage(row(self._table(), task))
        if not self.training and self.evaluation == "most_likely":
            gates = (advantage >= 0).to(advantage.dtype)
        else:
            gates = drawn_gates(advantage, self._temperature_now(), noise)
        return keep_one(gates, advantage) if self.keeps_one else gates

    def _table(self) -> Tensor:
        """Returns the logits that gates have now, ``[T, C, 2]``."""
        return self.logits

    def _temperature_now(self) -> Tensor:
        if self.annealing is None:
            return self.temperature(self.n_batches)
        start, floor = self.annealing.unbind()
        return torch.maximum(start / (self.n_batches + 1.0).sqrt(), floor)

    def let_runs_differ(self) -> None:
        if type(self.temperature) is Annealing and self.annealing is None:
            numbers = [self.temperature.start, self.temperature.floor]
            self.annealing = self.logits.new_tensor(numbers)
            self.temperature = Annealing()  # one for all runs, and not asked any more

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        logits = self._table() if task is None else row(self._table(), task)
        return torch.sigmoid(open_advantage(logits))

    def matrix(self) -> Tensor:
        advantage = open_advantage(self._table().detach())
        gates = (advantage >= 0).to(advantage.dtype)
        return keep_one(gates, advantage) if self.keeps_one else gates

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = f"{prefix}n_draws"  # its name in version 0.1
        if old in state_dict:
            state_dict[f"{prefix}n_batches"] = state_dict.pop(old)
            self.keeps_one = False
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        kept = "" if self.keeps_one else ", keeps_one=False"
        return f"{super().extra_repr()}, temperature={self.temperature}{kept}"


def open_advantage(logits: Tensor) -> Tensor:
    """Returns the open-logit less the shut-logit of each gate."""
    return logits[..., 0] - logits[..., 1]


def uniform_like(tensor: Tensor) -> Tensor:
    """Returns numbers uniform on (0, 1), from torch's generator, in the shape of a tensor."""
    return torch.rand_like(tensor).clamp_min(torch.finfo(tensor.dtype).tiny)


def drawn_gates(
    advantage: Tensor, temperature: Tensor | float, noise: Tensor | None = None
) -> Tensor:
    """Returns gates drawn to be exactly 0 or 1, with the gradient of soft ones.

    Args:
        advantage: The open-logit less the shut-logit of each gate.
        temperature: Of the soft gates.
        noise: Uniform on (0, 1), one number a gate; None: drawn from torch's generator.
    """
    if noise is None:
        noise = uniform_like(advantage)
    # The difference of two Gumbel draws is one logistic draw.
    noisy = advantage + torch.log(noise) - torch.log1p(-noise)
    soft = torch.sigmoid(noisy / temperature)
    hard = (noisy >= 0).to(soft.dtype)
    # These brackets keep every gate exactly binary; without them rounding moves some off.
    return hard + (soft - soft.detach())


def keep_one(gates: Tensor, scores: Tensor) -> Tensor:
    """Returns gates ``[..., C]`` of which one at least is open: the most likely, if no other.

    Those of equal scores open together, so that none is favoured for its place. The gradient of
    the others' gates is then, as it should be, that of taking the place of the kept one.

    >>> keep_one(torch.zeros(3), torch.tensor([-3.0, -1.0, -2.0]))
    tensor([0., 1., 0.])
    """
    likely = scores.detach()
    is_best = likely >= likely.amax(dim=-1, keepdim=True)
    is_empty = gates.detach().amax(dim=-1, keepdim=True) == 0
    return gates + (is_best & is_empty).to(gates.dtype)


def averaged(gates: Tensor) -> Tensor:
    """Returns the weights ``[..., C]`` that average the components of open gates."""
    # `clamp_min`, not `maximum`: the latter halves the gradient at a tie, one open gate.
    return gates / gates.sum(dim=-1, keepdim=True).clamp_min(1.0)


def check_annealing(temperature: object) -> None:
    """Raises unless a temperature is a function of the number of training batches."""
    if not callable(temperature):
        raise TypeError(
            "`temperature` should be an Annealing, such as Annealing(start=5.0). "
            f"Found `temperature = {temperature!r}`."
        )


def prior(
    p_init: float | Tensor | Sequence[Sequence[float]], n_tasks: int, n_components: int
) -> Tensor:
    """Returns the starting probabilities, shape ``[T, C]``."""
    if isinstance(p_init, float | int):
        check_probability("p_init", p_init)  # as it was given, before it is rounded
    try:
        values = torch.as_tensor(p_init, dtype=torch.get_default_dtype()).detach()
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"`p_init` should be one number or numbers of shape [{n_tasks}, {n_components}]. "
            f"Found {described(p_init)}."
        ) from error
    if values.ndim != 0 and values.shape != (n_tasks, n_components):
        raise ValueError(
            f"`p_init` should be one number or of shape [{n_tasks}, {n_components}]. "
            f"Found shape {list(values.shape)}."
        )
    for value in (values.min().item(), values.max().item()):
        check_probability("p_init", value)
    return values.expand(n_tasks, n_components).clone()
