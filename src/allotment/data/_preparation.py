"""The way from published archives to a prepared file."""

from pathlib import Path

from ._declaration import Array, DataSet
from ._download import Progress, fetch
from ._errors import DataError, disk_faults
from ._folder import data_folder
from ._registry import dataset_named
from ._store import folder_made, write_arrays
from ._verdict import check


def prepare(
    name: str | DataSet, folder: str | Path | None = None, *, progress: Progress = lambda *_: None
) -> Path:
    """Returns the path of the prepared file, made from the published archives if need be.

    A sound file is left as it is; a damaged one is made anew. Verified archives are kept in
    ``archives/NAME``, so that none is fetched twice; apart from them, a fault leaves the folder
    as it was.

    Args:
        name: A name in ``DATASETS``, or a declaration.
        folder: The data folder; by default the one ``data_folder`` finds.
        progress: Is told the name of the file at work, the bytes done, and the bytes in all
            (0 while not known): first each archive to download, then the prepared file.
    """
    dataset = dataset_named(name) if isinstance(name, str) else name
    folder = data_folder(folder)
    path = folder / dataset.file_name
    (verdict,) = check(folder, [dataset])
    if verdict.fault is None:
        return path
    archives = folder / "archives" / dataset.name
    with disk_faults(folder), folder_made(archives):
        arrays = _read(dataset, archives, progress)
        write_arrays(path, arrays, compress=dataset.compress)
    return path


def _read(dataset: DataSet, folder: Path, progress: Progress) -> dict[str, Array]:
    """Returns the checked arrays of the archives; new archives are removed if they are refused."""
    already_here = {path.name for path in folder.iterdir()}
    paths = [fetch(archive, folder, progress) for archive in dataset.archives]
    progress(dataset.file_name, 0, 0)
    try:
        arrays = dataset.read(paths, dataset.arrays)
        dataset.check(arrays)
    except DataError:
        for path in paths:
            if path.name not in already_here:
                path.unlink()
        raise
    return arrays
