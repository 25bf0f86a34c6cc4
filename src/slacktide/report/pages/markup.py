"""Small pieces of HTML; everything that came from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from slacktide.report import words
from slacktide.report.tables.grid import Grid


def document(title: str, parts: Iterable[str], *, extra_css: str = "") -> str:
    """Return a whole page that needs nothing else: its style sheet is inside it."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{css}{extra_css}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def text(value: str) -> str:
    """Escape text for a page, on one line and without control characters."""
    return escape(words.plain(value))


def paragraph(sentence: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f"<p{_class(kind)}>{text(sentence)}</p>"


def bullets(sentences: Iterable[str]) -> str:
    """Return a list of plain sentences."""
    return "<ul>" + "".join(f"<li>{text(sentence)}</li>" for sentence in sentences) + "</ul>"


def section(heading: str, *parts: str) -> str:
    """Return a section with its heading."""
    return f"<section>\n<h2>{text(heading)}</h2>\n" + "\n".join(parts) + "\n</section>"


def folded(heading: str, note: str, body: str, colour: str = "") -> str:
    """Return something that opens when its heading is clicked; no script is needed."""
    head = f'{dot(colour)}<strong>{text(heading)}</strong><span class="note">{text(note)}</span>'
    return f"<details>\n<summary>{head}</summary>\n{body}\n</details>"


def figure(svg: str) -> str:
    """Return a drawing that may be moved sideways where the screen is narrow."""
    return f'<figure tabindex="0">\n{svg}\n</figure>'


def dot(colour: str) -> str:
    """Return a spot of a policy's colour."""
    return f'<span class="dot" style="background:{escape(colour)}"></span>' if colour else ""


def table(grid: Grid, *, colours: Sequence[str] = (), kind: str = "") -> str:
    """Return a table of plain text; the first cell of a row may carry a colour."""
    head = "".join(
        f'<th scope="col"{_class("n" if column.right else "")}>{text(column.heading)}</th>'
        for column in grid.columns
    )
    sides = ["n" if column.right else "why" if column.heading == "why" else "" for column in grid.columns]
    rows = [
        f"<tr{_class('strong' if number == grid.strong else '')}>"
        + "".join(
            f"<td{_class(side)}>{dot(colours[number]) if colours and place == 0 else ''}{text(cell)}</td>"
            for place, (cell, side) in enumerate(zip(row, sides, strict=True))
        )
        + "</tr>"
        for number, row in enumerate(grid.rows)
    ]
    return wide(f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>", kind)


def wide(rows: str, kind: str = "") -> str:
    """Return a table that may be moved sideways where the screen is narrow."""
    return f'<div class="{f"wide {kind}".strip()}" tabindex="0"><table>\n{rows}\n</table></div>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
