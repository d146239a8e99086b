"""Views of images, and splits into parts."""

import torch
from pytest import mark
from torch.testing import assert_close

from allotment.paper._image_data import rotated, split_rows
from allotment.tasks import preprocess


def test_a_rotation_is_clockwise() -> None:
    image = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(1, 1, 2, 2)
    expected = torch.tensor([[3.0, 1.0], [4.0, 2.0]]).view(1, 1, 2, 2)
    assert_close(preprocess(image, rotated(2), 1.0), expected)


def test_the_top_row_becomes_the_right_column() -> None:
    image = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]).view(1, 1, 3, 3)
    expected = torch.tensor([[7.0, 4.0, 1.0], [8.0, 5.0, 2.0], [9.0, 6.0, 3.0]])
    assert_close(preprocess(image, rotated(3), 1.0)[0, 0], expected)


def test_four_turns_are_none() -> None:
    images = torch.randn(2, 1, 5, 5)
    turned = images
    for _ in range(4):
        turned = preprocess(turned, rotated(5), 1.0)
    assert_close(turned, images)


@mark.parametrize("n", [10, 11, 1_797])
@mark.parametrize("shares", [(0.5, 0.2, 0.3), (0.7, 0.2, 0.1), (1.0,), (1 / 3, 1 / 3, 1 / 3)])
def test_parts_are_disjoint_and_cover_everything(n: int, shares: tuple[float, ...]) -> None:
    parts = split_rows(n, shares, seed=0)
    assert torch.cat(parts).sort().values.tolist() == list(range(n))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - n * share) <= 1


def test_a_seed_fixes_the_parts_and_another_changes_them() -> None:
    first, again, other = (split_rows(100, (0.5, 0.5), seed=s)[0] for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_parts_are_sorted_and_at_random() -> None:
    (part, _) = split_rows(1_000, (0.5, 0.5), seed=0)
    assert torch.equal(part, part.sort().values)
    n_low = int((part < 500).sum())  # hypergeometric: variance 1000 / 16
    assert abs(n_low - 250) < 4 * (1_000 / 16 * 1_000 / 999) ** 0.5
