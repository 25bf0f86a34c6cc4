"""`slacktide market`: look at spot markets, convert their files, make synthetic ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.commands.market.market_feeds import feeds, follow
from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import journal_option, journal_path
from slacktide.cli.shared.output import ProgressBar, echo_json, print_rich
from slacktide.core.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.app.markets.market_files import Market
    from slacktide.core.register import Spec

FORCE = click.option("--force", is_flag=True, help="Replace OUT if it exists.")
READING = (
    click.option(
        "--slot", "slot_hours", type=common.Duration(), help="Slot length, e.g. 30m; default: the market's."
    ),
    click.option("--sort", is_flag=True, help="Accept rows out of order."),
    click.option(
        "--duplicates",
        type=click.Choice(["refuse", "first", "last"]),
        default="refuse",
        show_default=True,
        help="Which row to keep when a pool has two for one time.",
    ),
    click.option("--spot-usd", type=float, help="Spot USD per GPU-hour, where the file has no price."),
    click.option("--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where the file has none."),
    click.option("--spot-gpus", type=int, help="Spot GPUs available, where the file has prices only."),
    click.option("--gpus-per-instance", type=int, help="GPUs of an instance type that is not known."),
)


def reading(gaps: str) -> Callable[[common.Command], common.Command]:
    """Add the options that say how to read a file, and the default for gaps."""

    def add(command: common.Command) -> common.Command:
        for option in (*reversed(READING), common.gaps_option(gaps)):
            command = option(command)
        return command

    return add


class ShareParam(click.ParamType[float]):
    """A share written as 30% or 0.3."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 <= share < 1.0:
            self.fail(f"a share must be written 30% or 0.3 and be less than 1, got {shown(text)}", param, ctx)
        return share


@click.group()
def market() -> None:
    """Show, import, follow and synthesize spot markets.

    A MARKET is a file (CSV, CSV.gz or Parquet table, SkyPilot trace, AWS price history) or
    synthetic:PROFILE, such as 'synthetic:h100?seed=3&days=14'.
    """


market.add_command(feeds)
market.add_command(follow)


@market.command()
@click.argument("source", metavar="MARKET")
@click.option("--pool", metavar="POOL", help="Only this pool.")
@reading(gaps="hold")
@journal_option
@common.plot_option("Also write a plot")
@common.output_option("table", "json")
def show(
    source: str, pool: str | None, journal: str | None, plot: str | None, output: str, **given: Any
) -> None:
    """Show how often spot is available in MARKET, how long it lasts and what it costs.

    Several pools are compared, with what it costs to move between them. Where MARKET has prices only, what is
    available comes from the journal's own attempts, and is assumed otherwise.
    """
    from slacktide.app.markets.market_files import ReadRequest, read_market
    from slacktide.report.text.tables.market import page
    from slacktide.report.wire.market import as_json

    found = read_market(ReadRequest(source=source, pool=pool, **given), journal=journal_path(journal))
    if output == "json":
        echo_json(as_json(found))
    else:
        print_rich(*page(found))
    if plot is not None:
        from slacktide.report.figures.market import plot_market

        plot_market(found, plot)
        click.echo(f"wrote {plot}", err=True)


@market.command(name="import")
@click.argument("file", metavar="FILE")
@click.argument("out", metavar="OUT")
@reading(gaps="refuse")
@FORCE
def import_(file: str, out: str, force: bool, **given: Any) -> None:
    """Read FILE in any known format and write it to OUT as a table of regular slots.

    Gaps are refused unless you say what they mean, because a table cannot say what was assumed.
    OUT ends in .csv, .csv.gz or .parquet, or in .json for a SkyPilot trace (counts of one pool).
    """
    from slacktide.app.markets.market_files import ReadRequest, import_market

    _print_written(import_market(ReadRequest(source=file, **given), out, force=force), out)


@market.command()
@click.argument("profile", metavar="PROFILE")
@click.argument("out", metavar="OUT")
@click.option("--days", type=float, default=30.0, show_default=True, help="Length in days.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same market.")
@click.option("--slot", "slot_hours", type=common.Duration(), help="Slot length; default: the profile's.")
@click.option("--pools", type=int, default=1, show_default=True, help="Number of pools.")
@FORCE
def synthesize(profile: str, out: str, force: bool, **given: Any) -> None:
    """Make a synthetic market like PROFILE and write it to OUT.

    Profiles: h100, h100-good, h100-scarce, v100, volatile.
    """
    from slacktide.app.markets.market_files import SyntheticRequest, synthesize_market

    _print_written(synthesize_market(SyntheticRequest(profile=profile, **given), out, force=force), out)


@market.command()
@click.argument("source", metavar="MARKET")
@click.option("--pool", metavar="POOL", help="Only this pool.")
@reading(gaps="hold")
@click.option(
    "--forecaster",
    "wanted",
    multiple=True,
    metavar="NAMES",
    help="Names separated by commas, or {name: {parameter: value}}; default: harmonic,seasonal.",
)
@click.option(
    "--horizon", type=click.IntRange(1, 1000), default=12, show_default=True, help="How many slots ahead."
)
@click.option(
    "--warmup",
    type=ShareParam(),
    default="30%",
    show_default=True,
    help="Share of the market to learn from before forecasts are scored.",
)
@common.plot_option("Also write a plot")
@common.output_option("table", "json")
def forecast(
    source: str,
    pool: str | None,
    wanted: tuple[str, ...],
    horizon: int,
    warmup: float,
    plot: str | None,
    output: str,
    **given: Any,
) -> None:
    """Compare forecasters on MARKET and say how far ahead any of them beats persistence."""
    from slacktide.app.markets.market_files import (
        USUAL_FORECASTERS,
        ForecastRequest,
        ReadRequest,
        compare_forecasters,
    )
    from slacktide.report.text.tables.forecasts import page
    from slacktide.report.wire.forecasts import as_json

    request = ForecastRequest(
        market=ReadRequest(source=source, pool=pool, **given),
        forecasters=specs(wanted) if wanted else USUAL_FORECASTERS,
        horizon=horizon,
        warmup_share=warmup,
    )
    with ProgressBar("forecasting") as bar:
        found = compare_forecasters(request, progress=bar)
    if output == "json":
        echo_json(as_json(found))
    else:
        print_rich(*page(found))
    if plot is not None:
        from slacktide.report.figures.forecast import plot_forecasts

        plot_forecasts(found.market.source, found.summary, plot)
        click.echo(f"wrote {plot}", err=True)


def _print_written(found: Market, out: str) -> None:
    """Print what was written, and the assumptions made for it."""
    slots = sum(len(pool) for pool in found.pools)
    pools = "1 pool" if len(found) == 1 else f"{len(found)} pools"
    click.echo(f"wrote {out}: {pools}, {slots} slots of {found.pools[0].slot_hours * 60:.6g} min")
    for sentence in found.assumptions:
        click.echo(f"assumed: {sentence}")


def specs(texts: tuple[str, ...]) -> list[Spec]:
    """Read `--forecaster`: names separated by commas, or `{name: {parameter: value}}`."""
    import yaml

    found: list[Spec] = []
    for text in texts:
        if not text.lstrip().startswith("{"):
            found += [name.strip() for name in text.split(",") if name.strip()]
            continue
        try:
            found.append(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InputError(
                f"--forecaster must be names or {{name: {{parameter: value}}}}, got {shown(text)}"
            ) from error
    return found
