"""Records of earlier versions as they are understood now."""

from dataclasses import asdict, replace
from typing import Any

from pytest import mark

from allotment.records import describe_environment
from allotment.records._record import environment_from, header_from
from tests.records.made_up import a_header


@mark.parametrize(
    ("written", "understood"),
    [
        ({"kind": "Gumbel", "p_init": 0.97}, {"kind": "GumbelMatrix", "p_init": 0.97}),
        ({"kind": "Gumbel", "p_init": 0.5}, {"kind": "GumbelMatrix"}),
        ({"kind": "SharedBottom", "reduce": "sum"}, {"kind": "SharedBottom"}),
        (
            {"kind": "SharedBottom", "reduce": "mean"},
            {"kind": "SharedBottom", "reduce": "mean"},
        ),
        ({"kind": "NoSharing"}, {"kind": "NoSharing"}),
    ],
)
def test_ways_of_sharing_have_the_names_of_now(
    written: dict[str, Any], understood: dict[str, Any]
) -> None:
    header = asdict(replace(a_header(), settings={"allocation": written}))
    assert header_from(header).settings["allocation"] == understood


def test_one_thread_is_one_thread() -> None:
    written = asdict(describe_environment("CPU, 1 threads"))
    assert environment_from(written).device == "CPU, 1 thread"
    assert environment_from(written | {"device": "CPU, 2 threads"}).device == "CPU, 2 threads"
