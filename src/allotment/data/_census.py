"""Census-Income (KDD): the columns of its published table, and the reader of it."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._declaration import Archive, Array, ArraySpec, DataError, DataSet
from ._readers import damage_of

N_ROWS = 99_762
_SEPARATOR = ", "
# The columns in order: the type of a column of numbers, or how many texts one of texts has.
COLUMNS: Mapping[str, str | int] = {
    "age": "int32",
    "class_of_worker": 9,
    "industry_code": "int32",
    "occupation_code": "int32",
    "education": 17,
    "wage_per_hour": "int32",
    "enrolled_in_edu": 3,
    "marital_status": 7,
    "major_industry": 24,
    "major_occupation": 15,
    "race": 5,
    "hispanic_origin": 10,
    "sex": 2,
    "union_member": 3,
    "reason_unemployed": 6,
    "full_or_part_time": 8,
    "capital_gains": "int32",
    "capital_losses": "int32",
    "dividends": "int32",
    "tax_filer": 6,
    "region_prev": 6,
    "state_prev": 51,
    "household_detail": 37,
    "household_summary": 8,
    "weight": "float64",
    "migration_msa": 10,
    "migration_reg": 9,
    "move_within_reg": 10,
    "same_house_1yr": 3,
    "migration_sunbelt": 4,
    "num_persons_worked_for": "int32",
    "family_members_under_18": 5,
    "country_father": 43,
    "country_mother": 43,
    "country_self": 43,
    "citizenship": 5,
    "own_business": "int32",
    "veterans_questionnaire": 3,
    "veterans_benefits": "int32",
    "weeks_worked": "int32",
    "year": "int32",
    "income": 2,
}


def census_arrays(n_rows: int, columns: Mapping[str, str | int]) -> dict[str, ArraySpec]:
    """Returns the arrays of a table: numbers, or places among the texts in ``NAME_texts``."""
    arrays: dict[str, ArraySpec] = {}
    for name, kind in columns.items():
        if isinstance(kind, str):
            arrays[name] = ArraySpec(kind, (n_rows,))
        else:
            arrays[name] = ArraySpec("int8", (n_rows,))
            arrays[f"{name}_texts"] = ArraySpec("str", (kind,))
    return arrays


def read_census(archives: Sequence[Path], arrays: Mapping[str, ArraySpec]) -> dict[str, Array]:
    """Returns a table's columns: numbers, or the places of texts among the sorted different ones.

    A blank around a text is no part of it.
    """
    (archive,) = archives
    names = [name for name in arrays if not name.endswith("_texts")]
    rows = _rows(archive, len(names))
    result: dict[str, Array] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        if f"{name}_texts" not in arrays:
            result[name] = _numbers(archive, name, column, arrays[name].dtype)
            continue
        texts = sorted(set(map(str.strip, column)))
        places = {text: place for place, text in enumerate(texts)}
        found = [places[text.strip()] for text in column]
        result |= {name: np.array(found, dtype=np.int8), f"{name}_texts": np.array(texts)}
    return result


def _rows(archive: Path, n_fields: int) -> list[list[str]]:
    with damage_of(archive), gzip.open(archive) as file:
        lines = file.read().decode("ascii", errors="replace").splitlines()
    rows = [line.split(_SEPARATOR) for line in lines]
    if not rows:
        raise DataError(f"`{archive.name}` should hold rows of a table. Found none.")
    for number, row in enumerate(rows):
        if len(row) != n_fields:
            raise DataError(
                f"`{archive.name}` should have {n_fields} fields in each row. "
                f"Found {len(row)} in row {number}."
            )
    return rows


def _numbers(archive: Path, name: str, column: Sequence[str], dtype: str) -> Array:
    try:
        return np.array(column).astype(np.float64).astype(dtype)
    except ValueError as error:
        raise DataError(
            f"`{archive.name}` should hold numbers in the column `{name}`. Found: {error}."
        ) from error


@dataclass(frozen=True)
class CountOf:
    """How many rows of a column have one text, or a number above 0 where ``text`` is None."""

    column: str
    text: str | None
    count: int

    def __call__(self, arrays: Mapping[str, Array]) -> None:
        values = arrays[self.column]
        if self.text is None:
            what, found = "above 0", int((values > 0).sum())
        else:
            texts = arrays[f"{self.column}_texts"]
            what, found = f"{self.text!r}", int((texts[values] == self.text).sum())
        if found != self.count:
            raise DataError(
                f"`{self.column}` should be {what} in {self.count} rows. Found {found}."
            )


CENSUS = DataSet(
    name="census",
    description="99,762 people of the population surveys of 1994 and 1995, 42 columns",
    # The SHA-256 is 5ac4cacd3ca9f1ecb10de1a0a41e4ac68fdc419e3fec190f5c0c6cc03b2ea659.
    archives=(
        Archive(
            "census-income.test.gz",
            "a8c39dce642efb4d17f28ebe74a3c271",
            ("https://archive.ics.uci.edu/ml/machine-learning-databases/census-income-mld/",),
        ),
    ),
    arrays=census_arrays(N_ROWS, COLUMNS),
    read=read_census,
    checks=(
        CountOf("income", "50000+.", 6_186),
        CountOf("marital_status", "Never married", 43_143),
        CountOf("union_member", "Not in universe", N_ROWS - 9_479),
        CountOf("major_occupation", "Not in universe", N_ROWS - 49_479),
        CountOf("same_house_1yr", "Not in universe under 1 year old", N_ROWS - 49_093),
        CountOf("dividends", None, 10_528),
        CountOf("weeks_worked", None, 51_873),
    ),
    as_published="census_income.csv.gz",
)
