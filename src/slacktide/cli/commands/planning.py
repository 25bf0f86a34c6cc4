"""Commands before a run: `init` and `measure` write a job file, `plan` and `backtest` estimate its cost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import (
    check_left_to_server,
    is_remote,
    journal_path,
    place_options,
    server_option,
)
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich, warn, write_files
from slacktide.core.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison

USUAL_DEADLINE = "16h"
MOST_MINUTES = 24 * 60.0


@click.command()
@click.argument("file", type=click.Path(), metavar="[FILE]", required=False)
@click.option("--fleet", is_flag=True, help="A fleet file: jobs that keep arriving, and one budget.")
@click.option("--name", metavar="NAME", help="The job's name, or that of the fleet's first class.")
@click.option("--gpus", metavar="GPU:WIDTHS", default="H100:1..8", help="GPUs to run on.")
@click.option("--work", metavar="WORK", help="E.g. '40 gpu-hours'; default: enough to leave some slack.")
@click.option("--deadline", metavar="WHEN", help="A duration or a time, for a job.  [default: 16h]")
def init(file: str | None, fleet: bool, **given: Any) -> None:
    """Write a commented job file, or with --fleet a fleet file, to start from.

    FILE is job.yaml or fleet.yaml unless given; - prints it instead. Asks nothing, never overwrites a file.
    `slacktide plan` takes the job file as it is, `slacktide budget` the fleet file.
    """
    from slacktide.app.setup.starter import Starter, starter_text, write_starter

    for option in ("work", "deadline"):
        if fleet and given[option] is not None:
            raise InputError(f"--{option} must not be given with --fleet; each class says it in the file")
    printed, usual = file == "-", "fleet.yaml" if fleet else "job.yaml"
    given["deadline"] = given["deadline"] or USUAL_DEADLINE
    wanted = Starter(path=usual if file is None or printed else file, fleet=fleet, **given)
    if printed:
        click.echo(starter_text(wanted), nl=False)
        return
    write_starter(wanted)
    click.echo(f"wrote {wanted.path}")
    click.echo(f"next: slacktide {'budget' if fleet else 'plan'} {wanted.path}", err=True)


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@click.option("--widths", metavar="1,2,4", help="Numbers of GPUs; default: 1, 2, 4 and so on.")
@click.option("--minutes", type=float, default=5.0, help="Minutes at each width, from the first report on.")
@click.option(
    "--speed",
    type=float,
    default=1.0,
    help="How many times as fast as real time the hours in JOB pass, as in `run`.",
)
@click.option("--write", is_flag=True, help="Change these lines in JOB; all other lines and comments stay.")
@common.output_option("table", "json")
def measure(job: str, widths: str | None, minutes: float, speed: float, write: bool, output: str) -> None:
    """Run JOB for minutes at each width, in local processes; print its `work`, `speedup` and `restart`.

    JOB must report its progress. It saves into a temporary folder: its real checkpoints are not touched.
    Anything else it writes is kept. JOB itself is changed only with --write.
    """
    from slacktide.app.measure import Interrupted, MeasureRequest, write_measured
    from slacktide.app.measure import measure as measured
    from slacktide.cli.shared.interruptions import StopRequests
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


def _widths(text: str | None) -> tuple[int, ...]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or not 1 <= len(part) <= 4 or int(part) < 1:
            raise InputError(f"--widths must be whole numbers of GPUs, such as 1,2,4, got {shown(text)}")
    return tuple(int(part) for part in parts)


def _positive(option: str, number: float, most: float) -> float:
    if not 0 < number <= most:
        raise InputError(f"{option} must be > 0 and at most {most:g}, got {number:g}")
    return number


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@common.policy_option("The policy to plan with; default: the job file's")
@click.option("--start", type=int, metavar="SLOT", help="The market slot to start in; default: as in a run.")
@place_options
@common.plot_option("Write a plot")
@common.report_option("Write an HTML page with the plot")
@common.output_option("table", "json")
def plan(job: str, **given: Any) -> None:
    """Estimate what JOB would cost and when it would finish, from simulated futures and recent starts.

    A job that names pools, or one with a policy over pools (roaming-horizon), may move from pool to pool
    unless --pool names one: then it says where to start, and what moving may save.

    Spends nothing. Exits with 3 when the deadline cannot be met, and says which can. Where the journal has
    measured runs of the same name, it says how much work they really were.

    With --server the server makes it, on its own market unless JOB or --market names another.
    """
    request = common.plan_request(job, given)
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import answer_on_server

        answer_on_server(request, given, title="planning")
        return
    from slacktide.app.planning.plan import make_plan
    from slacktide.app.task_requests import local_task
    from slacktide.core.files import write_whole
    from slacktide.report.figures.plan import plot_plan
    from slacktide.report.pages import plan as html
    from slacktide.report.text.tables.plan import page
    from slacktide.report.wire.plan import as_json

    task = local_task(request, common.market_spec(given), journal_path(given["journal"]))
    with ProgressBar("planning") as bar:
        made = make_plan(task, progress=bar)
    if given["output"] == "json":
        echo_json(as_json(made))
    else:
        click.echo(page(made))
    warn(made.assumptions)
    write_files(
        given,
        plot=lambda path: plot_plan(made, path),
        report=lambda path: write_whole(path, html.page(made).encode()),
    )


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.market_options
@common.policies_option("Policies to try, by name, module:Class or {name: {parameter: value}}.")
@click.option(
    "--starts",
    default="24",
    metavar="N|every:2h",
    help="Number of start times, evenly spread, or the time between them.",
)
@click.option(
    "--truth",
    metavar="work=X,speed=Y|random",
    help="What the job really is: X times the work, Y times as fast on all GPUs; or drawn for each start.",
)
@common.sight_option(
    "What a job that may move knows about other pools. feed: all that they offer; tried: their prices, and "
    "whether it got GPUs when it tried."
)
@common.on_option
@server_option
@common.report_option("Write a report with plots")
@common.plot_option("Write a plot")
@click.option("-v", "--verbose", is_flag=True, help="Also print each decision of one typical start, and why.")
@common.output_option("table", "json", "csv")
def backtest(job: str, **given: Any) -> None:
    """Compare policies for JOB on past market data, next to a run with perfect foresight.

    JOB is a YAML file. Without --market the job file's market is used, without --policy the
    common ones and the job's own.

    A job that names pools, or one with a policy over pools (roaming-horizon), may move from pool to pool
    unless --pool names one. Policies that stay are then shown in the pool that was best for them.

    --truth tries a job that differs from its file. A factor may be a range, from which one is drawn for each
    start: work=0.5..2,seed=3. `random` is work=0.5..2. later=0.85 slows the second half down.

    With --server the server does it, on its own market unless JOB or --market names another.
    """
    request = common.backtest_request(job, given)
    if is_remote(given["server"]):
        from slacktide.cli.shared.remote_answers import answer_on_server

        check_left_to_server(("on",))
        text = "decisions" if given["verbose"] else "text"
        answer_on_server(request, given, title="back-testing", text=text)
        return
    from slacktide.app.planning.backtest import run_backtest
    from slacktide.app.planning.spreading import open_spread
    from slacktide.app.task_requests import local_task
    from slacktide.core.files import write_whole
    from slacktide.report.figures.backtest import plot_backtest
    from slacktide.report.pages import backtest as html

    task = local_task(request, common.market_spec(given))
    with open_spread(given["on"]) as spread, ProgressBar("back-testing") as bar:
        result = run_backtest(task, progress=bar, spread=spread)
    _print_backtest(result, given["output"], verbose=given["verbose"])
    write_files(
        given,
        plot=lambda path: plot_backtest(result, path),
        report=lambda path: write_whole(path, html.page(result).encode()),
    )


def _print_backtest(result: Comparison, output: str, *, verbose: bool) -> None:
    from slacktide.report.text.tables import backtest as report
    from slacktide.report.wire import backtest as wire

    detail = result.detail if verbose else ()
    if output == "json":
        echo_json(wire.as_json(result))
    elif output == "csv":
        click.echo(wire.csv_text(result), nl=False)
    elif sys.stdout.isatty():
        print_rich(report.summary_table(result), *(report.decisions_table(run) for run in detail))
    else:
        for text in (report.summary_text(result), *(report.decisions_text(run) for run in detail)):
            click.echo(text)
