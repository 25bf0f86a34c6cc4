"""Print rich tables and texts: wide into a pipe, and without cut words on a narrow screen."""

from __future__ import annotations

import io

from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from slacktide.report.terminal import PIPE_LENGTH

ANY_WIDTH = 10_000


def rendered(*things: object) -> str:
    """Return rich objects as the plain text that goes into a pipe; long lines are not wrapped."""
    out = io.StringIO()
    console = Console(file=out, width=PIPE_LENGTH, highlight=False, soft_wrap=True)
    for thing in things:
        console.print(thing)
    return out.getvalue()


def fitting(thing: object, console: Console) -> object:
    """Return a table that is too wide for the console as a list of its rows; anything else unchanged."""
    if not isinstance(thing, Table):
        return thing
    needed = Measurement.get(console, console.options.update(width=ANY_WIDTH), thing).minimum
    return thing if needed <= console.width else _stacked(thing)


def _stacked(table: Table) -> Group:
    """Write each row as a list of headings and values below the row's first value."""
    heads = [_line(column.header) for column in table.columns]
    parts: list[object] = [Text(f"{_line(table.title)}\n")] if table.title else []
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        row = Table.grid(padding=(0, 2))
        for head, cell in zip(heads[1:], others, strict=True):
            row.add_row(f"  {head}", cell)
        parts += [first, row, ""]
    if table.caption:
        parts.append(_line(table.caption))
    return Group(*parts)  # type: ignore[arg-type]


def _line(text: object) -> str:
    """Return a heading on one line; a word that was hyphenated is joined again."""
    return " ".join(str(text).replace("-\n", "").split())
