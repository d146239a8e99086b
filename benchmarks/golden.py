"""Records what short trainings give on a CPU, and compares it, to the bit, with what they give now.

A change that should move no number is held to that: ``record FILE`` before it, ``compare FILE``
after it. The cases are in ``golden_cases.py``, and the names of the library in
``golden_adapter.py``, which is all that a change of names has to touch. Bits depend on the
processor, torch and the number of threads, which FILE holds; elsewhere ``--within`` compares the
numbers alone. The data folder is ``--data`` or ``$ALLOTMENT_DATA``.
"""

import argparse
import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from benchmarks.golden_adapter import Seen, machine
from benchmarks.golden_cases import CASES

THREADS = 1  # few operations here are long enough for more
EXACT = ("names", "embeddings")  # should be the same on any machine

Values = dict[str, Any]


def fingerprint(programs: Iterable[Seen]) -> Values:
    """Returns hashes of all that programs told, and the numbers among it in full."""
    found = list(programs)
    states = [dict(sorted(state.items())) for seen in found for state in seen.weights]
    flat = [torch.cat([x.double().flatten() for x in state.values()]) for state in states]
    names = [f"{name} {list(x.shape)} {x.dtype}" for state in states for name, x in state.items()]
    return {
        "names": _hash(name.encode() for name in names),
        "weights": _hash(x.numpy().tobytes() for state in states for x in state.values()),
        "embeddings": _hash(x.tobytes() for seen in found for x in seen.embeddings),
        "curves": _hash(x.tobytes() for seen in found for x in seen.curves),
        "sums": [weights.sum().item() for weights in flat],
        "norms": [weights.norm().item() for weights in flat],
        **_joined(seen.numbers for seen in found),
    }


def _hash(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _joined(numbers: Iterable[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Returns the numbers of several programs, one after another; what there is none of is out."""
    joined: dict[str, list[float]] = {}
    for name, values in chain.from_iterable(own.items() for own in numbers):
        joined.setdefault(name, []).extend(values)
    return {name: values for name, values in joined.items() if values}


def fingerprints(names: Iterable[str], data: Path | None) -> Iterator[tuple[str, Values, float]]:
    """Yields cases with what they give and how many seconds they take."""
    for name in names:
        started = time.perf_counter()
        found = fingerprint(CASES[name](data))
        yield name, found, time.perf_counter() - started


def difference(old: Values, new: Values) -> float:
    """Returns by how much numbers differ at most: relatively, where they are above 1."""
    most = 0.0
    for name in {*old, *new}:
        a, b = old.get(name, []), new.get(name, [])
        if isinstance(a, str) or isinstance(b, str):
            continue
        if len(a) != len(b):
            return math.inf
        for x, y in zip(a, b, strict=True):
            if repr(x) != repr(y):  # two NaN are equal
                most = max(most, _or_infinite(abs(x - y) / max(1.0, abs(x))))
    return most


def _or_infinite(x: float) -> float:
    return math.inf if math.isnan(x) else x


def verdict(old: Values | None, new: Values, within: float | None) -> tuple[bool, str]:
    """Returns whether a case is as it was, and what to say of it."""
    if old is None:
        return False, "not in the file"
    parts = [name for name in {**old, **new} if repr(old.get(name)) != repr(new.get(name))]
    if not parts:
        return True, "equal to the bit"
    most = difference(old, new)
    is_near = within is not None and most <= within and not set(parts) & set(EXACT)
    return is_near, f"differs by at most {most:.1e} ({', '.join(parts)})"


def record(path: Path, data: Path | None) -> int:
    """Writes what all cases give."""
    lines = []
    for name, found, seconds in fingerprints(CASES, data):
        print(f"{name}: {seconds:.1f} s", flush=True)
        lines.append(f"  {json.dumps(name)}: {json.dumps(found)}")
    head, cases = json.dumps(machine()), ",\n".join(lines)  # a case has one line
    text = f'{{"machine": {head},\n "cases": {{\n{cases}\n}}}}\n'
    path.write_text(text, encoding="utf-8")
    return 0


def compare(path: Path, data: Path | None, only: Sequence[str], within: float | None) -> int:
    """Prints a line for each case; returns 1 if one of them differs."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    torch.set_num_threads(kept["machine"]["threads"])
    for name, value in machine().items():
        if name != "commit" and value != kept["machine"][name]:
            print(f"{name}: {value}, recorded with {kept['machine'][name]}")
    chosen = [name for name in CASES if not only or any(word in name for word in only)]
    n_same = 0
    for name, found, _ in fingerprints(chosen, data):
        is_same, words = verdict(kept["cases"].get(name), found, within)
        n_same += is_same
        print(f"{name}: {words}", flush=True)
    gone = sorted(kept["cases"].keys() - CASES.keys())
    for name in gone:
        print(f"{name}: no longer a case")
    since = kept["machine"]["commit"]
    print(f"{n_same} of {len(chosen)} cases are as they were at {since}.")
    return int(n_same < len(chosen) or bool(gone))


def main(arguments: Sequence[str] | None = None) -> int:
    """Records or compares."""
    parser = argparse.ArgumentParser(description="Records golden values, or compares with them.")
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="default: $ALLOTMENT_DATA")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases named so")
    parser.add_argument("--within", type=float, metavar="X", help="let numbers differ so much")
    options = parser.parse_args(arguments)
    torch.set_num_threads(THREADS)
    warnings.simplefilter("ignore")  # some cases cannot train as one program, and say so
    if options.action == "compare":
        return compare(options.file, options.data, options.only, options.within)
    if options.only or options.within is not None:
        parser.error("`--only` and `--within` should be given to compare. Found record.")
    return record(options.file, options.data)


if __name__ == "__main__":
    sys.exit(main())
