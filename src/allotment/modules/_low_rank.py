"""Low-rank updates of a frozen part of a model: adapters, one for each component."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ._layer import ModularLayer


class AdaptedPart(nn.Module):
    """A frozen part, and the low-rank updates that its tasks use.

    It computes ``base(x) + sum over c of w_c * B_c(A_c(x))``, where ``w`` are the weights of the
    allocation. The base always counts in full and is evaluated once; a task without an open gate
    has the base alone.
    """

    def __init__(self, base: nn.Module, updates: ModularLayer) -> None:
        super().__init__()
        self.base = base
        self.updates = updates
        updates.is_update = True
        updates.allocation.keeps_one = False  # a task may well have the base alone

    @property
    def weight(self) -> Tensor:
        """The base's, for models that ask for its type or shape."""
        weight: Tensor = self.base.weight  # type: ignore[assignment]
        return weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) + self.updates(x)
        return y


class LowRankUpdate(nn.Module, ABC):
    """An update ``B(A(x))`` of a part's output, where ``A`` leads to ``rank`` features.

    ``B`` starts at zero, so that the part starts as it is (LoRA, Hu et al. 2021).
    """

    features_dim = -1  # where the features of an output lie

    def __init__(self, part: nn.Module, shape: tuple[int, ...], n_outputs: int, rank: int) -> None:
        super().__init__()
        weight: Tensor = part.weight  # type: ignore[assignment]
        self.rank = rank
        self.down = nn.Parameter(weight.new_empty(rank, *shape))  # A
        self.up = nn.Parameter(weight.new_empty(n_outputs, rank))  # B

    def reset_parameters(self) -> None:
        """Draws ``A`` anew, as torch draws linear layers, and sets ``B`` to zero."""
        nn.init.kaiming_uniform_(self.down, a=sqrt(5))
        nn.init.zeros_(self.up)

    @abstractmethod
    def narrowed(self, x: Tensor, down: Tensor) -> Tensor:
        """Returns ``A(x)``."""

    def widened(self, h: Tensor, up: Tensor) -> Tensor:
        """Returns ``B(h)``."""
        return F.linear(h, up)

    def delta(self) -> Tensor:
        """Returns what the update adds to the part's weight."""
        delta: Tensor = torch.tensordot(self.up, self.down, dims=1)
        return delta

    def forward(self, x: Tensor) -> Tensor:
        return self.widened(self.narrowed(x, self.down), self.up)

    def forward_mixed(self, stacked: Mapping[str, Tensor], weights: Tensor, x: Tensor) -> Tensor:
        """Returns the weighted sum of ``C`` updates, as one update of rank ``C`` times as large."""
        down, up = stacked["down"], stacked["up"]  # [C, rank, ...], [C, O, rank]
        h = self.narrowed(x, down.flatten(0, 1))
        if weights.ndim == 1:
            up = up * weights.to(up.dtype).view(-1, 1, 1)
        else:
            h = self._weighed(h, weights)
        return self.widened(h, up.transpose(0, 1).flatten(1))

    def _weighed(self, h: Tensor, weights: Tensor) -> Tensor:
        """Returns features with weights ``[B, C]`` of each example's own."""
        apart = h.movedim(self.features_dim, -1).unflatten(-1, (-1, self.rank))
        columns = weights.to(h.dtype).unsqueeze(-1)  # [B, C, 1]
        columns = columns.view(len(columns), *[1] * (apart.ndim - 3), *columns.shape[1:])
        weighed: Tensor = (apart * columns).flatten(-2).movedim(-1, self.features_dim)
        return weighed

    def extra_repr(self) -> str:
        return f"rank={self.rank}"


class _LinearUpdate(LowRankUpdate):
    def __init__(self, part: nn.Linear, rank: int) -> None:
        super().__init__(part, (part.in_features,), part.out_features, rank)
        self.reset_parameters()

    def narrowed(self, x: Tensor, down: Tensor) -> Tensor:
        return F.linear(x, down)


class _ConvolutionUpdate(LowRankUpdate):
    """The kernel of the part leads to ``rank`` channels, and one of size 1 from there."""

    features_dim = 1

    def __init__(self, part: nn.Conv1d | nn.Conv2d, rank: int) -> None:
        super().__init__(part, (part.in_channels, *part.kernel_size), part.out_channels, rank)
        self.settings = (part.stride, part.padding, part.dilation)
        self.n_sides = len(part.kernel_size)  # of an image 2, of a signal 1
        self.reset_parameters()

    def narrowed(self, x: Tensor, down: Tensor) -> Tensor:
        return _convolution(down)(x, down, None, *self.settings)

    def widened(self, h: Tensor, up: Tensor) -> Tensor:
        kernel = up.view(*up.shape, *[1] * self.n_sides)
        return _convolution(kernel)(h, kernel)


class _EmbeddingUpdate(LowRankUpdate):
    def __init__(self, part: nn.Embedding, rank: int) -> None:
        super().__init__(part, (part.num_embeddings,), part.embedding_dim, rank)
        self.padding_idx = part.padding_idx
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.down, std=1 / sqrt(self.rank))
        nn.init.zeros_(self.up)
        if self.padding_idx is not None:
            nn.init.zeros_(self.down[:, self.padding_idx])  # and it gets no gradient

    def narrowed(self, x: Tensor, down: Tensor) -> Tensor:
        return F.embedding(x, down.T, self.padding_idx)

    def delta(self) -> Tensor:
        return super().delta().T


def _convolution(kernel: Tensor) -> Callable[..., Tensor]:
    return F.conv2d if kernel.ndim == 4 else F.conv1d


_KINDS: dict[type[nn.Module], type[LowRankUpdate]] = {
    nn.Linear: _LinearUpdate,
    nn.Conv1d: _ConvolutionUpdate,
    nn.Conv2d: _ConvolutionUpdate,
    nn.Embedding: _EmbeddingUpdate,
}


def update_of(part: nn.Module, rank: int) -> LowRankUpdate:
    """Returns a new update of a part that `why_no_update` has nothing against."""
    return _KINDS[_kind(part)](part, rank)  # type: ignore[call-arg, arg-type]


def why_no_update(part: nn.Module) -> str:
    """Returns why a part has no low-rank update, in words that follow its name, or nothing."""
    kind = _kind(part)
    if kind is nn.Module:
        return f"is of class {type(part).__name__}"
    if isinstance(part, nn.modules.linear.NonDynamicallyQuantizableLinear):
        return "belongs to an nn.MultiheadAttention, which uses its weight without calling it"
    if isinstance(part, nn.Conv1d | nn.Conv2d) and (
        part.groups > 1 or part.padding_mode != "zeros"
    ):
        return "is a convolution in groups, or padded with other numbers than zeros"
    if isinstance(part, nn.Embedding) and (part.max_norm is not None or part.scale_grad_by_freq):
        return "is an embedding with `max_norm` or `scale_grad_by_freq`"
    return ""


def _kind(part: nn.Module) -> type[nn.Module]:
    """Returns the class that computes a part's output; subclasses that change nothing are fine."""
    return next((kind for kind in _KINDS if type(part).forward is kind.forward), nn.Module)


@torch.no_grad()
def merge_into(base: nn.Module, updates: list[tuple[float, nn.Module]]) -> bool:
    """Adds updates, each times its weight, to the weight of their part; tells whether it could."""
    if is_parametrized(base):  # its weight is computed, and cannot be changed
        return False
    weight: Tensor = base.weight  # type: ignore[assignment]
    merged = weight.detach().clone()
    for share, update in updates:
        assert isinstance(update, LowRankUpdate)
        merged += share * update.delta()
    # A weight of its own: the former one may be tied to another part, which has no updates.
    base.weight = nn.Parameter(merged, requires_grad=weight.requires_grad)
    return True
