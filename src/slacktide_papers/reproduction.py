"""Files of a reproduction: its folder with a marker that says it is ours, the page, and CSV tables."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.core.errors import InputError
from slacktide.core.files import write_whole
from slacktide.report.figures.drawing.style import drawing
from slacktide.report.pages.rendering import render
from slacktide.report.text.tables.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKER = "reproduction.json"  # this file marks a folder as one that we wrote
PAGE = "index.html"


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise InputError when a folder holds something that is not a reproduction."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, got the file {folder}")
    if force or not folder.exists() or (folder / MARKER).exists() or not any(folder.iterdir()):
        return
    raise InputError(
        f"--out must be empty or an earlier reproduction, got {folder}; give --force to write there"
    )


def write_files(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Write all files and return their paths, the page first; each is written whole or not at all."""
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in (PAGE, *sorted(set(files) - {PAGE}))]


class Picture(NamedTuple):
    """A picture inside a page: its title for those who cannot see it, and a PNG in base64."""

    title: str
    data: str


class Overview(NamedTuple):
    """The table that stands before all experiments."""

    heading: str
    table: Grid
    note: str


class Experiment(NamedTuple):
    """One experiment as a page shows it; its numbers are also in NAME.csv."""

    name: str
    title: str
    question: str
    pictures: Sequence[Picture]
    findings: Sequence[str]
    tables: Sequence[Grid]


def document(**values: Any) -> str:
    """Return a whole page; pictures are inside it."""
    return render("reproduction.html", package="slacktide_papers", **values)


def picture(png: bytes, title: str) -> Picture:
    """Return a picture to stand inside a page."""
    return Picture(title, base64.b64encode(png).decode())


def png(draw: Callable[[Figure], None], size: tuple[float, float]) -> bytes:
    """Draw a figure of this size in inches as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        # Without the version of matplotlib in it, the same numbers make the same file.
        figure.savefig(buffer, format="png", dpi=120, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def as_csv(rows: Sequence[NamedTuple]) -> str:
    """Write rows under the names of their fields; infinite numbers and NaN are left empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0]._fields, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(as_plain(row))
    return out.getvalue()


def as_plain(row: NamedTuple) -> dict[str, Any]:
    """Return a row as plain values; infinite numbers and NaN become None."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row._asdict().items()
    }
