"""Tables of finished text, to be written as plain text, printed by rich, or put on an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rich.table import Table

Item = TypeVar("Item")


class Column(NamedTuple):
    """A column: its heading, whether its cells are aligned right, and whether they may be wrapped."""

    heading: str
    right: bool = True
    breaks: bool = False
    narrow: str = ""
    """The heading on a terminal, where room is short; if empty, `heading` with each word on its own line."""


def left(*headings: str) -> tuple[Column, ...]:
    """Return left-aligned columns, whose cells are never wrapped."""
    return tuple(Column(heading, right=False) for heading in headings)


class Grid(NamedTuple):
    """A table of finished text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None  # the row to point out, if one is


class TableOf(Generic[Item]):
    """Builds a Grid with a row for each item; each column is added with a function from item to cell."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)
        self._columns: list[tuple[Column, list[str]]] = []

    def number(self, heading: str, cell: Callable[[Item], str], *, narrow: str = "") -> None:
        """Add a column of numbers."""
        self._columns.append((Column(heading, narrow=narrow), [cell(item) for item in self._items]))

    def words(
        self, heading: str, cell: Callable[[Item], str], *, breaks: bool = False, narrow: str = ""
    ) -> None:
        """Add a column of words."""
        column = Column(heading, right=False, breaks=breaks, narrow=narrow)
        self._columns.append((column, [cell(item) for item in self._items]))

    def last_row(self, *cells: str) -> None:
        """Add a row below the others, such as their sum; it has a cell for each column declared so far."""
        for (_, column), cell in zip(self._columns, cells, strict=True):
            column.append(cell)

    def grid(self, strong: int | None = None) -> Grid:
        """Return the table, with the row to point out if one is given; -1 is the last one."""
        columns, cells = zip(*self._columns, strict=True)
        rows = tuple(zip(*cells, strict=True))
        return Grid(columns, rows, None if strong is None else range(len(rows))[strong])


def as_text(grid: Grid) -> str:
    """Return the table as aligned plain text, columns two spaces apart: for pipes and logs."""
    from rich.cells import cell_len

    lines = [tuple(column.heading for column in grid.columns), *grid.rows]
    room = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]

    def padded(cell: str, width: int, right: bool) -> str:
        blank = " " * (width - cell_len(cell))
        return blank + cell if right else cell + blank

    return "\n".join(
        "  ".join(
            padded(cell, width, column.right)
            for cell, width, column in zip(line, room, grid.columns, strict=True)
        ).rstrip()
        for line in lines
    )


def as_rich(grid: Grid, *, title: str = "", caption: str = "") -> Table:
    """Return the table for a terminal; cells are shown as they are, never read as markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold") if title else None,
        caption=Text(f"\n{caption}") if caption else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
    )
    for column in grid.columns:
        heading = column.narrow or column.heading.replace(" ", "\n")
        leaning: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(heading, justify=leaning, overflow="fold", no_wrap=not column.breaks)
    for number, row in enumerate(grid.rows):
        table.add_row(*map(Text, row), style="bold" if number == grid.strong else None)
    return table


def printable(*paragraphs: Iterable[str | Grid]) -> list[Any]:
    """Return paragraphs of sentences and tables as things to print, with an empty line between paragraphs.

    What comes from files is never read as markup.
    """
    from rich.text import Text

    things: list[Any] = []
    for paragraph in paragraphs:
        things += [as_rich(part) if isinstance(part, Grid) else Text(part) for part in paragraph]
        things.append("")
    return things[:-1]
