"""Small trees of files, for the checks of the layout and the measures."""

from pathlib import Path


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Writes ``files``, given by their paths, under ``root`` and returns it."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
