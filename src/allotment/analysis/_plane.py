"""Tasks as points in a plane, near each other where their embeddings are alike."""

from dataclasses import dataclass

import numpy as np

from .._schema import Floats

_NOTHING = 1e-12  # a squared distance that is left by rounding


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A point for each task, and how much of the differences between tasks it shows."""

    points: Floats  # [T, 2]
    shown: float  # share of the squared distances, 0 to 1; 1 where there is nothing to show


def plane(similarity: Floats) -> Plane:
    """Returns the classical scaling (Torgerson's) of cosine similarities to two dimensions.

    The distance of two tasks is that of their embeddings once these have length 1, whose square is
    2 - 2 cos; distances in the plane are never longer. Nothing is drawn at random: of the two
    mirror images of an axis, the one whose farthest point is at its positive end is taken.
    """
    squares = 2.0 - 2.0 * similarity
    n_tasks = len(squares)
    centring = np.eye(n_tasks) - 1.0 / n_tasks
    products = -0.5 * centring @ squares @ centring
    values, vectors = np.linalg.eigh((products + products.T) / 2)  # in rising order
    values = np.where(values > _NOTHING, values, 0.0)
    top = values[::-1][:2]
    points = np.zeros((n_tasks, 2))
    points[:, : len(top)] = vectors[:, ::-1][:, :2] * np.sqrt(top)
    farthest = (
        np.abs(points).round(8).argmax(axis=0)
    )  # rounded, so that of a tie the first is taken
    points *= np.where(points[farthest, [0, 1]] < 0, -1.0, 1.0)
    total = values.sum()
    return Plane(points=points, shown=float(top.sum() / total) if total else 1.0)
