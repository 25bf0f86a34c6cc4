"""A reproduction as files: one page, and a figure and a table of numbers for each experiment."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.errors import InputError
from slacktide.files import write_whole
from slacktide.report import markup, words
from slacktide.report import reproduce_words as tell
from slacktide.report.html import job_facts
from slacktide.report.reproduce_findings import finding
from slacktide.report.reproduce_plot import point_figure, selection_figure

if TYPE_CHECKING:
    from slacktide.backtesting.experiments.rows import Point, Reproduction

MARKER = "reproduction.json"
"""By this file a folder is known as one that we wrote."""
PAGE = "index.html"
PICTURE_CSS = "figure img { display: block; width: 100%; min-width: 42rem; height: auto; }\n"


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise InputError when a folder holds something that is not a reproduction."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, got the file {folder}")
    if force or not folder.exists() or (folder / MARKER).exists() or not any(folder.iterdir()):
        return
    raise InputError(
        f"--out must be empty or an earlier reproduction, got {folder}; give --force to write there"
    )


def write_reproduction(result: Reproduction, folder: Path) -> list[Path]:
    """Write all files and return their paths, the page first; each is written whole or not at all."""
    files = {MARKER: json.dumps(as_json(result), indent=2, allow_nan=False).encode()}
    figures = _figures(result)
    files |= {f"{name}.png": png for name, png in figures.items()}
    files |= {f"{name}.csv": text.encode() for name, text in _tables(result).items()}
    files[PAGE] = page(result, figures).encode()
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in (PAGE, *sorted(set(files) - {PAGE}))]


def as_json(result: Reproduction) -> dict[str, Any]:
    """Return the headline as plain values; the points are in the CSV files."""
    return {
        "reproduction": "deadline",
        "seed": result.seed,
        "quick": result.quick,
        "headline": tell.headline(result),
        "gains": [_plain(gain) for gain in result.gains],
        "selection": [_plain(one) for one in result.chosen],
        "notes": list(result.notes),
    }


def page(result: Reproduction, figures: dict[str, bytes]) -> str:
    """Return the whole page; pictures are inside it."""
    css = resources.files(__package__).joinpath("backtest.css").read_text(encoding="utf-8")
    parts = [_head(result), _gains(result), *(_section(name, result, figures[name]) for name in tell.TITLES)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>Deadline experiments, reproduced</title>\n"
        f"<style>\n{css}{PICTURE_CSS}</style>\n"
        "</head>\n<body>\n" + "\n".join(parts) + "\n<footer>Made by Slacktide. Money is USD.</footer>\n"
        "</body>\n</html>\n"
    )


def _head(result: Reproduction) -> str:
    first, *others = tell.headline(result)
    facts = [f"seed {result.seed}", "quick size: a demonstration, not a measurement"][: 1 + result.quick]
    return "\n".join(
        [
            "<header>",
            markup.paragraph("Reproduction", "kicker"),
            "<h1>Deadline-aware scheduling on spot markets</h1>",
            markup.paragraph(f"{words.task(result.job)}; deadlines vary where it is said.", "asked"),
            markup.paragraph(" · ".join([*job_facts(result.job), *facts]), "facts"),
            f'<div class="verdict">{"".join(map(markup.paragraph, (first, *others)))}</div>',
            markup.bullets(result.notes),
            "</header>",
        ]
    )


def _gains(result: Reproduction) -> str:
    note = (
        "Over all points of experiments 1 and 2; the selection over the scenarios of experiment 5. Largest "
        "and typical (median) gain are relative to the baseline's mean utility; points where it earns less "
        "than 5 % of the clairvoyant's are left out of these two. The last column is the median "
        "difference as a share of the clairvoyant's utility (for the selection: of the best fixed policy's)."
    )
    table = markup.table(tell.gains_grid(result.gains), kind="lines")
    return markup.section("Gains over the baselines", table, markup.paragraph(note, "note"))


def _section(name: str, result: Reproduction, png: bytes) -> str:
    data = base64.b64encode(png).decode()
    picture = f'<img alt="{markup.text(tell.TITLES[name])}" src="data:image/png;base64,{data}">'
    grids = [tell.points_grid(panel) for panel in tell.panels(_of(result.points, name))]
    tables = [markup.table(grid, kind="lines") for grid in grids or [tell.chosen_grid(result.chosen)]]
    return markup.section(
        tell.TITLES[name],
        markup.paragraph(tell.ASKED[name], "note"),
        markup.figure(picture),
        markup.bullets(finding(name, result)),
        markup.folded("Numbers", f"also in {name}.csv", "\n".join(tables)),
    )


def _figures(result: Reproduction) -> dict[str, bytes]:
    drawn = {name: point_figure(_of(result.points, name)) for name in tell.TITLES if name != "selection"}
    return {**drawn, "selection": selection_figure(result)}


def _tables(result: Reproduction) -> dict[str, str]:
    named = {name: _csv(_of(result.points, name)) for name in tell.TITLES if name != "selection"}
    return {
        **named,
        "selection": _csv(result.steps),
        "selection-summary": _csv(result.chosen),
        "gains": _csv(result.gains),
    }


def _of(points: Iterable[Point], experiment: str) -> list[Point]:
    return [point for point in points if point.experiment == experiment]


def _csv(rows: Sequence[NamedTuple]) -> str:
    """Write rows under the names of their fields; what is not a number is left empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0]._fields, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(_plain(row))
    return out.getvalue()


def _plain(row: NamedTuple) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row._asdict().items()
    }
