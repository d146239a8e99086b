"""Spoilt arguments: a call works, or one sentence says what the argument should be."""

import warnings
from collections.abc import Callable

from pytest import mark, param

from allotment.records import RecordError
from tests.fuzz.calls import Call, junk, of_core, of_evidence, of_training

MAKERS = (of_core, of_training, of_evidence)
EVERY = 7  # of the junk, in the normal suite; each argument begins at another place


def faults(make: Callable[[], list[Call]], name: str, every: int = 1) -> list[str]:
    """Returns what calls of one function with one argument spoilt led to, where that was wrong."""
    found = []
    names = list(next(call for call in make() if call.name == name).arguments)
    for place, argument in enumerate(names):
        for number in range(place % every, len(junk()), every):
            call = next(call for call in make() if call.name == name)
            value = junk()[number]
            try:
                with warnings.catch_warnings(action="ignore"):
                    call.function(**call.arguments | {argument: value})
            except (TypeError, ValueError, RecordError) as error:
                if "Found" not in str(error):
                    found.append(f"{argument}={value!r}: {error!r}")
            except Exception as error:
                found.append(f"{argument}={value!r}: {error!r}")
    return found


CALLS = [
    param(make, call.name, id=call.name)
    for make in MAKERS
    for call in make()
    if call.name != "network"  # whose examples may be whatever its modules take
]


@mark.parametrize(("make", "name"), CALLS)
def test_a_spoilt_argument_is_taken_or_refused_in_a_sentence(
    make: Callable[[], list[Call]], name: str
) -> None:
    assert faults(make, name, EVERY) == []


@mark.slow
@mark.parametrize(("make", "name"), CALLS)
def test_every_spoilt_argument_is_taken_or_refused_in_a_sentence(
    make: Callable[[], list[Call]], name: str
) -> None:
    assert faults(make, name) == []
