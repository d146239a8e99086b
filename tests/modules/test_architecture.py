"""Which modules have one architecture, and in what others differ."""

from collections.abc import Callable

import torch
from pytest import mark, param
from torch import Tensor, nn

from allotment.allocation import FixedMatrix, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import ModularLayer, difference, group_by_architecture
from allotment.modules._architecture import same_architecture
from tests.modules.components import Normed


class Marked(nn.Module):
    """A module with a plain attribute of any type."""

    def __init__(self, attribute: object) -> None:
        super().__init__()
        self.attribute = attribute
        self.linear = nn.Linear(2, 2)


def double(x: Tensor) -> Tensor:
    return 2 * x


def with_hook() -> nn.Module:
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda module, inputs, output: 2 * output)
    return module


def with_buffer(*shape: int) -> nn.Module:
    module = nn.Linear(2, 2)
    module.register_buffer("offset", torch.rand(shape))
    return module


def frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(False)


@mark.parametrize(
    "make",
    [
        param(lambda: nn.Linear(2, 3), id="linear"),
        param(lambda: nn.Conv2d(2, 3, 3, stride=2), id="conv"),
        param(lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU()), id="sequential"),
        param(Normed, id="a class of one's own"),
        param(lambda: Marked(0.5), id="a number"),
        param(lambda: Marked([1, {"a": (2, 3)}]), id="a container"),
        param(lambda: Marked(double), id="one function"),
        param(lambda: with_buffer(2), id="a buffer"),
        param(frozen, id="frozen"),
        param(lambda: GumbelMatrix(2, 3), id="gates"),
    ],
)
def test_modules_that_differ_in_their_numbers_have_one_architecture(
    make: Callable[[], nn.Module],
) -> None:
    assert same_architecture(make(), make())


@mark.parametrize(
    ("a", "b"),
    [
        param(nn.Linear(2, 3), nn.Linear(3, 2), id="shape"),
        param(nn.Linear(2, 2), nn.Linear(2, 2, bias=False), id="a missing parameter"),
        param(nn.Linear(2, 2), nn.Identity(), id="class"),
        param(nn.Linear(2, 2), nn.Bilinear(2, 1, 2), id="class with like parameters"),
        param(nn.Linear(2, 2), nn.Linear(2, 2).double(), id="type of number"),
        param(nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 3, stride=2), id="stride"),
        param(nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 3, dilation=2), id="dilation"),
        param(nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 3, padding_mode="reflect"), id="padding mode"),
        param(nn.GroupNorm(2, 4), nn.GroupNorm(2, 4, eps=1e-6), id="epsilon"),
        param(nn.LeakyReLU(0.1), nn.LeakyReLU(0.2), id="derivative"),
        param(Normed(0.1), Normed(0.2), id="a number of one's own class"),
        param(Marked([1, 2]), Marked([1, 3]), id="a container"),
        param(Marked(double), Marked(lambda x: 2 * x), id="a function"),
        param(Marked(torch.zeros(2)), Marked(torch.zeros(2)), id="a tensor that is no buffer"),
        param(nn.Linear(2, 2), with_hook(), id="a hook"),
        param(with_hook(), with_hook(), id="different hooks"),
        param(nn.Linear(2, 2), with_buffer(2), id="a missing buffer"),
        param(with_buffer(2), with_buffer(3), id="the shape of a buffer"),
        param(nn.Linear(2, 2), frozen(), id="frozen"),
        param(
            nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
            nn.Sequential(nn.Linear(2, 2), nn.Tanh()),
            id="a child's class",
        ),
        param(
            nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
            nn.Sequential(nn.Linear(2, 2)),
            id="number of children",
        ),
        param(
            nn.Sequential(nn.Sequential(nn.LeakyReLU(0.1))),
            nn.Sequential(nn.Sequential(nn.LeakyReLU(0.2))),
            id="a grandchild's number",
        ),
        param(GumbelMatrix(2, 3), GumbelMatrix(2, 3, evaluation="sampled"), id="evaluation"),
        param(GumbelMatrix(2, 3), SharedBottom(2, 3), id="learnt and fixed gates"),
        param(SharedBottom(2, 3), SharedBottom(2, 4), id="sizes of fixed gates"),
    ],
)
def test_modules_that_differ_in_more_have_two(a: nn.Module, b: nn.Module) -> None:
    assert not same_architecture(a, b)
    assert not same_architecture(b, a)


def test_fixed_allocations_of_one_size_have_one_architecture() -> None:
    fixed = [
        SharedBottom(2, 4),
        SharedBottom(2, 4, reduce="mean"),
        NoSharing(2, 4),
        FixedMatrix(torch.ones(2, 4)),
    ]
    assert all(same_architecture(a, b) for a in fixed for b in fixed)


@mark.parametrize(
    ("a", "b", "words"),
    [
        (
            nn.Sequential(nn.Sequential(nn.LeakyReLU(0.1))),
            nn.Sequential(nn.Sequential(nn.LeakyReLU(0.2))),
            "`negative_slope` of `0.0` is 0.1 in one and 0.2 in another",
        ),
        (
            nn.Sequential(nn.ReLU()),
            nn.Sequential(nn.Tanh()),
            "`0` is ReLU in one and Tanh in another",
        ),
        (nn.ReLU(), nn.Tanh(), "the module itself is ReLU in one and Tanh in another"),
        (
            nn.Sequential(nn.Linear(2, 3)),
            nn.Sequential(nn.Linear(2, 3).requires_grad_(False)),
            "the tensors of `0` differ in names, shapes, types or in whether they learn",
        ),
        (
            nn.Sequential(nn.ReLU()),
            nn.Sequential(nn.ReLU(), nn.ReLU()),
            "the module itself has other parts in one than in another",
        ),
    ],
)
def test_a_difference_is_told_in_words(a: nn.Module, b: nn.Module, words: str) -> None:
    assert difference(a, b) == words


def test_modules_with_buffers_or_with_shared_parameters_stand_alone() -> None:
    shared = nn.Linear(2, 2)
    modules = [nn.Linear(2, 2), with_buffer(2), shared, nn.Linear(2, 2), with_buffer(2), shared]
    assert group_by_architecture(modules) == [[0, 3], [1], [2], [4], [5]]


def test_layers_of_one_architecture_may_have_been_called_or_not() -> None:
    a, b = (ModularLayer([nn.Linear(2, 2) for _ in range(2)], SharedBottom(1, 2)) for _ in "ab")
    a(torch.randn(3, 2), task=0)
    assert difference(a, b) == ""


def test_whether_a_module_trains_is_no_matter_of_architecture() -> None:
    assert same_architecture(nn.Linear(2, 2), nn.Linear(2, 2).eval())
