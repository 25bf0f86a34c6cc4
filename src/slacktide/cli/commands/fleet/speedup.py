"""`slacktide speedup`: what measurements say about how jobs scale."""

from __future__ import annotations

from typing import Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, print_rich
from slacktide.core.errors import InputError, shown


@click.group()
def speedup() -> None:
    """Fit speedups to measured throughput, for job and fleet files."""


@speedup.command()
@click.argument("data", type=click.Path(), metavar="DATA.csv")
@click.option(
    "--group", metavar="COLUMNS", default="", help="One fit for each value of these columns, e.g. model,gpu."
)
@click.option(
    "--where", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value; may be repeated."
)
@click.option("--rate", metavar="COLUMN", help="The column of rates, where its name is not clear.")
@click.option("--time", metavar="COLUMN", help="The column of times to finish, which are inverted.")
@common.plot_option("Also write a plot")
@common.output_option("table", "json")
def fit(data: str, plot: str | None, output: str, **given: Any) -> None:
    """Fit Amdahl's law, a power and a line to DATA.csv, next to the table of its concave hull.

    DATA has a column of widths (gpus) and one of rates (throughput, samples_per_s and the like) or of times
    to finish (minutes, time_to_target_s and the like). Each form is printed as the line to paste into a file.
    """
    from slacktide.app.speedups import FitRequest, fit_measured
    from slacktide.report.text.tables import speedups as report

    group = tuple(name.strip() for name in given["group"].split(",") if name.strip())
    where = _conditions(given["where"])
    fits = fit_measured(
        FitRequest(path=data, where=where, group=group, rate=given["rate"], time=given["time"])
    )
    for name in fits.left_out:
        click.echo(f"left out, only one width was measured: {name}", err=True)
    studies = fits.studies
    if output == "json":
        echo_json(report.as_json(data, studies))
    else:
        print_rich(*report.page(data, studies))
    if plot is not None:
        from slacktide.report.figures.speedup import plot_speedups

        plot_speedups(data, studies, plot)
        click.echo(f"wrote {plot}", err=True)


def _conditions(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--where must be written COLUMN=VALUE, such as gpu=A100, got {shown(text)}")
        if name.strip() in found:
            raise InputError(f"--where must name a column once, got {shown(name.strip())} twice")
        found[name.strip()] = value.strip()
    return found
