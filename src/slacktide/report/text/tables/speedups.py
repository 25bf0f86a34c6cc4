"""Fitted speedups as a page of text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.budget.fit import Fit, Fitted, Under
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LEAST_SHOWN_SHARE = 0.001  # a point that lies closer to the hull than this is not worth a word
SHOWN = 3  # points under the hull that are named, the farthest


class Study(NamedTuple):
    """One series of measurements and what it says."""

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
        listed = ", ".join(
            f"{point.gpus:g} GPUs ({point.speedup:.3g}, {_share(point.share)} under {point.hull_speedup:.3g})"
            for point in far[:SHOWN]
        )
        more = f" and {len(far) - SHOWN} more" if len(far) > SHOWN else ""
        found.append(f"not concave; the hull of the others replaces {listed}{more}")
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
    fits = sorted(study.fitted.fits, key=lambda fit: fit.form)
    columns = right("gpus", "measured", "speedup", "per GPU", "hull", *(fit.form for fit in fits))
    rows = []
    for (gpus, rate), (_, speedup) in zip(study.measured, study.fitted.points, strict=True):
        shares = (f"{speedup:.2f}", words.percent(speedup / gpus), f"{study.fitted.table(gpus):.2f}")
        rows.append((f"{gpus:g}", f"{rate:.4g}", *shares, *(f"{fit(gpus):.2f}" for fit in fits)))
    return Grid(columns, tuple(rows))


def _forms(study: Study) -> Grid:
    rows = [
        (fit.form, _parameter(fit), _share(fit.error_share), _share(fit.worst_error_share))
        for fit in study.fitted.fits
    ]
    corners = words.count(len(study.fitted.table.points), "corner")
    worst = max(study.fitted.table(gpus) / rate - 1 for gpus, rate in study.fitted.points)
    rows.append(("table", corners, _share(study.fitted.table_error_share), _share(worst)))
    columns = (*left("form", "parameter"), *right("error", "worst"))
    return Grid(columns, tuple(rows), strong=0)


def _overview(source: str, studies: Sequence[Study]) -> RichTable:
    columns = (
        Column("series", right=False, breaks=True), *right("widths"), *left("closest"),
        *right("error", "worst", "not concave"),
    )  # fmt: skip
    rows = []
    for study in studies:
        fit, points = study.fitted.fits[0], study.fitted.points
        far = far_under(study.fitted)
        rows.append(
            (
                study.label,
                f"{points[0][0]:g}–{points[-1][0]:g}",
                f"{fit.form} {_parameter(fit)}",
                _share(fit.error_share),
                _share(fit.worst_error_share),
                f"{len(far)} of {len(points)}" if far else words.NOTHING,
            )
        )
    return grid.as_rich(Grid(columns, tuple(rows)), title=words.plain(source, 80))


def _many_lines(studies: Sequence[Study]) -> list[str]:
    lines = []
    for study in studies:
        closest, *_, table = _speedups(study)
        lines += [f"{study.label}:", f"  {yaml_line(closest)}", f"  {yaml_line(table)}"]
    return lines


def _speedups(study: Study) -> list[Speedup]:
    """Return all forms as they would be pasted, the closest first and the table last."""
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
