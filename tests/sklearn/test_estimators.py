"""Estimators: scikit-learn's own checks, several targets, and labels that are not known."""

from typing import Any

import pytest

pytest.importorskip("pandas", reason="pandas is not installed here")
import numpy as np
import pandas as pd
from numpy.testing import assert_allclose
from pytest import approx, mark, raises
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from allotment.sklearn import AllotmentClassifier, AllotmentRegressor

SMALL: dict[str, Any] = {"width": 16, "n_components": 2, "n_layers": 1, "rounds": 40}
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(300, 4))
LABELS = np.stack([X[:, 0] > 0, np.digitize(X[:, 1], [-0.5, 0.5])], axis=1).astype(float)
NUMBERS = np.stack([X[:, 0] + X[:, 1], 1_000 * X[:, 2] + 5_000], axis=1)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        AllotmentClassifier(**SMALL, learning_rate=0.03),
        AllotmentRegressor(**SMALL, learning_rate=0.03),
    ]
)
def test_what_scikit_learn_asks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)


def test_several_targets_are_classified() -> None:
    estimator = AllotmentClassifier(rounds=200).fit(X, LABELS)
    assert estimator.score(X, LABELS) > 0.95
    assert [list(own) for own in estimator.classes_] == [[0, 1], [0, 1, 2]]
    probabilities = estimator.predict_proba(X)
    assert [p.shape for p in probabilities] == [(300, 2), (300, 3)]
    for place, p in enumerate(probabilities):
        assert_allclose(p.sum(axis=1), 1.0)
        assert (p.argmax(axis=1) == estimator.predict(X)[:, place]).all()


def test_several_numbers_are_predicted_in_their_own_units() -> None:
    estimator = AllotmentRegressor(rounds=300).fit(X, NUMBERS)
    assert estimator.score(X, NUMBERS) > 0.95
    assert estimator.predict(X).mean(axis=0) == approx(NUMBERS.mean(axis=0), rel=0.1, abs=0.1)


@mark.parametrize(
    ("kind", "targets"), [(AllotmentClassifier, LABELS), (AllotmentRegressor, NUMBERS)]
)
def test_targets_that_are_not_known_are_left_out(kind: Any, targets: Any) -> None:
    some = targets.copy()
    some[::3, 0] = np.nan
    some[1::3, 1] = np.nan
    estimator = kind(rounds=200).fit(X, some)
    assert estimator.score(X, targets) > 0.9
    assert np.isfinite(estimator.score(X, some))
    assert [len(target.classes or ()) for target in estimator.preprocessing_.targets] == (
        [2, 3] if kind is AllotmentClassifier else [0, 0]
    )


def test_frames_with_texts_and_missing_values_are_taken() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "sign": np.where(X[:, 1] > 0, "plus", "minus")})
    frame.loc[::10, "a"] = np.nan
    frame.loc[::15, "sign"] = None
    names = pd.DataFrame(
        {"sign": np.where(X[:, 1] > 0, "p", "m"), "a": np.where(X[:, 0] > 0, "p", "m")}
    )
    names.loc[::4, "a"] = None
    estimator = AllotmentClassifier(rounds=200).fit(frame, names)
    assert estimator.network_.task_names == ["sign", "a"]
    assert set(estimator.predict(frame)[:, 0]) == {"p", "m"}
    assert estimator.score(frame, names) > 0.9


def test_estimators_go_into_pipelines_and_searches() -> None:
    pipeline = make_pipeline(StandardScaler(), AllotmentRegressor(**SMALL))
    search = GridSearchCV(pipeline, {"allotmentregressor__n_components": [1, 2]}, cv=2)
    assert search.fit(X, NUMBERS).best_score_ <= 1.0


@mark.parametrize("columns", [[0, 1], 1], ids=["several targets", "one target"])
def test_labels_that_are_not_known_go_into_searches_as_whole_numbers(columns: Any) -> None:
    some = LABELS.astype(int)
    some[::3] = -100
    grid = {"n_components": [1, 2]}
    estimator = AllotmentClassifier(width=8, n_layers=1, rounds=100)
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise").fit(X, some[:, columns])
    assert search.best_score_ > 0.7  # of known labels: of all, a third would be wrong
    assert -100 not in np.concatenate(list(np.atleast_2d(search.best_estimator_.predict(X))))


def test_labels_that_are_nan_go_into_searches_by_rows() -> None:
    some = LABELS.copy()
    some[::3, 0] = np.nan
    grid = {"n_components": [1, 2]}
    search = GridSearchCV(AllotmentClassifier(**SMALL), grid, cv=KFold(2), error_score="raise")
    assert 0 < search.fit(X, some).best_score_ <= 1


def test_numbers_that_are_nan_go_into_searches() -> None:
    some = NUMBERS.copy()
    some[::3, 0] = np.nan
    search = GridSearchCV(AllotmentRegressor(**SMALL), {"n_components": [1, 2]}, cv=2)
    assert np.isfinite(search.fit(X, some).best_score_)


def test_missing_values_of_pandas_are_not_known() -> None:
    some = pd.DataFrame(LABELS, columns=["a", "b"]).astype("Int64")
    some.loc[::3, "a"] = pd.NA
    estimator = AllotmentClassifier(rounds=200).fit(X, some)
    assert [list(own) for own in estimator.classes_] == [[0, 1], [0, 1, 2]]
    assert estimator.score(X, some) > 0.9


def test_the_best_weights_are_chosen_on_validation() -> None:
    estimator = AllotmentRegressor(**SMALL, validation=0.2).fit(X, NUMBERS)
    assert estimator.result_.best_round is not None


def test_bad_targets_are_refused() -> None:
    with raises(ValueError, match=r"`y` should have shape \[N\] or \[N, T\]"):
        AllotmentRegressor().fit(X, np.zeros((2, 2, 2)))
    with raises(ValueError, match=r"`n_layers` should be at least 1"):
        AllotmentRegressor(n_layers=0).fit(X, NUMBERS)


def test_numbers_beside_texts_stay_numbers() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.array([[int(a > 0), "u" if b > 0 else "v"] for a, b in x], dtype=object)
    found = AllotmentClassifier(width=4, rounds=20).fit(x, y).predict(x)
    assert {type(value) for value in found[:, 0]} == {int}
    assert set(found[:, 1]) <= {"u", "v"}


def test_a_score_compares_whole_labels_and_leaves_out_what_is_not_known() -> None:
    x = np.array([[0.0], [1.0]] * 20)
    estimator = AllotmentClassifier(width=4, rounds=200).fit(x, np.array(["a", "b"] * 20))
    assert estimator.score(x, np.array(["a", "b"] * 20)) == 1.0
    assert estimator.score(x, np.array(["a long one", "b"] * 20)) == 0.5
    both = np.stack([x[:, 0], x[:, 0]], axis=1)
    several = AllotmentRegressor(width=4, rounds=20).fit(x, both)
    half = np.stack([x[:, 0], np.full(len(x), np.nan)], axis=1)
    assert several.score(x, half) == several.score(x, half[:, [0, 1]]) <= 1.0


def test_targets_of_one_name_are_refused() -> None:
    twice = pd.DataFrame([[0, 1], [1, 0]] * 10, columns=["a", "a"])
    with raises(ValueError, match="should have different names"):
        AllotmentClassifier().fit(np.zeros((20, 1)), twice)
