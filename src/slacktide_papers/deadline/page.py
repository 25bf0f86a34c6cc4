"""The deadline experiments as files: one page, and a figure and a table of numbers for each experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slacktide.report import words
from slacktide.report.pages.rendering import job_facts
from slacktide_papers.deadline import words as texts
from slacktide_papers.deadline.figures import point_figure, selection_figure
from slacktide_papers.deadline.findings import finding
from slacktide_papers.deadline.rows import Point, Reproduction
from slacktide_papers.reproduction import (
    MARKER,
    PAGE,
    Experiment,
    Overview,
    as_csv,
    as_plain,
    document,
    picture,
    write_files,
)


def write_reproduction(result: Reproduction, folder: Path) -> list[Path]:
    """Write all files and return their paths, the page first; each is written whole or not at all."""
    files = {MARKER: json.dumps(as_json(result), indent=2, allow_nan=False).encode()}
    figures = _figures(result)
    files |= {f"{name}.png": png for name, png in figures.items()}
    files |= {f"{name}.csv": text.encode() for name, text in _tables(result).items()}
    files[PAGE] = page(result, figures).encode()
    return write_files(files, folder)


def as_json(result: Reproduction) -> dict[str, Any]:
    """Return the headline as plain values; the points are in the CSV files."""
    return {
        "reproduction": "deadline",
        "seed": result.seed,
        "quick": result.quick,
        "headline": texts.headline(result),
        "gains": [as_plain(gain) for gain in result.gains],
        "selection": [as_plain(one) for one in result.chosen],
        "notes": list(result.notes),
    }


GAINS_NOTE = (
    "Over all points of experiments 1 and 2; the selection over the scenarios of experiment 5. Largest "
    "and typical (median) gain are relative to the baseline's mean utility; points where it earns less "
    "than 5 % of the clairvoyant's are left out of these two. The last column is the median "
    "difference as a share of the clairvoyant's utility (for the selection: of the best fixed policy's)."
)


def page(result: Reproduction, figures: dict[str, bytes]) -> str:
    """Return the whole page; pictures are inside it."""
    facts = [f"seed {result.seed}", "quick size: a demonstration, not a measurement"][: 1 + result.quick]
    return document(
        title="Deadline experiments, reproduced",
        name="Deadline-aware scheduling on spot markets",
        task=f"{words.task(result.job)}; deadlines vary where it is said.",
        facts=[" · ".join([*job_facts(result.job), *facts])],
        verdict=texts.headline(result),
        notes=result.notes,
        overview=Overview("Gains over the baselines", texts.gains_grid(result.gains), GAINS_NOTE),
        experiments=[_experiment(name, result, figures[name]) for name in texts.TITLES],
        footer="Made by Slacktide. Money is USD.",
    )


def _experiment(name: str, result: Reproduction, png: bytes) -> Experiment:
    grids = [texts.points_grid(panel) for panel in texts.panels(_of(result.points, name))]
    title = texts.TITLES[name]
    tables = grids or [texts.chosen_grid(result.chosen)]
    return Experiment(
        name, title, texts.QUESTIONS[name], [picture(png, title)], finding(name, result), tables
    )


def _figures(result: Reproduction) -> dict[str, bytes]:
    drawn = {name: point_figure(_of(result.points, name)) for name in texts.TITLES if name != "selection"}
    return {**drawn, "selection": selection_figure(result)}


def _tables(result: Reproduction) -> dict[str, str]:
    named = {name: as_csv(_of(result.points, name)) for name in texts.TITLES if name != "selection"}
    return {
        **named,
        "selection": as_csv(result.steps),
        "selection-summary": as_csv(result.chosen),
        "gains": as_csv(result.gains),
    }


def _of(points: Iterable[Point], experiment: str) -> list[Point]:
    return [point for point in points if point.experiment == experiment]
