"""A differentiable choice of at most k components: selectors with binary codes."""

from functools import reduce

import torch
from torch import Tensor, nn

from .._checks import check_at_least, check_count, check_positive, check_whole
from ._base import Allocation, row
from ._carrying import carried, carry
from ._features import example_features

EPSILON = 1e-6  # keeps the logarithm and the inverse of zero finite


class DSelectK(Allocation):
    """Shares of at most ``k`` components, each found by a selector of smooth binary digits.

    Hazimeh et al. 2021, "DSelect-k: Differentiable Selection in the Mixture of Experts with
    Applications to Multi-Task Learning". A selector has ``ceil(log2 C)`` numbers. A smooth step
    makes each a digit between 0 and 1, and the digits of a component's place multiply to the
    selector's weight for it; once all digits are 0 or 1 it has chosen one component. A task's
    selectors share by a softmax. Until digits are settled more than ``k`` components are used; a
    charge for the selectors' entropy settles them earlier.

    Where ``C`` is no power of two some codes belong to no component. As published, weights then
    sum to less than 1 until selectors have left these codes, and each selector is charged one over
    its weight for all components. For weights of each example, charges are means over examples,
    which is ours; the authors' code sums them.

    >>> from allotment.allocation import DSelectK
    >>> DSelectK(n_tasks=2, n_components=4, k=2).weights(0).shape
    torch.Size([4])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        k: The number of selectors of each task.
        gamma: The width of the smooth step.
        entropy: What a selector's entropy costs, in nats; 0: nothing.
        by_example: Whether selectors are linear functions of each example, so that every example
            has weights of its own. Then `matrix` and `probabilities` hold the shares for an example
            whose features are all zero.
        n_features: Features, or channels, of the layer's input; needed with ``by_example``.
    """

    is_binary = False
    axes = (("scores", "T"), ("gate", "T"))
    codes: Tensor

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        k: int = 2,
        gamma: float = 1.0,
        entropy: float = 0.0,
        by_example: bool = False,
        n_features: int | None = None,
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_at_least("n_components", n_components, 2)  # one leaves nothing to select
        check_count("k", k)
        check_positive("gamma", gamma)
        check_at_least("entropy", entropy, 0.0)
        if by_example:
            check_whole("n_features", n_features)
            check_at_least("n_features", n_features or 0, 1)
        self.k, self.gamma, self.entropy = k, gamma, entropy
        self.n_features = n_features
        self.sees_examples = by_example
        self.register_buffer("codes", binary_codes(n_components))
        n_digits = self.codes.shape[1]
        self.has_unreachable = 2**n_digits != n_components
        bounds = self._bounds()
        self.scores = nn.Parameter(bounds * (2 * torch.rand(n_tasks, len(bounds)) - 1))
        self.gate = None
        if by_example and n_features is not None:
            draws = 2 * torch.rand(n_tasks, len(bounds), n_features) - 1
            self.gate = nn.Parameter(bounds.unsqueeze(1) * draws)

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        scores = row(self.scores, task)
        if self.gate is not None and self.n_features is not None:
            features = example_features(x, self.n_features).to(scores.dtype)
            scores = scores + (features @ row(self.gate, task).T).to(scores.dtype)  # [B, ...]
        selectors, shares = self._divided(scores)
        return carry((shares.unsqueeze(-1) * selectors).sum(dim=-2), selectors)

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        charges = []
        if self.entropy:
            charges.append(self.entropy * entropy_of(carried(weights)))
        if self.has_unreachable:
            charges.append(1 / (carried(weights).sum(dim=-1) + EPSILON))
        # Over selectors, then over examples where there are some.
        return sum(charges[1:], charges[0]).sum(dim=-1).mean() if charges else None

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        selectors, shares = self._divided(self.scores if task is None else row(self.scores, task))
        return (shares.unsqueeze(-1) * selectors).sum(dim=-2)

    def new_row(self, name: str, table: Tensor) -> Tensor:
        """Returns a row drawn as small as the first ones: selectors that start equal stay equal."""
        bounds = self._bounds().to(table)
        draws = 2 * torch.rand_like(table[0]) - 1
        return draws * (bounds if name == "scores" else bounds.unsqueeze(1))

    def _bounds(self) -> Tensor:
        """Returns how far from 0 scores start, as in the authors' code: shares close to equal."""
        digits = torch.full((self.k * self.codes.shape[1],), self.gamma / 100)
        return torch.cat([digits, torch.full((self.k,), 0.05)])

    def _divided(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Returns each selector's weights, ``[..., k, C]``, and the selectors' shares."""
        digits, shares = scores.split([scores.shape[-1] - self.k, self.k], dim=-1)
        ones = smooth_step(digits, self.gamma).unflatten(-1, (self.k, 1, -1))
        factors = self.codes * ones + (1 - self.codes) * (1 - ones)  # [..., k, C, digits]
        # Digit by digit: the gradient of `prod` makes the host wait for the device.
        return reduce(torch.mul, factors.unbind(-1)), shares.softmax(dim=-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, gamma={self.gamma}, entropy={self.entropy}"


def binary_codes(n: int) -> Tensor:
    """Returns the numbers from 0 to ``n - 1`` in binary digits, ``[n, digits]``, highest first.

    >>> binary_codes(3)
    tensor([[0., 0.],
            [0., 1.],
            [1., 0.]])
    """
    n_digits = (n - 1).bit_length()
    places = torch.arange(n_digits - 1, -1, -1)
    digits = (torch.arange(n).unsqueeze(1) >> places) & 1
    return digits.to(torch.get_default_dtype())


def smooth_step(x: Tensor, gamma: float = 1.0) -> Tensor:
    """Returns the cubic that rises from 0 at ``-gamma / 2`` to 1 at ``gamma / 2``, flat outside.

    >>> smooth_step(torch.tensor([-1.0, -0.25, 0.0, 0.5]))
    tensor([0.0000, 0.1562, 0.5000, 1.0000])
    """
    t = (x / gamma).clamp(-0.5, 0.5)
    return -2 * t**3 + 1.5 * t + 0.5


def entropy_of(shares: Tensor) -> Tensor:
    """Returns the entropy of shares, ``[..., C]``, in nats."""
    return -(shares * (shares + EPSILON).log()).sum(dim=-1)
