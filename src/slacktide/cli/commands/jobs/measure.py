"""`slacktide measure`: runs a job for minutes at each width, and prints the lines for its job file."""

from __future__ import annotations

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json
from slacktide.core.errors import InputError, shown

MOST_MINUTES = 24 * 60.0


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@click.option("--widths", metavar="1,2,4", default="", help="Numbers of GPUs; default: 1, 2, 4 and so on.")
@click.option(
    "--minutes",
    type=float,
    default=5.0,
    show_default=True,
    help="Minutes at each width, from the first report on.",
)
@click.option(
    "--speed",
    type=float,
    default=1.0,
    show_default=True,
    help="How many times as fast as real time the hours in JOB pass, as in `run`.",
)
@click.option("--write", is_flag=True, help="Change these lines in JOB; all other lines and comments stay.")
@common.output_option("table", "json")
def measure(job: str, widths: str, minutes: float, speed: float, write: bool, output: str) -> None:
    """Run JOB for minutes at each width, in local processes; print its `work`, `speedup` and `restart`.

    JOB must report its progress. It saves into a temporary folder: its real checkpoints are not touched.
    Anything else it writes is kept. JOB itself is changed only with --write.
    """
    from slacktide.app.measure import Interrupted, MeasureRequest, write_measured
    from slacktide.app.measure import measure as measured
    from slacktide.cli.shared.signals import StopRequests
    from slacktide.report.text.tables import measured as report

    request = MeasureRequest(
        path=job, widths=_widths(widths), hours=_positive("--minutes", minutes, MOST_MINUTES) / 60.0,
        speed=_positive("--speed", speed, 1e6),
    )  # fmt: skip
    try:
        with StopRequests() as stop:
            found = measured(request, report=lambda line: click.echo(line, err=True), stopping=stop)
    except Interrupted as error:
        raise click.exceptions.Abort from error
    if output == "json":
        echo_json(report.as_json(found))
    else:
        click.echo(f"{report.page(found)}\n\n{report.lines(found)}")
    if write:
        write_measured(job, report.keys(found))
        click.echo(f"wrote work, speedup and restart into {job}", err=True)


def _widths(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or not 1 <= len(part) <= 4 or int(part) < 1:
            raise InputError(f"--widths must be whole numbers of GPUs, such as 1,2,4, got {shown(text)}")
    return tuple(int(part) for part in parts)


def _positive(option: str, number: float, most: float) -> float:
    if not 0 < number <= most:
        raise InputError(f"{option} must be > 0 and at most {most:g}, got {number:g}")
    return number
