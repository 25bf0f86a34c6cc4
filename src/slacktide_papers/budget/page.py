"""The budget experiments as files: one page, a figure and a table of numbers for each experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slacktide_papers.budget import words as texts
from slacktide_papers.budget.epoch_words import epoch_grid
from slacktide_papers.budget.figures import (
    bill_figure,
    epoch_figure,
    machine_figure,
    ratio_figure,
    width_figure,
)
from slacktide_papers.budget.findings import finding, headline
from slacktide_papers.budget.rows import BudgetReproduction
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

FIGURES = {
    "paper": ("paper", "widths"),
    "mixes": ("mixes",),
    "autoscaling": ("autoscaling", "ratios"),
    "machines": ("machines",),
    "epochs": ("epochs",),
}
"""The pictures of each experiment, in order."""


def write_budget_reproduction(result: BudgetReproduction, folder: Path) -> list[Path]:
    """Write all files and return their paths, the page first."""
    figures = _figures(result)
    files = {MARKER: json.dumps(as_json(result), indent=2, allow_nan=False).encode()}
    files |= {f"{name}.png": png for name, png in figures.items()}
    files |= {f"{name}.csv": as_csv(rows).encode() for name, rows in _tables(result).items() if rows}
    files[PAGE] = page(result, figures).encode()
    return write_files(files, folder)


def as_json(result: BudgetReproduction) -> dict[str, Any]:
    """Return what came out as plain values; the points are in the CSV files."""
    return {
        "reproduction": "budget",
        "seed": result.seed,
        "quick": result.quick,
        "machines": result.machines,
        "headline": headline(result),
        "checks": [as_plain(one) for one in result.checks],
        "contests": [as_plain(one) for one in result.contests],
        "costs": [as_plain(one) for one in result.costs],
        "epochs": [as_plain(one) for one in result.epochs],
        "notes": list(result.notes),
    }


def page(result: BudgetReproduction, figures: dict[str, bytes]) -> str:
    """Return the whole page."""
    facts = [f"seed {result.seed}", "quick size: a demonstration, not a measurement"][: 1 + result.quick]
    return document(
        title="Budget experiments, reproduced",
        name="Renting GPUs on a budget",
        task=texts.QUESTION_OF_ALL,
        facts=[" · ".join(facts)],
        verdict=headline(result),
        notes=(texts.WINDOW, *result.notes),
        overview=Overview(
            "Mean completion time over fixed-width's, at equal bills",
            texts.contests_grid(result.contests),
            texts.CONTESTS_NOTE,
        ),
        experiments=[_experiment(name, result, figures) for name in texts.TITLES],
        footer="Made by Slacktide.",
    )


def _experiment(name: str, result: BudgetReproduction, figures: dict[str, bytes]) -> Experiment:
    points = [point for point in result.points if point.experiment == name]
    grids = [texts.points_grid(group) for group in texts.groups(points)]
    if name == "paper":
        grids = [texts.checks_grid(result.checks), *grids]
    if name == "machines":
        grids = [texts.costs_grid(result.costs)]
    if name == "epochs":
        grids = [epoch_grid(result.epochs), *grids]
    title = texts.TITLES[name]
    drawn = [picture(figures[one], f"{title}: {one}") for one in FIGURES[name]]
    return Experiment(name, title, texts.QUESTIONS[name], drawn, finding(name, result), grids)


def _figures(result: BudgetReproduction) -> dict[str, bytes]:
    drawn = {
        name: bill_figure([point for point in result.points if point.experiment == name], result)
        for name in ("paper", "mixes", "autoscaling")
    }
    return {
        **drawn,
        "widths": width_figure(result.widths),
        "ratios": ratio_figure([one for one in result.ratios if one.experiment == "autoscaling"]),
        "machines": machine_figure(result.costs),
        "epochs": epoch_figure(result.epochs),
    }


def _tables(result: BudgetReproduction) -> dict[str, Sequence[NamedTuple]]:
    points = {name: [one for one in result.points if one.experiment == name] for name in texts.TITLES}
    return {
        **points,
        "widths": result.widths,
        "checks": result.checks,
        "ratios": result.ratios,
        "contests": result.contests,
        "costs": result.costs,
        "epoch-contests": result.epochs,
    }
