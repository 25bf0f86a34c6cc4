"""Templates take whatever comes from outside for text, and know every value that they name."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from slacktide.report.pages.rendering import _environment, render
from slacktide.report.text.tables.grid import Column, Grid

from ..conftest import NASTY


def filled(template: str, **values: object) -> str:
    """Fill a template given as text, in the environment of pages."""
    return _environment("slacktide.report.pages").from_string(template).render(values)


def test_text_is_escaped_and_on_one_line() -> None:
    assert filled("{{ name }}", name="<b>\n\x1b[31m'a' & b") == "&lt;b&gt; [31m&#39;a&#39; &amp; b"


def test_a_drawing_stays_as_it_is() -> None:
    template = '{% import "parts.html" as parts %}{{ parts.figure(svg) }}'
    assert "<svg>\n</svg>" in filled(template, svg="<svg>\n</svg>")


def test_a_table_shows_its_cells_colours_and_strong_row() -> None:
    grid = Grid((Column("name", right=False), Column("usd")), ((NASTY, "1"), ("b", "2")), strong=1)
    template = '{% import "parts.html" as parts %}{{ parts.table(grid, ["red", "blue"]) }}'
    told = filled(template, grid=grid)
    assert told.count("<td>") == 2
    assert '<td class="n">2</td>' in told
    assert '<tr class="strong"><td><span class="dot" style="background:blue"></span>b</td>' in told
    assert "<script>" not in told


def test_a_value_that_is_missing_is_a_mistake() -> None:
    with pytest.raises(UndefinedError):
        render("plan.html", title="a plan")
