"""CSV row by row: slower than Arrow, but it knows the line of every mistake."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from slacktide.core.errors import FileError, listed, shown, unknown_name
from slacktide.market.formats.reading.cells import CellRow


def rows_of(text: str, path: str, first_line: int = 1) -> Iterator[CellRow]:
    """Yield the records of a CSV text, the header first; blank lines are passed over but counted."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = first_line
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield CellRow(line, cells)
            line = first_line + reader.line_num
    except csv.Error as error:
        raise FileError(f"must be well-formed CSV, got: {error}", path=path, line=line) from None


def header_of(
    rows: Iterator[CellRow], wanted: Sequence[str], path: str, optional: Sequence[str] = ()
) -> list[str]:
    """Take the header and return its names; raises FileError unless each wanted one is there once."""
    header = next(rows, None)
    if header is None:
        raise FileError("a table must have a header, got no text", path=path)
    names = [cell.strip() for cell in header.cells]
    problem = header_problem(names, wanted, optional)
    if problem:
        raise FileError(problem, path=path, line=header.number)
    return names


def header_problem(names: Sequence[str], wanted: Sequence[str], optional: Sequence[str] = ()) -> str | None:
    """Say what is wrong with the names of columns: unknown, missing or twice; None if nothing."""
    known = [*wanted, *optional]
    for name in names:
        if name not in known:
            return unknown_name("a column", name, known)
    missing = [name for name in wanted if name not in names]
    if missing:
        return f"column {shown(missing[0])} must exist, got only: {listed(names)}"
    twice = [name for name in known if names.count(name) > 1]
    return f"a column must come once, got {shown(twice[0])} twice" if twice else None
