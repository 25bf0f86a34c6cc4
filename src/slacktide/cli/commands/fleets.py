"""Commands about fleets: `fleet` and `speedup` make fleet files, `budget` and `simulate` try them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import ProgressBar, echo_json, line_length, print_rich, write_files
from slacktide.core.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.results.fleet import FleetComparison
    from slacktide.results.stream import StreamComparison

SAME_NAMES = (
    "jobs", "count", "arrivals", "sizes", "seed", "budget", "node_gpus", "provisioning_hours",
    "idle_grace_hours", "start", "hours", "periods", "bound",
)  # fmt: skip
"""Options of `simulate` whose values are fields of its request, unchanged."""


@click.group()
def fleet() -> None:
    """Make fleet files."""


@fleet.command()
@click.argument("past", type=click.Path(), metavar="PAST.csv")
@click.option("--by", metavar="COLUMN", help="The column with the kind of a job; guessed by default.")
@click.option("--classes", type=int, default=8, help="Maximum number of classes.")
def learn(past: str, by: str | None, classes: int) -> None:
    """Print a fleet file with the classes, rates, sizes and speedups of the jobs in PAST.csv.

    PAST.csv is a table with a header, separated by commas, bars, tabs or semicolons: for instance
    `sacct -P -o JobID,JobName,Submit,Elapsed,AllocTRES,State`, or an export of Weights & Biases runs. It must
    say when a job was submitted (ISO or epoch), how long it ran, and on how many GPUs. What it cannot say
    is marked UNSURE in the comments.
    """
    from slacktide.app.fleets.past_jobs import fleet_text, learn_fleet

    click.echo(fleet_text(learn_fleet(past, by=by, classes=classes)), nl=False)


@click.group()
def speedup() -> None:
    """Fit speedups to measured throughput, for job and fleet files."""


@speedup.command()
@click.argument("data", type=click.Path(), metavar="DATA.csv")
@click.option("--group", metavar="COLUMNS", help="One fit for each value of these columns, e.g. model,gpu.")
@click.option(
    "--where", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value; may be repeated."
)
@click.option("--rate", metavar="COLUMN", help="The column of rates, where its name is not clear.")
@click.option("--time", metavar="COLUMN", help="The column of times to finish, which are inverted.")
@common.plot_option("Also write a plot")
@common.output_option("table", "json")
def fit(data: str, **given: Any) -> None:
    """Fit Amdahl's law, a power and a line to DATA.csv, next to the table of its concave hull.

    DATA has a column of widths (gpus) and one of rates (throughput, samples_per_s and the like) or of times
    to finish (minutes, time_to_target_s and the like). Each form is printed as the line to paste into a file.
    """
    from slacktide.app.measure import fit_measured
    from slacktide.report.figures.speedup import plot_speedups
    from slacktide.report.text.tables import speedups as report

    group = tuple(name.strip() for name in (given["group"] or "").split(",") if name.strip())
    where = _conditions(given["where"])
    studies, left_out = fit_measured(data, where=where, group=group, rate=given["rate"], time=given["time"])
    for name in left_out:
        click.echo(f"left out, only one width was measured: {name}", err=True)
    if given["output"] == "json":
        echo_json(report.as_json(data, studies))
    else:
        print_rich(*report.page(data, studies))
    write_files(given, plot=lambda path: plot_speedups(data, studies, path))


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


@click.command()
@click.argument("fleet", type=click.Path(), metavar="FLEET")
@click.option(
    "--budget",
    metavar="BUDGET",
    help="Use this budget instead: '20 gpus', '40 usd/hour', '20000 usd/month'.",
)
@click.option(
    "--response",
    "response_hours",
    type=common.Duration(),
    help="Find the cheapest budget for this mean response, e.g. 2h.",
)
@click.option("--continuous", is_flag=True, help="Let widths be any real number, as the theory does.")
@click.option("--frontier", is_flag=True, help="Show what every budget buys, with the widths of every class.")
@common.plot_option("Also plot the frontier")
@common.output_option("table", "json", "csv")
def budget(fleet: str, **given: Any) -> None:
    """Compute how wide each class of FLEET should run on its average budget, and what that buys.

    FLEET is a YAML file: a budget, and classes of jobs that keep arriving. The widths are optimal over all
    ways to run the stream without knowing its future. Exits with 3 when the budget is too small, and says
    what the minimum is.
    """
    from slacktide.app.fleets.budgets import find_budget
    from slacktide.report.figures.budget import plot_budget
    from slacktide.report.text.tables import budget as report
    from slacktide.report.wire.budget import as_json, csv_text

    response_hours = given["response_hours"]
    answer, written = find_budget(fleet, given["budget"], response_hours, integer=not given["continuous"])
    requested = report.RequestedBudget(fleet, written, response_hours)
    if given["output"] == "json":
        echo_json(as_json(answer, requested, frontier=given["frontier"]))
    elif given["output"] == "csv":
        click.echo(csv_text(answer, frontier=given["frontier"]), nl=False)
    elif given["frontier"]:
        print_rich(*report.frontier_page(answer, requested, line_length()))
    else:
        print_rich(*report.page(answer, requested))
    write_files(given, plot=lambda path: plot_budget(answer, requested, path))


@click.command()
@click.argument("fleet", type=click.Path(), metavar="FLEET")
@click.option("--jobs", type=click.Path(), metavar="FILE.csv", help="A table of past jobs.")
@click.option(
    "--count",
    type=int,
    help="Number of jobs to generate without --jobs.  [default: 20000; on a market one budget period's]",
)
@common.policies_option(
    "Allocators to try, by name, module:Class or {name: {parameter: value}}; default: all."
)
@click.option("--arrivals", metavar="poisson|bursty", help="How jobs arrive, instead of what the file says.")
@click.option(
    "--sizes", metavar="exponential|fixed|lognormal|pareto", help="How work differs between jobs of a class."
)
@click.option("--seed", type=int, default=0, help="The same seed gives the same stream.")
@click.option("--budget", metavar="BUDGET", help="Use this budget instead, e.g. '20 gpus'.")
@click.option("--node-gpus", type=int, help="GPUs are rented in nodes of this many.")
@click.option(
    "--provisioning",
    "provisioning_hours",
    type=common.Duration(),
    help="Time from requesting a node until it is ready, e.g. 4m.",
)
@click.option(
    "--idle-grace", "idle_grace_hours", type=common.Duration(), help="How long an idle node is kept, e.g. 5m."
)
@common.market_options
@click.option(
    "--start", type=int, help="Market: the slot in which the jobs' hour 0 is.  [default: by date, or 0]"
)
@click.option(
    "--hours", type=float, help="Market: only jobs of this many hours.  [default: one budget period]"
)
@click.option("--periods", type=float, help="Market: the same in periods of the budget, such as 0.5 or 2.")
@click.option(
    "--csv-jobs",
    type=common.FileEnding(str),
    metavar="FILE.csv",
    help="Market: also write what each job got and why.",
)
@click.option(
    "--bound", is_flag=True, help="Market: also compare with a response that no allocator can beat (slow)."
)
@common.report_option("Market: also write a page with all of it")
@common.plot_option("Also write a plot")
@common.output_option("table", "json", "csv")
def simulate(fleet: str, **given: Any) -> None:
    """Simulate the jobs of FLEET under allocators, compared at equal spending.

    FLEET is a YAML file: a budget, and classes of jobs that keep arriving. A policy given by name only is
    tuned until it actually spends the budget; one with parameters runs as given.

    Where FLEET names a market, its jobs share spot and on-demand GPUs, may have deadlines, and the budget is
    a limit in every period: the first policy is reported in full, the others are tuned to the same spend.
    """
    from slacktide.app.fleets.simulate import run_simulation
    from slacktide.app.fleets.simulate_request import SimulateRequest, read_fleet_file, without_market

    request = SimulateRequest(
        file=read_fleet_file(fleet),
        **{name: given[name] for name in SAME_NAMES},
        policies=common.parse_policies(given["policy"], fleet),
        # `--start` is the slot in which hour 0 of the jobs is, not a slot in which the market begins.
        market=common.market_spec({**given, "start": None}),
    )
    for name, option in (("report", "--report"), ("csv_jobs", "--csv-jobs")):
        if given[name] and not request.on_market:
            raise without_market(option)
    with ProgressBar("simulating") as bar:
        found = run_simulation(request, progress=bar)
    _show_simulation(found, fleet, given)


def _show_simulation(found: StreamComparison | FleetComparison, path: str, given: dict[str, Any]) -> None:
    """Print the result of a simulation, on a market or at one price, and write the requested files."""
    from slacktide.core.files import write_whole
    from slacktide.report.figures.fleet import plot_fleet
    from slacktide.report.figures.stream import plot_streams
    from slacktide.report.pages import fleet as html
    from slacktide.report.text.tables import fleet, streams
    from slacktide.report.wire import fleet as wire
    from slacktide.results.stream import StreamComparison

    files: dict[str, Callable[[str], object]]
    if isinstance(found, StreamComparison):
        page, files = partial(streams.page, found, path), {"plot": partial(plot_streams, found)}
    else:
        page = partial(fleet.page, found, path)
        files = {
            "csv_jobs": lambda out: write_whole(out, wire.jobs_csv(found).encode()),
            "plot": partial(plot_fleet, found),
            "report": lambda out: write_whole(out, html.page(found, path).encode()),
        }
    if given["output"] == "json":
        echo_json(wire.as_json(found, path))
    elif given["output"] == "csv":
        click.echo(wire.policies_csv(found), nl=False)
    else:
        print_rich(*page())
    write_files(given, **files)
