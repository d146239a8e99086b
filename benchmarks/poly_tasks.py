"""Text tasks made from the source of Python's standard library, alike on every machine that has it.

Six tasks in three families: the topic of a line of code, and of a sentence (two tasks); whether a
line is code or prose, a comment or a docstring (two); whether the words of a line of code, or of a
sentence, stand in their order (two).
"""

import ast
import io
import random
import re
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

PACKAGES = ("asyncio", "email", "tkinter", "unittest", "xml")
FAMILIES = ("topic", "topic", "kind", "kind", "order", "order")
LENGTH = 20  # tokens of a text, with one in front that stands for all of it
PAD, FIRST, MASK, UNKNOWN = range(4)
N_VOCABULARY = 3_000
SIZES = {"train": 900, "validation": 200, "test": 600}

Example = tuple[str, int]  # a text and its label


@dataclass(frozen=True)
class Texts:
    """Texts as tokens ``[N, L]``, filled up at the end, and their labels."""

    ids: Tensor
    labels: Tensor

    def batch(self, rows: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Returns what a Hugging Face encoder takes, and labels."""
        ids = self.ids[rows]
        ids = ids[:, : int((ids != PAD).sum(1).max())]
        return {"input_ids": ids, "attention_mask": (ids != PAD).long()}, self.labels[rows]


@dataclass(frozen=True)
class TextTask:
    """A task, with its splits by name."""

    name: str
    n_classes: int
    splits: dict[str, Texts]


def text_tasks() -> tuple[list[TextTask], Tensor]:
    """Returns the tasks, and all their training texts ``[N, L]`` for a language model."""
    code, prose, comments = (
        {package: found(package) for package in PACKAGES} for found in (_code, _prose, _comments)
    )
    examples: dict[str, list[Example]] = {
        "topic of code": _labelled(code.values()),
        "topic of prose": _labelled(prose.values()),
        "code or prose": _labelled([_all(code), _all(prose)]),
        "comment or docstring": _labelled([_all(comments), _all(prose)]),
        "order of code": _shuffled(_all(code)),
        "order of prose": _shuffled(_all(prose)),
    }
    chosen = {name: _chosen(name, found) for name, found in examples.items()}
    n_train = SIZES["train"]
    seen = [text for found in chosen.values() for text, _ in found[:n_train]]
    vocabulary = _vocabulary(seen)
    tasks = [_task(name, found, vocabulary) for name, found in chosen.items()]
    return tasks, torch.cat([task.splits["train"].ids for task in tasks])


def _task(name: str, found: Sequence[Example], vocabulary: dict[str, int]) -> TextTask:
    splits, start = {}, 0
    for split, size in SIZES.items():
        part = found[start : start + size]
        start += size
        ids = torch.tensor([_ids(text, vocabulary) for text, _ in part])
        splits[split] = Texts(ids, torch.tensor([label for _, label in part]))
    return TextTask(name, 1 + max(label for _, label in found), splits)


def _chosen(name: str, examples: Sequence[Example]) -> list[Example]:
    """Returns as many examples as are needed, as many of each class, in an order of its own."""
    drawn = random.Random(name)
    by_class: dict[int, list[Example]] = {}
    for example in sorted(set(examples)):
        by_class.setdefault(example[1], []).append(example)
    each = sum(SIZES.values()) // len(by_class)
    few = {label: len(found) for label, found in by_class.items() if len(found) < each}
    assert not few, f"{name}: fewer than {each} examples of {few}"
    together = [example for found in by_class.values() for example in drawn.sample(found, each)]
    drawn.shuffle(together)
    return together


def _all(texts: dict[str, list[str]]) -> list[str]:
    return [text for found in texts.values() for text in found]


def _labelled(groups: Iterable[Sequence[str]]) -> list[Example]:
    return [(text, label) for label, group in enumerate(groups) for text in group]


def _shuffled(texts: Sequence[str]) -> list[Example]:
    """Returns texts as they are, and others with their words in another order."""
    drawn, examples = random.Random("shuffled"), []
    for text in sorted(set(texts)):
        tokens, label = _tokens(text)[: LENGTH - 1], drawn.randrange(2)
        if label:
            drawn.shuffle(tokens)
        examples.append((" ".join(tokens), label))
    return examples


def _files(package: str) -> list[str]:
    folder = Path(sysconfig.get_path("stdlib")) / package
    paths = [path for path in sorted(folder.rglob("*.py")) if "test" not in path.name]
    return [path.read_text(encoding="utf-8") for path in paths]


def _code(package: str) -> list[str]:
    lines = [line.strip() for source in _files(package) for line in source.splitlines()]
    plain = [line for line in lines if re.match(r"[a-z_]+[\w.]*(\(| = |\.| )", line)]
    code = [line for line in plain if not re.fullmatch(r"[\w ,.'-]+", line)]
    return [_without(package, line) for line in code if len(_tokens(line)) >= 6]


def _prose(package: str) -> list[str]:
    found = []
    for source in _files(package):
        for node in ast.walk(ast.parse(source)):
            kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if isinstance(node, kinds):
                found += re.split(r"(?<=[.:])\s+", ast.get_docstring(node) or "")
    return _sentences(package, found)


def _comments(package: str) -> list[str]:
    found = []
    for source in _files(package):
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        found += [t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT]
    return _sentences(package, found)


def _sentences(package: str, found: Iterable[str]) -> list[str]:
    joined = [" ".join(text.split()) for text in found]
    return [_without(package, text) for text in joined if len(_tokens(text)) >= 6]


def _without(package: str, text: str) -> str:
    """Returns a text that does not name its package."""
    return re.sub(package, "it", text, flags=re.IGNORECASE)


def _tokens(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d|[^\sa-z\d]", text.lower())


def _vocabulary(texts: Iterable[str]) -> dict[str, int]:
    counts = Counter(token for text in texts for token in _tokens(text))
    common = sorted(counts, key=lambda token: (-counts[token], token))
    n_special = UNKNOWN + 1
    return {token: n_special + n for n, token in enumerate(common[: N_VOCABULARY - n_special])}


def _ids(text: str, vocabulary: dict[str, int]) -> list[int]:
    ids = [FIRST, *(vocabulary.get(token, UNKNOWN) for token in _tokens(text))][:LENGTH]
    return ids + [PAD] * (LENGTH - len(ids))
