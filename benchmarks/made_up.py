"""Random images in the shapes and types of the experiments; what they show costs no time."""

import torch

from allotment.tasks import Split, Task
from benchmarks.reference_images import Examples

# Tasks, images of a task, their shape, classes, and the factor that makes them inputs.
SIZES = {
    "mnist": (4, 60_000, (1, 28, 28), 10, 1 / 255),
    "omniglot": (20, 334, (1, 105, 105), 33, 1.0),
    "clusters": (40, 2_000, (3, 32, 32), 9, 1 / 255),
}


def made_up_tasks(name: str, n_tasks: int | None = None) -> list[Task]:
    """Returns the tasks of an experiment on images, for training only; all, or so many."""
    n_declared, n_images, shape, n_classes, scale = SIZES[name]
    n_tasks = min(n_tasks or n_declared, n_declared)
    generator = torch.Generator().manual_seed(0)
    # The four MNISTs are one array of images; the others have their own.
    n_arrays = 1 if name == "mnist" else n_tasks
    size = (n_arrays * n_images, *shape)
    images = torch.randint(256, size, generator=generator, dtype=torch.uint8)
    if name == "omniglot":
        images = images < 16  # mostly white, as drawings are
    labels = torch.arange(len(images)) % n_classes
    rows = torch.arange(len(images)).view(n_arrays, n_images).expand(n_tasks, n_images)
    return [
        Task(f"task {t}", Split(images, labels, rows=rows[t], scale=scale)) for t in range(n_tasks)
    ]


def examples_of(tasks: list[Task]) -> Examples:
    """Returns each task's own images and labels, as plain tensors."""
    splits = [task.train for task in tasks if isinstance(task.train, Split)]
    return [(split.inputs[split.rows], split.targets[split.rows]) for split in splits]
