"""A convolution, group normalisation and ReLU: the same as the three one after another."""

import torch
import torch.nn.functional as F
from pytest import mark
from torch import nn
from torch.testing import assert_close

from allotment.paper.networks import ConvNormReLU, NormReLU, SameConv2d

EPSILON = 1e-6


def randomised(module: nn.Module) -> nn.Module:
    """Returns a module in double precision with no parameter at a value that hides a mistake."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


@mark.parametrize("kernel", [1, 3, (1, 7)])
@mark.parametrize("stride", [1, 2])
def test_the_block_is_its_three_operations(kernel: int | tuple[int, int], stride: int) -> None:
    block = randomised(ConvNormReLU(3, 8, kernel, stride))
    assert isinstance(block, ConvNormReLU)
    x = torch.randn(4, 3, 9, 6, dtype=torch.float64)
    y = F.group_norm(block.conv(x), 4, block.norm.weight, block.norm.bias, EPSILON)
    assert_close(block(x), y.clamp_min(0.0))


def test_the_bias_of_the_convolution_counts() -> None:
    # Each group has two channels here, so that normalisation does not take a bias out again.
    block = randomised(ConvNormReLU(3, 8, 3))
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    before = block(x)
    nn.init.zeros_(block.get_parameter("conv.bias"))
    assert not torch.allclose(block(x), before)


def test_a_norm_alone_is_group_normalisation_and_relu() -> None:
    norm = randomised(NormReLU(2, 6))
    x = torch.randn(4, 6, 5, 7, dtype=torch.float64)
    expected = F.group_norm(x, 2, norm.get_parameter("weight"), norm.get_parameter("bias"), EPSILON)
    assert_close(norm(x), expected.clamp_min(0.0))


def test_epsilon_is_that_of_the_authors_and_seen_in_small_images() -> None:
    x = torch.tensor([1e-3, -1e-3]).double().view(1, 2, 1, 1)
    expected = 1e-3 / (1e-6 + EPSILON) ** 0.5
    norm = NormReLU(1, 2).double()
    assert_close(norm(x).flatten().tolist(), [expected, 0.0])


def test_the_parameters_have_the_names_of_their_operations() -> None:
    block = ConvNormReLU(3, 8, 3, 2, n_groups=2)
    assert isinstance(block.conv, SameConv2d) and isinstance(block.norm, NormReLU)
    assert list(block.state_dict()) == ["conv.weight", "conv.bias", "norm.weight", "norm.bias"]
    assert block.norm.num_groups == 2 and block.norm.eps == EPSILON
