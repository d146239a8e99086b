"""Kernels that draw gates: the weights and the gradients of the plain operations."""

from collections.abc import Callable, Sequence

import torch
from pytest import mark, param
from torch import Tensor
from torch.func import functional_call, vmap
from torch.testing import assert_close

from allotment.allocation import Annealing, GumbelMatrix
from tests.ops.both_ways import DEVICE, needs_kernels

pytestmark = needs_kernels


GATES = [
    param([], id="none open"),
    param([1], id="one open"),
    param([0, 2, 3], id="some open"),
    param([0, 1, 2, 3, 4], id="all open"),
]


def noise_that_opens(gates: Sequence[int], n_components: int) -> Tensor:
    noise = torch.linspace(0.01, 0.05, n_components)
    noise[list(gates)] = 1 - noise[list(gates)]
    return noise


def a_matrix(n_components: int, n_batches: int) -> GumbelMatrix:
    matrix = GumbelMatrix(4, n_components, temperature=Annealing(), keeps_one=False).to(DEVICE)
    matrix.logits.data.normal_(std=0.3)
    matrix.n_batches.fill_(n_batches)
    return matrix


@mark.parametrize("gates", GATES)
@mark.parametrize("n_batches", [0, 50, 20_000])
def test_gates(gates: list[int], n_batches: int, choose: Callable[[bool], None]) -> None:
    matrix = a_matrix(5, n_batches)
    noise, task = noise_that_opens(gates, 5).to(DEVICE), torch.tensor(2, device=DEVICE)
    upstream = torch.arange(1.0, 6.0, device=DEVICE)
    results = []
    for fused in (True, False):
        choose(fused)
        weights = matrix.weights(task, noise=noise)
        gradients = torch.autograd.grad(weights @ upstream, matrix.logits)[0]
        results.append((weights.detach(), gradients))
    assert results[0][0].nonzero().flatten().tolist() == gates
    assert results[0][1][2].any()  # the task's logits learn, whatever is open
    for a, b in zip(*results, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-7)


class Draw(torch.nn.Module):
    """An allocation's draw as a forward pass, the form that can be batched over runs."""

    def __init__(self, matrix: GumbelMatrix) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, task: Tensor, noise: Tensor) -> Tensor:
        return self.matrix.weights(task, noise=noise)


@mark.parametrize("n_components", [1, 7, 16])
@mark.parametrize("has_own_logits", [True, False])
def test_gates_over_runs(
    n_components: int, has_own_logits: bool, choose: Callable[[bool], None]
) -> None:
    module = Draw(a_matrix(n_components, 50))
    tasks = torch.tensor([0, 3, 0], device=DEVICE)
    noise = torch.rand(3, n_components, device=DEVICE)
    logits = torch.randn(*[3] * has_own_logits, 4, n_components, 2, device=DEVICE)

    def one(logits: Tensor, task: Tensor, noise: Tensor) -> Tensor:
        y: Tensor = functional_call(module, {"matrix.logits": logits}, (task, noise))
        return y

    upstream = torch.randn(3, n_components, device=DEVICE)
    in_dims = (0 if has_own_logits else None, 0, 0)
    results = []
    for fused in (True, False):
        choose(fused)
        own = logits.clone().requires_grad_()
        weights = vmap(one, in_dims=in_dims)(own, tasks, noise)
        results.append((weights.detach(), torch.autograd.grad(weights, own, upstream)[0]))
    for a, b in zip(*results, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-6)
