"""On a narrow screen nothing of a table is cut off."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from slacktide.report.printing import fitting

WORDS = ("fixed-width", "10h53m12s", "14.95 ($42.15/h)", "1.000")


def wide_table() -> Table:
    """A table of words that must not be broken."""
    table = Table(title="a market\nof some days")
    for heading in ("policy", "mean re-\nsponse", "average GPUs", "× optimum"):
        table.add_column(heading, no_wrap=True)
    table.add_row(*WORDS)
    table.add_row("other", "1h", "2", "3")
    return table


@pytest.mark.parametrize("width", [40, 60, 100])
def test_every_word_is_there_at_any_width(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(fitting(wide_table(), console))
    for word in (*WORDS, "average GPUs", "other"):
        assert word in out.getvalue(), out.getvalue()


def test_a_heading_that_was_divided_is_whole_again() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40)
    console.print(fitting(wide_table(), console))
    assert "mean response" in out.getvalue()


def test_what_fits_is_left_as_it_is() -> None:
    console, table = Console(file=io.StringIO(), width=100), wide_table()
    assert fitting(table, console) is table
    assert fitting("text", console) == "text"
