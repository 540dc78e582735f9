"""Made-up rows: a small table with the doors that analysts use, `to_arrow`, `to_pandas` and `to_polars`.

It holds an Arrow table and hands it on; whatever reads Arrow's stream interface (pyarrow, polars, DuckDB) takes it as it is.

>>> import pyarrow as pa
>>> rows = SyntheticRows(pa.table({"sex": ["f", "m"], "age": [30, 41]}))
>>> rows.num_rows, rows.column_names, rows["age"].to_pylist(), rows.to_pylist()[0]
(2, ['sex', 'age'], [30, 41], {'sex': 'f', 'age': 30})
>>> rows.to_arrow().num_rows, pa.table(rows).num_rows, rows
(2, 2, 2 made-up rows of 2 columns: sex, age)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class SyntheticRows:
    """Rows that are made up, in an Arrow table."""

    table: pa.Table

    def to_arrow(self) -> pa.Table:
        """The Arrow table."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame."""
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """A polars frame; polars must be installed."""
        import polars

        found = polars.from_arrow(self.table)
        assert isinstance(found, polars.DataFrame)  # a table is no series
        return found

    def to_pydict(self) -> dict[str, list[Any]]:
        """Lists of values by column."""
        found: dict[str, list[Any]] = self.table.to_pydict()
        return found

    def to_pylist(self) -> list[dict[str, Any]]:
        """A mapping for every row."""
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return self.table.schema

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.table[name]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"{self.num_rows:,} made-up rows of {len(self.column_names)} columns: {', '.join(self.column_names)}"
