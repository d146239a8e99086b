"""Several targets at once in the manner of scikit-learn, some of their labels not known."""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from allotment.sklearn import AllotmentClassifier

wine = load_wine()
x, is_strong = wine.data[:, 1:], wine.data[:, 0] > 13
labels = np.stack([wine.target, is_strong], axis=1).astype(float)
labels[::4, 1] = np.nan  # not known
x_train, x_test, y_train, y_test = train_test_split(x, labels, random_state=0)

estimator = AllotmentClassifier(width=32, rounds=300).fit(x_train, y_train)
print(f"mean accuracy: {estimator.score(x_test, y_test):.3f}")
print(estimator.predict(x_test[:3]))
print([p.shape for p in estimator.predict_proba(x_test)])
print(estimator.result_.embeddings)  # which components each target uses
