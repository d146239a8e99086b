"""The precision of products: a GPU's matter, which leaves a CPU and the process as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pytest import mark, raises
from torch.testing import assert_close

from allotment._engine._parameters import FlatParameters
from allotment._engine._precision import arithmetic, rounded, widened
from allotment.training import Run
from tests.training.toy import (
    SETTINGS,
    n_different,
    outcomes_of,
    picture_network,
    pictures,
    weights_of,
)


def a_picture_run(precision: str, seed: int = 0) -> Run:
    torch.manual_seed(seed)
    settings = SETTINGS.changed(mixed_precision=precision, rounds=5)
    return Run(picture_network(3, 2), pictures(3, 2), seed, settings)


@mark.slow
@mark.parametrize("precision", ["tf32", "bfloat16"])
def test_on_a_cpu_every_precision_is_the_same_to_the_last_bit(precision: str) -> None:
    found, expected = (weights_of(a_picture_run(chosen)) for chosen in (precision, "off"))
    assert n_different(found, expected) == 0


@mark.parametrize("precision", ["tf32", "bfloat16"])
def test_on_a_cpu_weights_are_seen_in_float32(precision: str) -> None:
    parameters = FlatParameters([picture_network(3, 2)], torch.device("cpu"), precision)
    with parameters.arithmetic():
        assert {value.dtype for value in parameters.state().values()} == {torch.float32}
        assert not torch.is_autocast_enabled("cuda")


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@contextmanager
def flags_put_back() -> Iterator[None]:
    before = flags()
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@mark.parametrize("before", [(False, False), (True, True), (False, True)])
@mark.parametrize(("precision", "is_short"), [("off", False), ("tf32", True)])
def test_products_are_short_for_a_while_and_then_as_they_were(
    before: tuple[bool, bool], precision: str, is_short: bool
) -> None:
    with flags_put_back():
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
        with arithmetic(precision):
            assert flags() == (is_short, is_short)
        assert flags() == before
        with raises(KeyError), arithmetic(precision):
            raise KeyError
        assert flags() == before


def test_inputs_are_rounded_and_outputs_widened_for_bfloat16_alone() -> None:
    x, numbers = torch.rand(3), torch.arange(3)
    for precision in ("off", "tf32"):
        assert rounded(x, precision) is x
    assert rounded(x, "bfloat16").dtype == torch.bfloat16
    assert rounded(numbers, "bfloat16") is numbers  # such as words, which are looked up
    assert widened(x) is x and widened(x.double()).dtype == torch.float64
    assert widened(x.bfloat16()).dtype == torch.float32


@mark.skipif(not torch.cuda.is_available(), reason="shorter products are a GPU's")
def test_on_a_gpu_bfloat16_trains_near_float32() -> None:
    found, expected = (
        outcomes_of([a_picture_run(precision)], device="cuda")[0]
        for precision in ("bfloat16", "off")
    )
    assert {value.dtype for value in found.weights.values()} <= {torch.float32, torch.int64}
    # Losses of about 1, products with 8 bits.
    assert_close(found.final_loss, expected.final_loss, rtol=0, atol=0.1)
