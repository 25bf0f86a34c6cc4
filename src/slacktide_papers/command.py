"""`slacktide reproduce`: the papers' experiments, as a page with figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import ProgressBar, echo_json

if TYPE_CHECKING:
    from slacktide_papers.budget.rows import BudgetReproduction
    from slacktide_papers.deadline.rows import Reproduction


def experiment_options(folder: str, *, data: str) -> Callable[[common.Command], common.Command]:
    """Add the options that all experiments have."""
    options = (
        click.option("--out", default=folder, type=click.Path(), metavar="DIR", help="Where to write."),
        click.option(
            "--quick", is_flag=True, help="A small version, done in about a minute: to look at, not to cite."
        ),
        click.option(
            "--data", type=click.Path(), metavar="FOLDER", help=f"{data}; default: $SLACKTIDE_DATA."
        ),
        click.option("--seed", type=int, default=0, help="The same seed gives the same numbers."),
        common.on_option,
        click.option("--force", is_flag=True, help="Write into a folder that has other files."),
        common.output_option("table", "json"),
    )

    def add(command: common.Command) -> common.Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.group(short_help="Run the papers' experiments: figures, tables, and which claims hold.")
def reproduce() -> None:
    """Run the experiments of the papers that the policies come from; see what holds."""


@reproduce.command()
@experiment_options("reproduction", data="Real traces to use next to the synthetic markets")
def deadline(
    out: str, quick: bool, data: str | None, seed: int, on: str | None, force: bool, output: str
) -> None:
    """Reproduce Kong et al. 2025: AHAP, AHANP and the online selection against their baselines.

    Utility against the tightness of the deadline, the volatility of the market, the quality of
    forecasts and the parameters, and the convergence of the selection. Writes a page, and a figure
    and a CSV file for each experiment.
    """
    from slacktide.app.planning.spreading import open_spread
    from slacktide_papers.deadline.experiments import reproduce as run
    from slacktide_papers.deadline.page import write_reproduction
    from slacktide_papers.reproduction import check_folder

    folder = Path(out)
    check_folder(folder, force=force)
    with open_spread(on) as spread, ProgressBar("experiments") as bar:
        result = run(quick=quick, seed=seed, data=Path(data) if data else None, progress=bar, spread=spread)
    _print(result, write_reproduction(result, folder), output)


def _print(result: Reproduction, files: list[Path], output: str) -> None:
    from slacktide.report.text.tables.grid import as_text
    from slacktide_papers.deadline.page import as_json
    from slacktide_papers.deadline.words import gains_grid, headline

    if output == "json":
        echo_json({**as_json(result), "files": [str(file) for file in files]})
        return
    _echo([*headline(result), "", *as_text(gains_grid(result.gains)).splitlines(), "", *result.notes], files)


@reproduce.command()
@experiment_options("reproduction-budget", data="Recorded streams (jobs/) and measured speedups (speedups/)")
@click.option(
    "--restart",
    default="30s",
    metavar="DURATION",
    help="Time without progress after a start or a change of width.",
)
@click.option("--node-gpus", type=int, default=4, help="GPUs are rented in nodes of this many.")
@click.option(
    "--provisioning",
    default="90s",
    metavar="DURATION",
    help="Time from requesting a node, from when it is billed, until it is ready.",
)
def budget(
    out: str,
    quick: bool,
    data: str | None,
    restart: str,
    node_gpus: int,
    provisioning: str,
    seed: int,
    on: str | None,
    force: bool,
    output: str,
) -> None:
    """Reproduce Li et al. 2024 and BOA Constrictor's comparison: streams of jobs on an average budget.

    Mean response time against budget for the optimum and its baselines, and completion times against
    autoscaling at equal bills, on recorded streams or a synthetic one, with ideal machines and with those
    that the options describe; then the claim taken apart, where restarts differ by application and speedups
    change while a job trains. Writes a page, and a figure and a CSV file for each experiment.
    """
    from slacktide.app.planning.spreading import open_spread
    from slacktide.core.units import parse_duration_hours
    from slacktide_papers.budget.cases import Machines
    from slacktide_papers.budget.experiments import reproduce as run
    from slacktide_papers.budget.page import write_budget_reproduction
    from slacktide_papers.reproduction import check_folder

    folder = Path(out)
    check_folder(folder, force=force)
    machines = Machines(parse_duration_hours(restart), node_gpus, parse_duration_hours(provisioning))
    traces = Path(data) if data else None
    with open_spread(on) as spread, ProgressBar("experiments") as bar:
        result = run(quick=quick, seed=seed, data=traces, machines=machines, progress=bar, spread=spread)
    _print_budget(result, write_budget_reproduction(result, folder), output)


def _print_budget(result: BudgetReproduction, files: list[Path], output: str) -> None:
    from slacktide.report.text.tables.grid import as_text
    from slacktide_papers.budget.epoch_words import epoch_grid
    from slacktide_papers.budget.findings import headline
    from slacktide_papers.budget.page import as_json
    from slacktide_papers.budget.words import summary_grid

    if output == "json":
        echo_json({**as_json(result), "files": [str(file) for file in files]})
        return
    table = as_text(summary_grid(result.contests)).splitlines()
    parts = as_text(epoch_grid(result.epochs)).splitlines()
    _echo([*headline(result), "", *table, "", *parts, "", *result.notes], files)


def _echo(lines: list[str], files: list[Path]) -> None:
    # Names of traces are in these lines: an escape sequence in one must not reach the terminal.
    for line in lines:
        click.echo("".join(char if char.isprintable() else " " for char in line))
    click.echo(f"Page: {files[0]}; figures and tables next to it ({len(files) - 1} files).")
