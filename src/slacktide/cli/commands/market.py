"""`slacktide market`: shows spot markets, converts their files, makes synthetic ones, follows live prices."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import journal_option, journal_path
from slacktide.cli.shared.output import ProgressBar, echo_json, print_plugins, print_rich, write_files
from slacktide.core.errors import InputError, shown
from slacktide.core.units import format_count

if TYPE_CHECKING:
    from slacktide.app.markets.follow import FollowStep
    from slacktide.app.markets.market_files import Market

FORCE = click.option("--force", is_flag=True, help="Replace OUT if it exists.")


def reading(gaps: str) -> Callable[[common.Command], common.Command]:
    """Add the options that say how to read a file, and the default for gaps."""
    return common.together(
        common.gaps_option(gaps),
        common.slot_option,
        click.option("--sort", is_flag=True, help="Accept rows out of order."),
        click.option(
            "--duplicates",
            type=click.Choice(["refuse", "first", "last"]),
            default="refuse",
            help="Which row to keep when a pool has two for one time.",
        ),
        click.option("--spot-usd", type=float, help="Spot USD per GPU-hour, where the file has no price."),
        click.option(
            "--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where the file has none."
        ),
        click.option("--spot-gpus", type=int, help="Spot GPUs available, where the file has prices only."),
        click.option("--gpus-per-instance", type=int, help="GPUs of an instance type that is not known."),
    )


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

    Several pools are compared, with what it costs to move between them. If MARKET has only prices, the
    available GPUs come from the journal's own attempts, or are assumed.
    """
    from slacktide.app.markets.market_files import read_market
    from slacktide.report.figures.market import plot_market
    from slacktide.report.text.tables.market import as_json, page

    found = read_market(source, pool=pool, journal=journal_path(journal), **given)
    if output == "json":
        echo_json(as_json(found))
    else:
        print_rich(*page(found))
    write_files({"plot": plot}, plot=lambda path: plot_market(found, path))


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
    from slacktide.app.markets.market_files import import_market

    _print_written(import_market(file, out, force=force, **given), out)


@market.command()
@click.argument("profile", metavar="PROFILE")
@click.argument("out", metavar="OUT")
@click.option("--days", type=float, default=30.0, help="Length in days.")
@click.option("--seed", type=int, default=0, help="The same seed makes the same market.")
@click.option("--slot", "slot_hours", type=common.Duration(), help="Slot length; default: the profile's.")
@click.option("--pools", type=int, default=1, help="Number of pools.")
@FORCE
def synthesize(profile: str, out: str, force: bool, **given: Any) -> None:
    """Make a synthetic market like PROFILE and write it to OUT.

    Profiles: h100, h100-good, h100-scarce, v100, volatile.
    """
    from slacktide.app.markets.market_files import synthesize_market

    _print_written(synthesize_market(profile, out, force=force, **given), out)


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
@click.option("--horizon", type=click.IntRange(1, 1000), default=12, help="How many slots ahead.")
@click.option(
    "--warmup",
    type=ShareParam(),
    default="30%",
    help="Share of the market to learn from before forecasts are scored.",
)
@common.plot_option("Also write a plot")
@common.output_option("table", "json")
def forecast(source: str, pool: str | None, plot: str | None, output: str, **given: Any) -> None:
    """Compare forecasters on MARKET and say how far ahead any of them beats persistence."""
    from slacktide.app.markets.market_files import compare_forecasters, read_market
    from slacktide.report.figures.forecast import plot_forecasts
    from slacktide.report.text.tables.forecasts import as_json, page

    wanted, horizon, warmup = (given.pop(name) for name in ("wanted", "horizon", "warmup"))
    must = "--forecaster must be names or {name: {parameter: value}}"
    forecasters = common.parse_specs(wanted, must) if wanted else ()
    read = read_market(source, pool=pool, **given)
    with ProgressBar("forecasting") as bar:
        found = compare_forecasters(read, forecasters, horizon=horizon, warmup_share=warmup, progress=bar)
    if output == "json":
        echo_json(as_json(found))
    else:
        print_rich(*page(found))
    source = found.market.source
    write_files({"plot": plot}, plot=lambda path: plot_forecasts(source, found.summary, path))


def _print_written(found: Market, out: str) -> None:
    pools, slots = format_count(len(found), "pool"), sum(len(pool) for pool in found.pools)
    click.echo(f"wrote {out}: {pools}, {slots} slots of {found.pools[0].slot_hours * 60:.6g} min")
    for sentence in found.assumptions:
        click.echo(f"assumed: {sentence}")


@market.command()
@click.argument("feed", metavar="FEED")
@click.option("--zones", metavar="ZONES", help="Zones or regions with commas; default: all of the source's.")
@click.option("--every", type=common.Duration(), default="5m", help="Slot length: a row each.")
@click.option(
    "--since", type=common.Duration(), default="14d",
    help="How far back a new table begins, if the source has past prices."
)  # fmt: skip
@click.option(
    "--spot-gpus", type=int, default=16,
    help="Spot GPUs to assume until attempts show otherwise; no source reports it.",
)  # fmt: skip
@click.option("--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where the source has none.")
@click.option("--once", is_flag=True, help="Bring the table up to date and exit.")
@click.option(
    "-o", "--out", required=True, metavar="FILE.csv", help="The table; one that exists is continued."
)
def follow(
    feed: str, zones: str | None, every: float, since: float, once: bool, out: str, **given: Any
) -> None:
    """Keep a market table of the live prices that FEED reports, such as aws:p5.48xlarge.

    Use it as --market feed:FILE.csv while it is being written. It can be stopped or killed at any moment;
    started again, it continues where it stopped and fills the gap if the source has past prices.
    Requests that fail are repeated, at growing intervals. `slacktide market feeds` lists sources.
    """
    from slacktide.app.markets.follow import FollowRequest
    from slacktide.app.markets.follow import follow as follow_on

    request = FollowRequest(
        feed=feed, path=out, zones=_names(zones), every_hours=every, since_hours=since, **given
    )
    screen = FeedScreen()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends it as Ctrl-C does
    try:
        follow_on(request, screen.show, once=once)
    except KeyboardInterrupt:
        click.echo(f"stopped; {out} is complete up to here, and the same command continues it", err=True)
    finally:
        signal.signal(signal.SIGTERM, before)


class FeedScreen:
    """Prints the result of each request for prices: those that have changed, errors, and when they end."""

    def __init__(self) -> None:
        self._prices: dict[str, tuple[float, float | None]] = {}
        self._trouble = ""

    def show(self, step: FollowStep) -> None:
        at = f"{step.at_utc:%Y-%m-%d %H:%M:%S} UTC"
        if step.error is not None:
            self._trouble = str(step.error)
            click.echo(f"{at}  {self._trouble}; trying again in {step.wait_s:.0f} s", err=True)
            return
        if self._trouble:
            click.echo(f"{at}  the source answers again", err=True)
            self._trouble = ""
        pools, rows = format_count(len(step.latest), "pool"), format_count(step.rows, "row")
        click.echo(f"{at}  {pools}, {rows} written")
        for price in step.latest:
            quoted = price.spot_per_gpu_hour, price.on_demand_per_gpu_hour
            if self._prices.get(price.pool) != quoted:
                on_demand = "" if quoted[1] is None else f"   on demand {quoted[1]:8.4f}"
                click.echo(f"    {price.pool:32} spot {quoted[0]:8.4f}{on_demand}   USD per GPU-hour")
                self._prices[price.pool] = quoted


@market.command()
@click.option(
    "--check", metavar="FEED", help="Check this feed, such as aws:p5.48xlarge, against the contract."
)
@click.option("--zones", metavar="ZONES", help="Zones for which the feed has prices, for --check.")
@common.output_option("table", "json")
def feeds(check: str | None, zones: str | None, output: str) -> None:
    """List the sources of live prices with their settings, or check one against the contract.

    Settings follow a question mark: 'azure:Standard_NC6s_v3?base_url=http://mirror/prices'.
    """
    from slacktide.app.setup.registers import check_feed_named, known_feeds

    if check is not None:
        check_feed_named(check, _names(zones))
        click.echo(f"{check} keeps the contract")
        return
    print_plugins(known_feeds(), output)


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(","))
    if text is not None and not all(names):
        raise InputError(f"zones must be named between commas, got {text!r:.80}")
    return names if text else ()
