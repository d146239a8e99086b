""" "Same" padding: against windows laid out by hand over a padded image."""

import torch
import torch.nn.functional as F
from pytest import mark
from torch import Tensor
from torch.testing import assert_close

from allotment.paper.networks import SameAvgPool2d, SameConv2d, SameMaxPool2d

SIZES = range(4, 15)
OMNIGLOT_STRIDES = (2, 2, 1, 2, 2, 1, 2, 1)
OMNIGLOT_MAPS = (105, 53, 27, 27, 14, 7, 7, 4, 4)


def windows(x: Tensor, kernel: tuple[int, int], stride: int, value: float) -> Tensor:
    """Returns the windows of images padded with ``value``, ``[B, C, H, W, h, w]``."""
    padding: list[int] = []
    for n, k in zip(x.shape[:1:-1], kernel[::-1], strict=True):  # `F.pad` starts at the last side
        total = max((-(-n // stride) - 1) * stride + k - n, 0)
        padding += [total // 2, total - total // 2]
    padded = F.pad(x, padding, value=value)
    return padded.unfold(2, kernel[0], stride).unfold(3, kernel[1], stride)


def images(size: int, n_channels: int = 2) -> Tensor:
    """Returns two images, one side even in number and the other odd."""
    return torch.randn(2, n_channels, size, size + 1, dtype=torch.float64)


@mark.parametrize("stride", [1, 2])
@mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1)])
@mark.parametrize("n_channels", [2, 9])  # a 1x1 kernel on few channels goes another way
def test_a_convolution_is_a_product_with_every_window(
    kernel: tuple[int, int], stride: int, n_channels: int
) -> None:
    convolution = SameConv2d(n_channels, 3, kernel, stride).double()
    assert convolution.bias is not None
    for size in SIZES:
        x = images(size, n_channels)
        products = torch.einsum(
            "bchwij,ocij->bohw", windows(x, kernel, stride, 0.0), convolution.weight
        )
        assert_close(convolution(x), products + convolution.bias.view(-1, 1, 1))


def test_one_number_for_a_kernel_means_a_square() -> None:
    assert SameConv2d(2, 3, 5).weight.shape == (3, 2, 5, 5)


@mark.parametrize("stride", [1, 2])
def test_the_largest_pixel_is_one_of_the_image(stride: int) -> None:
    for size in SIZES:
        x = images(size) - 10.0  # a zero from outside would be the largest
        expected = windows(x, (3, 3), stride, -torch.inf).amax(dim=(4, 5))
        assert_close(SameMaxPool2d(stride)(x), expected)


@mark.parametrize("stride", [1, 2])
def test_the_mean_leaves_the_padding_out(stride: int) -> None:
    for size in SIZES:
        x = images(size)
        totals = windows(x, (3, 3), stride, 0.0).sum(dim=(4, 5))
        counts = windows(torch.ones_like(x), (3, 3), stride, 0.0).sum(dim=(4, 5))
        assert counts.min() < 9  # there is some padding
        assert_close(SameAvgPool2d(stride)(x), totals / counts)


def test_the_maps_of_omniglot_shrink_as_the_paper_has_them() -> None:
    x = torch.randn(1, 1, OMNIGLOT_MAPS[0], OMNIGLOT_MAPS[0])
    for stride, size in zip(OMNIGLOT_STRIDES, OMNIGLOT_MAPS[1:], strict=True):
        modules = [SameConv2d(1, 1, kernel, stride) for kernel in (1, 3, 5, 7, (1, 7), (7, 1))]
        pools = [SameMaxPool2d(stride), SameAvgPool2d(stride)]
        shapes = {module(x).shape[2:] for module in (*modules, *pools)}
        assert shapes == {(size, size)}
        x = pools[0](x)


@mark.parametrize("pool", [SameMaxPool2d, SameAvgPool2d])
def test_a_pool_tells_its_stride(pool: type[SameMaxPool2d | SameAvgPool2d]) -> None:
    assert repr(pool(2)) == f"{pool.__name__}(stride=2)"
