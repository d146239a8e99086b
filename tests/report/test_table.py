from functools import partial

from pytest import mark

from allotment._schema import RunHeader
from allotment.report import Column, make_table
from allotment.report._section import Display, display_of
from allotment.report._table import NOTHING, Place
from tests.records.made_up import a_header
from tests.report.suites import alphabets_run, clusters_run

NAME: Column[int] = Column("Name", str, kind="name")
HALF: Column[int] = Column("Half", lambda n: str(n // 2) if n % 2 == 0 else NOTHING, optional=True)


def test_a_column_is_what_its_function_says_of_each_item() -> None:
    table = make_table([NAME, HALF], [1, 2, 3], "Halves")
    assert table.head == ("Name", "Half")
    assert table.rows == (("1", "–"), ("2", "1"), ("3", "–"))
    assert (table.kinds, table.caption) == (("name", "number"), "Halves")


def test_an_optional_column_goes_where_it_says_nothing_and_others_stay() -> None:
    assert make_table([NAME, HALF], [1, 3]).head == ("Name",)
    silent: Column[int] = Column("Silent", lambda n: NOTHING)
    assert make_table([NAME, silent], [1]).rows == (("1", "–"),)


def repeat(place: Place, item: int) -> str:
    return place.value


@mark.parametrize("place", Place)
def test_columns_are_chosen_by_their_places(place: Place) -> None:
    # One heading for all, so that nothing but the places can tell them apart.
    columns = [Column("Same", partial(repeat, own), places=frozenset({own})) for own in Place]
    assert make_table(columns, [1], place=place).rows == ((place.value,),)


@mark.parametrize(
    ("header", "expected"),
    [
        (a_header(families=()), Display(equal_rows=True, families_compared=True)),
        (a_header(), Display(equal_rows=True, families_compared=True, relatedness=True)),
        (
            a_header(is_binary=False),
            Display(is_binary=False, families_compared=True, relatedness=True),
        ),
        (
            alphabets_run().header,
            Display(
                task_by_task=True, relatedness=True, families_compared=True, kinds=True, usage=True
            ),
        ),
        (
            clusters_run().header,
            Display(
                task_by_task=True,
                relatedness=True,
                families=True,
                families_compared=True,
                kinds=True,
                usage=True,
                usage_by_family=True,
            ),
        ),
    ],
    ids=["4 tasks", "2 families", "shares", "20 tasks", "40 tasks"],
)
def test_how_much_is_shown_follows_from_the_header(header: RunHeader, expected: Display) -> None:
    assert display_of(header) == expected
