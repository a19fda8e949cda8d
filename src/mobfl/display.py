"""How our objects show themselves: a line on a terminal, a small table in a notebook, a data frame if asked for."""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mobfl.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SHOWN_ROWS = 10  # of a long table


class Sheet(NamedTuple):
    """What a notebook shows: a title, a table, and sentences below it. The first cell of a row is its name."""

    title: str
    rows: Sequence[Sequence[str]]
    header: Sequence[str] = ()
    notes: Sequence[str] = ()

    def to_html(self) -> str:
        head = f"<thead><tr>{_cells(self.header, 'th')}</tr></thead>" if self.header else ""
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        table = f"<table>{head}<tbody>{body}</tbody></table>" if body else ""
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<div><b>{html.escape(self.title)}</b>{table}{notes}</div>"


def _cells(row: Sequence[str], tag: str = "td") -> str:
    return "".join(f'<{tag} style="text-align: left">{html.escape(cell)}</{tag}>' for cell in row)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows with the same keys, as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def rows_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Some columns of them as text; of many rows the first."""
    return [[_as_text(row[name]) for name in names] for row in rows[:SHOWN_ROWS]]


def _as_text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


class Displayed:
    """Shows itself in a line, and as a table in a notebook."""

    def _brief(self) -> str:
        raise NotImplementedError

    def _sheet(self) -> Sheet:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._brief()}>"

    def _repr_html_(self) -> str:
        return self._sheet().to_html()


class Tabular:
    """A table that pandas, polars and whatever else speaks Arrow can take."""

    def _columns(self) -> Mapping[str, Any]:
        """An array for every column."""
        raise NotImplementedError

    def to_arrow(self) -> "pa.Table":
        """As an Arrow table; polars and DuckDB take the object itself, too."""
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError("an Arrow table", "simulate") from None
        return pa.table({name: pa.array(values) for name, values in self._columns().items()})

    def to_pandas(self) -> "pd.DataFrame":
        """As a data frame of pandas."""
        return as_pandas(self._columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's own way from library to library, without a copy."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def as_pandas(columns: Any) -> "pd.DataFrame":
    """Of columns by name, or of an Arrow table."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("a data frame", "notebook") from None
    return columns.to_pandas() if hasattr(columns, "to_pandas") else pd.DataFrame(dict(columns))


def shortened(count: int, row: Callable[[int], Sequence[str]]) -> list[Sequence[str]]:
    """The rows of a table; of a long one its beginning and its end."""
    if count <= SHOWN_ROWS:
        return [row(place) for place in range(count)]
    half = SHOWN_ROWS // 2
    first, last = ([row(place) for place in part] for part in (range(half), range(count - half, count)))
    return [*first, ["⋮"] * len(first[0]), *last]
