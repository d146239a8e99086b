"""A classifier and a regressor: tasks from a table, a default network, and `fit`."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from .._checks import check_count
from .._streams import torch_stream
from ..allocation import GumbelMatrix
from ..modules import ModularLayer, MultiTaskNetwork
from ..settings import Optimization, Penalties, TrainingSettings
from ..tasks import UNKNOWN, TableTasks, tasks_from_table
from ..training import fit


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    def __init__(
        self,
        *,
        width: int = 64,
        n_components: int = 4,
        n_layers: int = 2,
        rounds: int = 500,
        batch_size: int = 64,
        learning_rate: float = 0.005,
        validation: float = 0.0,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.width = width
        self.n_components = n_components
        self.n_layers = n_layers
        self.rounds = rounds
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Trains on rows ``X`` and targets ``[N]`` or ``[N, T]``; NaN and None are not known."""
        names, targets, self._is_single = _named_targets(y)
        x = self._rows(X, reset=True)
        check_consistent_length(x, targets)
        for name in ("width", "n_components", "n_layers"):
            check_count(name, getattr(self, name))
        seed = self.random_state
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(2**31))
        tasks = tasks_from_table(
            x,
            {name: self._target(targets[:, place]) for place, name in enumerate(names)},
            validation=self.validation,
            test=None,
            seed=seed,
            kinds=dict.fromkeys(names, self._kind),
        )
        with torch_stream(seed, "weights"):
            self.network_ = self._network(tasks)
        self.preprocessing_ = tasks.preprocessing
        self.result_ = fit(self.network_, tasks, self._settings(), seed=seed, device=self.device)
        # Predictions in double precision do not depend on the other rows that are predicted.
        self.network_.cpu().double()
        return self

    _kind: Any
    _is_single: bool

    def _target(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def _settings(self) -> TrainingSettings:
        return TrainingSettings(
            rounds=self.rounds,
            batch_size=self.batch_size,
            evaluate_every=max(10, self.rounds // 200 * 10) if self.validation else None,
            optimization=Optimization(learning_rate=self.learning_rate, clip_norm=1.0),
            penalties=Penalties(disconnect_weight=0.1),
            # To record a step takes as long as a few hundred steps that are not recorded.
        )

    def _network(self, tasks: TableTasks) -> MultiTaskNetwork:
        layers, n_inputs = [], tasks.n_features
        for _ in range(self.n_layers):
            components = [
                nn.Sequential(nn.Linear(n_inputs, self.width), nn.ReLU())
                for _ in range(self.n_components)
            ]
            allocation = GumbelMatrix(len(tasks), self.n_components, p_init=0.9)
            layers.append(ModularLayer(components, allocation))
            n_inputs = self.width
        heads = {task.name: nn.Linear(self.width, task.n_outputs) for task in tasks}
        return MultiTaskNetwork(None, layers, heads)

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:  # noqa: N803
        x: NDArray[Any] = validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"
        )
        return x

    @torch.no_grad()
    def _outputs(self, X: Any) -> dict[str, Tensor]:  # noqa: N803
        """Returns the outputs for each target."""
        check_is_fitted(self)
        inputs = self.preprocessing_.transform(self._rows(X, reset=False))
        return {name: self.network_(inputs.double(), name) for name in self.network_.task_names}

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Returns predictions, ``[N]`` or ``[N, T]`` as the targets were."""
        found = self._outputs(X)
        columns = [self.preprocessing_.decode(name, y) for name, y in found.items()]
        if self._is_single:
            return columns[0]
        are_texts = {column.dtype.kind == "U" for column in columns}
        if len(are_texts) > 1:  # numbers beside texts stay numbers
            columns = [column.astype(object) for column in columns]
        return np.stack(columns, axis=1)

    def _mean_score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Returns the mean over targets of their score on rows whose target is known."""
        _, targets, _ = _named_targets(y)
        predicted = self.predict(X).reshape(targets.shape)
        scores = []
        for own, said in zip(targets.T, predicted.T, strict=True):
            is_known = self._are_known(own)
            if is_known.any():
                scores.append(self._score(own[is_known], said[is_known]))
        if not scores:
            raise ValueError("`y` should have a known value. Found none.")
        return float(np.mean(scores))

    def _are_known(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        return np.array([_is_known(value) for value in values.tolist()])

    def _score(self, known: NDArray[Any], predicted: NDArray[Any]) -> float:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class AllotmentClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Classifies several targets by one network that learns what they share.

    ``classes_`` has the classes of the target, or a list of them for several targets; ``score`` is
    the mean accuracy. `AllotmentRegressor` has the same arguments.

    Labels that are NaN, None or -100 are not known. In `GridSearchCV`, `cross_val_score` and the
    like, use -100 in an array of whole numbers, or ``cv=KFold(5)``: by default scikit-learn divides
    the rows by the labels of a classifier, and itself refuses labels that are NaN or None.

    >>> import numpy as np
    >>> from allotment.sklearn import AllotmentClassifier
    >>> x = np.random.default_rng(0).normal(size=(60, 4))
    >>> labels = np.stack([x[:, 0] > 0, x[:, 1] > 0], axis=1).astype(int)
    >>> labels[::3, 1] = -100  # not known
    >>> AllotmentClassifier(width=8, rounds=20).fit(x, labels).predict(x[:2]).shape
    (2, 2)

    Args:
        width: Features behind each layer.
        n_components: Components side by side in each layer; each target learns which it uses.
        n_layers: Modular layers, one after another.
        rounds: Batches of every target.
        batch_size: Examples in a batch.
        learning_rate: Of the weights and the gates.
        validation: The share of rows on which the best weights are chosen, if any.
        device: "cpu" or "cuda".
        random_state: Of the initial weights and all that is drawn.
    """

    _kind = "classification"
    score = _Estimator._mean_score

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        _, targets, _ = _named_targets(y)
        for own in targets.T:
            known = own[self._are_known(own)]
            if len(known):
                check_classification_targets(np.array(known.tolist()))
        super().fit(X, y)
        classes = [np.array(target.classes) for target in self.preprocessing_.targets]
        self.classes_ = classes[0] if self._is_single else classes
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Returns probabilities ``[N, classes]``, or a list of them for several targets."""
        found = [y.double().softmax(dim=1).numpy() for y in self._outputs(X).values()]
        return found[0] if self._is_single else found

    def _are_known(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        found = values.tolist()
        return np.array([_is_known(label) and label != UNKNOWN for label in found])

    def _score(self, known: NDArray[Any], predicted: NDArray[Any]) -> float:
        pairs = zip(known.tolist(), predicted.tolist(), strict=True)
        return float(np.mean([label == said for label, said in pairs]))


class AllotmentRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Predicts several numbers by one network that learns what they share.

    ``score`` is the mean coefficient of determination (R²). For the arguments see
    `AllotmentClassifier`.

    >>> import numpy as np
    >>> from allotment.sklearn import AllotmentRegressor
    >>> x = np.random.default_rng(0).normal(size=(60, 4))
    >>> AllotmentRegressor(width=8, rounds=20).fit(x, x[:, :2]).predict(x[:2]).shape
    (2, 2)

    Args:
        width: Features behind each layer.
        n_components: Components side by side in each layer; each target learns which it uses.
        n_layers: Modular layers, one after another.
        rounds: Batches of every target.
        batch_size: Examples in a batch.
        learning_rate: Of the weights and the gates.
        validation: The share of rows on which the best weights are chosen, if any.
        device: "cpu" or "cuda".
        random_state: Of the initial weights and all that is drawn.
    """

    _kind = "regression"
    score = _Estimator._mean_score

    def _target(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float64)

    def _score(self, known: NDArray[Any], predicted: NDArray[Any]) -> float:
        return float(r2_score(known.astype(np.float64), predicted))


def _named_targets(y: Any) -> tuple[list[str], NDArray[Any], bool]:
    """Returns a name for each target, the targets ``[N, T]``, and whether they came as ``[N]``."""
    if y is None:
        raise ValueError(
            "`y` should be targets: requires y to be passed, but the target y is None."
        )
    array = np.asarray(y)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"`y` should have shape [N] or [N, T]. Found an array of shape {list(array.shape)}."
        )
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise ValueError("`y` should be finite, or NaN where it is not known. Found infinity.")
    targets = array.reshape(len(array), -1)
    names = getattr(y, "columns", [f"y{place}" for place in range(targets.shape[1])])
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        raise ValueError(f"The columns of `y` should have different names. Found {texts}.")
    return texts, targets, array.ndim == 1


def _is_known(value: object) -> bool:
    """Tells whether a value is known: neither None nor NaN, nor pandas' NA."""
    is_itself = value == value
    return value is not None and isinstance(is_itself, bool | np.bool_) and bool(is_itself)
