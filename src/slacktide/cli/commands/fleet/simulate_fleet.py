"""`slacktide simulate` of a fleet on a market: from options to a question, from the answer to text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.results.fleets.fleet_comparison import FleetComparison

OF_STREAMS = ("node_gpus", "provisioning", "idle_grace")
"""Options of machines that are rented in nodes, which a market knows nothing of."""
OF_MARKETS = (
    "start", "hours", "periods", "report", "csv_jobs", "pool", "slot_hours", "spot_usd", "on_demand_usd"
)  # fmt: skip
"""Options that only a fleet on a market heeds."""


def check_stream_options(given: dict[str, Any]) -> None:
    """Raise InputError for options that need a market, where there is none."""
    for name in (*OF_MARKETS, "bound"):
        if given[name]:
            raise InputError(
                f"{_option(name)} must come with a market, got none; name --market, or 'market:' in the file"
            )


def asked_of_jobs(path: str, file: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a simulation is asked whether there is a market or not."""
    same = {name: given[name] for name in ("jobs", "count", "arrivals", "sizes", "seed")}
    policies = common.parse_policies(given["policy"], path)
    return {"file": file, **same, "budget": given["budget_text"], "policies": policies}


def simulate_on_market(path: str, file: Any, given: dict[str, Any]) -> None:
    """Simulate a fleet on its market and print what came of it."""
    from slacktide.app.fleets.fleet_question import FleetQuestion
    from slacktide.app.fleets.fleets import simulate_fleet

    for name in OF_STREAMS:
        if given[name] is not None:
            must = f"{_option(name)} must not be given with a market, whose GPUs come one by one"
            raise InputError(must)
    question = FleetQuestion(
        **asked_of_jobs(path, file, given),
        market=common.market_spec({**given, "start": None}),
        start=given["start"],
        hours=given["hours"],
        periods=given["periods"],
        bound=given["bound"],
    )
    with ProgressBar("simulating") as bar:
        found = simulate_fleet(question, progress=bar)
    _print(found, path, given["output"])
    _write(found, path, given)


def _option(name: str) -> str:
    spelled = {"slot_hours": "slot"}.get(name, name)
    return f"--{spelled.replace('_', '-')}"


def _print(found: FleetComparison, path: str, output: str) -> None:
    from slacktide.report.text.tables.fleets.fleet import page
    from slacktide.report.wire import fleet as wire

    if output == "json":
        echo_json(wire.as_json(found, path))
    elif output == "csv":
        click.echo(wire.policies_csv(found), nl=False)
    else:
        print_rich(*page(found, path))


def _write(found: FleetComparison, path: str, given: dict[str, Any]) -> None:
    """Write the files that were asked for, and say so."""
    if given["csv_jobs"] is not None:
        from slacktide.report.wire.fleet import write_jobs

        write_jobs(found, given["csv_jobs"])
    if given["plot"] is not None:
        from slacktide.report.figures.fleet import plot_fleet

        plot_fleet(found, given["plot"])
    if given["report"] is not None:
        from slacktide.report.pages.fleet import write_fleet

        write_fleet(found, path, given["report"])
    for name in ("csv_jobs", "plot", "report"):
        if given[name] is not None:
            click.echo(f"wrote {given[name]}", err=True)
