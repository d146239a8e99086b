import numpy as np
from numpy.typing import NDArray
from pytest import mark, raises

from allotment.analysis import pareto

NAN = float("nan")


@mark.parametrize(
    ("costs", "values", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], [True, True, True]),
        ([1, 2, 3], [3, 2, 1], [True, False, False]),
        ([1, 1, 2], [1, 1, 1], [True, True, False]),  # equal points stand or fall together
        ([1, 1], [1, 2], [False, True]),
        ([1, 2, 3], [NAN, 1, 2], [False, True, True]),
        ([NAN, 2], [9, 1], [False, True]),
        ([], [], []),
    ],
)
def test_points_that_nobody_should_choose(
    costs: list[float], values: list[float], expected: list[bool]
) -> None:
    assert pareto(costs, values).tolist() == expected
    lower = pareto(costs, [-value for value in values], higher_is_better=False)
    assert lower.tolist() == expected


def by_definition(cost: NDArray[np.float64], value: NDArray[np.float64]) -> list[bool]:
    points = list(zip(cost, value, strict=True))
    return [not any(c <= a and v >= b and (c < a or v > b) for c, v in points) for a, b in points]


def test_it_is_what_the_definition_says() -> None:
    rng = np.random.default_rng(0)
    cost, value = rng.integers(6, size=(2, 40)).astype(float)  # with many ties
    assert pareto(cost, value).tolist() == by_definition(cost, value)


def test_one_cost_for_each_value() -> None:
    with raises(ValueError, match=r"should be of one shape \[N\]. Found \[2\] and \[3\]"):
        pareto([1, 2], [1, 2, 3])
