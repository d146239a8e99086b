"""Estimators in the manner of scikit-learn, for several targets at once.

>>> import numpy as np
>>> from allotment.sklearn import AllotmentClassifier
>>> x = np.random.default_rng(0).normal(size=(200, 3))
>>> labels = np.stack([x[:, 0] > 0, x[:, 0] + x[:, 1] > 0], axis=1).astype(float)
>>> labels[::3, 1] = np.nan  # not known
>>> estimator = AllotmentClassifier(width=16, rounds=200).fit(x, labels)
>>> estimator.predict(x).shape
(200, 2)
>>> estimator.score(x, labels) > 0.9
True
"""

from ._estimators import AllotmentClassifier as AllotmentClassifier
from ._estimators import AllotmentRegressor as AllotmentRegressor
