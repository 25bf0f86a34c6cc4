"""Fitted speedups as a page of text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.budget.fit import Fit, Fitted, Under
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LEAST_SHOWN_SHARE = 0.001  # a point that lies closer to the hull than this is not mentioned
SHOWN = 3  # points under the hull that are named, the farthest


class Study(NamedTuple):
    """One series of measurements, with the forms that were fitted to it."""

    group: Mapping[str, str]
    """What distinguishes this series from the others: the values of the columns that were grouped by."""
    measured: tuple[tuple[float, float], ...]  # widths and rates as measured
    fitted: Fitted

    @property
    def label(self) -> str:
        """Name the series in words."""
        return words.plain(", ".join(self.group.values()), 60)


def yaml_line(speedup: Speedup) -> str:
    """Return the line of a job or fleet file that says how a job scales."""
    if isinstance(speedup, Amdahl):
        return f"speedup: {{amdahl: {speedup.parallel_share:.4g}}}"
    if isinstance(speedup, Power):
        return f"speedup: {{power: {speedup.exponent:.4g}}}"
    if isinstance(speedup, Linear):
        return f"speedup: {{linear: {{alpha: {speedup.alpha:.4g}, beta: {speedup.beta:.4g}}}}}"
    assert isinstance(speedup, Table)
    return f"speedup: {{table: {{{', '.join(f'{gpus:g}: {rate:.4g}' for gpus, rate in speedup.points)}}}}}"


def page(source: str, studies: Sequence[Study]) -> list[RichTable | str]:
    """Return things to print: points and forms of a single series, one line for each of several."""
    if len(studies) > 1:
        said = (f"- {study.label}: {note}" for study in studies for note in notes(study)[:-1])
        return [_overview(source, studies), "", *_many_lines(studies), "", *said]
    (study,) = studies
    about = f", {study.label}" if study.group else ""
    return [
        grid.as_rich(_points(study), title=f"{words.plain(source, 80)}{about}"),
        "",
        grid.as_rich(_forms(study)),
        "",
        *(yaml_line(speedup) for speedup in _speedups(study)),
        "",
        *(f"- {note}" for note in notes(study)),
    ]


def as_json(source: str, studies: Sequence[Study]) -> dict[str, Any]:
    """Return the fits under their documented keys."""
    return {"source": source, "series": [_document(study) for study in studies]}


def notes(study: Study) -> list[str]:
    """Say what the points do not show, and where they are not concave."""
    fitted = study.fitted
    first, widest = fitted.narrowest_gpus, fitted.points[-1][0]
    found = []
    if first > 1:
        found.append(
            f"the narrowest width is {first:g} GPUs, not 1: the table counts it as {first:g} times one GPU, "
            f"so count work in GPU-hours on {first:g} GPUs; the other forms guess what a single GPU would do"
        )
    if far := far_under(fitted):
        points = [
            f"{point.gpus:g} GPUs ({point.speedup:.3g}, {_share(point.share)} under {point.hull_speedup:.3g})"
            for point in far
        ]
        found.append(f"not concave; the hull of the others replaces {words.listed(points, SHOWN)}")
    if fitted.fastest_gpus < widest:
        found.append(
            f"slower beyond {fitted.fastest_gpus:g} GPUs: wider never pays off, and the forms "
            "are fitted up to there"
        )
    found.append(f"the table says nothing beyond {widest:g} GPUs, where the forms guess")
    return found


def far_under(fitted: Fitted) -> list[Under]:
    """Return the points that lie visibly under the hull, the farthest first."""
    return sorted(
        (point for point in fitted.under if point.share >= LEAST_SHOWN_SHARE), key=lambda point: -point.share
    )


def _points(study: Study) -> Grid:
    rows = [
        (gpus, rate, speedup)
        for (gpus, rate), (_, speedup) in zip(study.measured, study.fitted.points, strict=True)
    ]
    table = TableOf(rows)
    table.number("gpus", lambda row: f"{row[0]:g}")
    table.number("measured", lambda row: f"{row[1]:.4g}")
    table.number("speedup", lambda row: f"{row[2]:.2f}")
    table.number("per GPU", lambda row: words.percent(row[2] / row[0]))
    table.number("hull", lambda row: f"{study.fitted.table(row[0]):.2f}")
    for fit in sorted(study.fitted.fits, key=lambda fit: fit.form):
        table.number(fit.form, partial(_fitted_at_width, fit))
    return table.grid()


def _fitted_at_width(fit: Fit, row: tuple[float, float, float]) -> str:
    return f"{fit(row[0]):.2f}"


def _forms(study: Study) -> Grid:
    fitted = study.fitted
    table = TableOf(fitted.fits)
    table.words("form", lambda fit: fit.form)
    table.words("parameter", _parameter)
    table.number("error", lambda fit: _share(fit.error_share))
    table.number("worst", lambda fit: _share(fit.worst_error_share))
    corners = words.count(len(fitted.table.points), "corner")
    worst = max(fitted.table(gpus) / rate - 1 for gpus, rate in fitted.points)
    table.last_row("table", corners, _share(fitted.table_error_share), _share(worst))
    return table.grid(strong=0)


def _overview(source: str, studies: Sequence[Study]) -> RichTable:
    table = TableOf(studies)
    table.words("series", lambda study: study.label, breaks=True)
    table.number("widths", lambda study: f"{study.fitted.points[0][0]:g}–{study.fitted.points[-1][0]:g}")
    table.words("closest", lambda study: f"{study.fitted.fits[0].form} {_parameter(study.fitted.fits[0])}")
    table.number("error", lambda study: _share(study.fitted.fits[0].error_share))
    table.number("worst", lambda study: _share(study.fitted.fits[0].worst_error_share))
    table.number("not concave", _under_hull)
    return grid.as_rich(table.grid(), title=words.plain(source, 80))


def _under_hull(study: Study) -> str:
    far = far_under(study.fitted)
    return f"{len(far)} of {len(study.fitted.points)}" if far else words.NOTHING


def _many_lines(studies: Sequence[Study]) -> list[str]:
    lines = []
    for study in studies:
        closest, *_, table = _speedups(study)
        lines += [f"{study.label}:", f"  {yaml_line(closest)}", f"  {yaml_line(table)}"]
    return lines


def _speedups(study: Study) -> list[Speedup]:
    """Return all fitted forms, the closest first, and the table last."""
    return [*(fit.speedup for fit in study.fitted.fits), study.fitted.table]


def _parameter(fit: Fit) -> str:
    if isinstance(fit.speedup, Linear):
        return (
            f"{fit.speedup.alpha:.3g} n {'+' if fit.speedup.beta >= 0 else '−'} {abs(fit.speedup.beta):.3g}"
        )
    if isinstance(fit.speedup, Amdahl):
        return f"{fit.speedup.parallel_share:.3g}"
    assert isinstance(fit.speedup, Power)
    return f"{fit.speedup.exponent:.3g}"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _document(study: Study) -> dict[str, Any]:
    fitted = study.fitted
    return {
        "group": dict(study.group),
        "narrowest_gpus": int(fitted.narrowest_gpus),
        "fastest_gpus": int(fitted.fastest_gpus),
        "points": [
            {"gpus": int(gpus), "measured": rate, "speedup": speedup, "hull_speedup": fitted.table(gpus)}
            for (gpus, rate), (_, speedup) in zip(study.measured, fitted.points, strict=True)
        ],
        "forms": [
            {
                "form": fit.form,
                "error_share": fit.error_share,
                "worst_error_share": fit.worst_error_share,
                "scale": fit.scale,
                "yaml": yaml_line(fit.speedup),
            }
            for fit in fitted.fits
        ],
        "table": {"error_share": fitted.table_error_share, "yaml": yaml_line(fitted.table)},
        "notes": notes(study),
    }
