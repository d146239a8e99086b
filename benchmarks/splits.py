"""Measures how much the error over Omniglot's alphabets varies with the split alone.

A network takes minutes of a GPU for one split; a linear classifier of edge directions takes a
second, and its error is about two points above that of networks trained as in the paper. So it can
say, over hundreds of splits, how far two random ones lie apart, and whether the one that all our
runs have is odd.

    python benchmarks/splits.py --data FOLDER
"""

import argparse

import numpy as np
from scipy.ndimage import find_objects, gaussian_filter, sobel, zoom
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from allotment._schema import Floats
from allotment.paper import omniglot
from allotment.tasks import Split, Task

SIDE, MARGIN = 64, 4  # of a drawing once it is cut out
CELLS, DIRECTIONS = 8, 8
FIRST_SEED = 1_000  # of the random splits; ours has another
SHRINKAGE = 0.3  # of covariances: a class has ten drawings


def edges(image: Floats) -> Floats:
    """Returns how strong the edges of a drawing are, by place and direction."""
    (cut,) = find_objects(image.astype(int))
    drawing = image[cut]
    side = max(drawing.shape) + 2 * MARGIN
    before = [(side - length) // 2 for length in drawing.shape]
    after = [side - length - first for length, first in zip(drawing.shape, before, strict=True)]
    square = np.pad(drawing, list(zip(before, after, strict=True)))
    small = gaussian_filter(zoom(gaussian_filter(square, 1.0), SIDE / side, order=1), 1.5)
    down, right = sobel(small, 0), sobel(small, 1)
    strength, angle = np.hypot(down, right), np.arctan2(down, right) / np.pi * DIRECTIONS
    between = angle[None] - np.arange(DIRECTIONS)[:, None, None]
    away = np.abs((between + DIRECTIONS / 2) % DIRECTIONS - DIRECTIONS / 2)
    by_direction = strength * np.clip(1 - away, 0, None)  # [DIRECTIONS, SIDE, SIDE]
    step = SIDE // CELLS
    cells = gaussian_filter(by_direction, (0, 3, 3))[:, step // 2 :: step, step // 2 :: step]
    found: Floats = np.sqrt(cells / cells.sum()).ravel()
    return found


def errors(task: Task, features: Floats) -> tuple[list[float], list[int]]:
    """Returns a task's validation and test error, and how many drawings each is of."""

    def examples(split: Split | None) -> tuple[Floats, Floats]:
        assert split is not None
        assert split.rows is not None
        return features[split.rows.numpy()], split.targets[split.rows].numpy()

    classifier = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINKAGE)
    classifier.fit(*examples(task.train))
    held_out = [examples(split) for split in (task.validation, task.test)]
    return [1 - classifier.score(x, y) for x, y in held_out], [len(y) for _, y in held_out]


def main() -> None:
    """Prints, for both kinds of split, what random ones give and what ours does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="the folder of the data sets")
    parser.add_argument("--splits", type=int, default=200, help="random ones of each kind")
    options = parser.parse_args()
    images = omniglot(options.data)[0].train.inputs[:, 0].numpy().astype(float)
    features = PCA(64, random_state=0).fit_transform(np.stack([edges(image) for image in images]))
    for kind in ("clean", "published"):

        def of_split(**seed: int) -> tuple[Floats, Floats]:
            tasks = omniglot(options.data, split=kind, **seed)  # noqa: B023  (called here alone)
            found = [errors(task, features) for task in tasks]
            return np.array([e for e, _ in found]), np.array([n for _, n in found])

        ours, sizes = of_split()
        drawn = np.stack([of_split(seed=FIRST_SEED + k)[0] for k in range(options.splits)])
        rates = drawn.mean(0)  # [T, 2]
        tosses = np.sqrt((rates * (1 - rates) / sizes).sum(0)) / len(sizes)
        over_tasks = 100 * drawn.mean(1)  # [splits, 2]
        gap = over_tasks @ [1, -1]
        for name, mean, spread, toss, own in zip(
            ("validation", "test"),
            over_tasks.mean(0),
            over_tasks.std(0, ddof=1),
            100 * tosses,
            100 * ours.mean(0),
            strict=True,
        ):
            print(
                f"{kind}, {name} error of {options.splits} splits: {mean:.2f} % ± {spread:.2f} sd "
                f"({toss:.2f} if drawings were tosses); of ours {own:.2f} %"
            )
        print(f"{kind}, validation less test: {gap.mean():.2f} ± {gap.std(ddof=1):.2f} sd")


if __name__ == "__main__":
    main()
