"""A table before it is drawn: one content for terminal, pipe and page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    """The heading of a column, the side its cells lean to, and whether they may be broken into lines."""

    heading: str
    right: bool = True
    breaks: bool = False
    narrow: str = ""
    """The heading on a terminal, where there is little room; the words of `heading` in lines if not given."""


def left(*headings: str) -> tuple[Column, ...]:
    """Return columns of words, which are never broken."""
    return tuple(Column(heading, right=False) for heading in headings)


def right(*headings: str) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(heading) for heading in headings)


class Grid(NamedTuple):
    """A table of finished text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None  # the row to point out, if one is


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
    """Return the table for a terminal; names are shown as they are, never read as markup."""
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
