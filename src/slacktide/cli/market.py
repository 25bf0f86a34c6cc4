"""`slacktide market`: look at spot markets, convert their files, make synthetic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import journal_option, journal_path
from slacktide.cli.market_feeds import feeds, follow
from slacktide.cli.market_forecast import Share, compare, print_scores
from slacktide.cli.market_forecast import as_json as scores_as_json
from slacktide.errors import InputError

if TYPE_CHECKING:
    from slacktide.market.base import Market
    from slacktide.market.statistics import PoolFigures

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
    """Add the options that say how to read a file, and what is done about gaps unless told."""

    def add(command: common.Command) -> common.Command:
        for option in (*reversed(READING), common.gaps_option(gaps)):
            command = option(command)
        return command

    return add


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
    available is what the journal's own tries have shown, and assumed else.
    """
    from slacktide.app.live_prices import with_spot_seen

    found = _only(with_spot_seen(_open(source, given), journal_path(journal)), pool)
    if output == "json":
        common.echo_json(as_json(found))
    else:
        _print(found)
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
    _check_out(out, force)
    _write(_open(file, given), out)


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
    from slacktide.market.profiles import profile as named
    from slacktide.market.synthetic import synthesize as make

    _check_out(out, force)
    _write(make(named(profile), **given), out)


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
    type=Share(),
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
    found = _only(_open(source, given), pool)
    each = compare(found, wanted, horizon, warmup)
    if output == "json":
        common.echo_json(scores_as_json(found, each, warmup))
    else:
        print_scores(found, each)
    if plot is not None:
        from slacktide.forecast.score import overall
        from slacktide.report.figures.forecast import plot_forecasts

        plot_forecasts(found.source, overall(each) if len(each) > 1 else each[0], plot)
        click.echo(f"wrote {plot}", err=True)


BESIDE = (
    "gpu", "region", "spot_now_usd", "on_demand_now_usd", "spot_now_gpus", "half_of_largest_share",
    "largest_share",
)  # fmt: skip
"""What is told of a pool beside its own figures."""


def as_json(found: Market) -> dict[str, Any]:
    """Return the figures of a market in the documented keys."""
    from slacktide.market.side_by_side import largest_gpus, moves_between, side_by_side
    from slacktide.market.statistics import describe

    beside = {one.pool: asdict(one) for one in side_by_side(found)}
    return {
        "source": found.source,
        "assumptions": list(found.assumptions),
        "largest_spot_gpus": largest_gpus(found),
        "moves": [asdict(move) for move in moves_between(found)],
        "pools": [
            {
                "name": pool.name,
                "start": _stamp(pool.start),
                "end": _stamp(pool.end),
                "slot_hours": pool.slot_hours,
                **asdict(describe(pool)),
                **{key: beside[pool.name][key] for key in BESIDE},
            }
            for pool in found.pools
        ],
    }


def _open(source: str, given: dict[str, Any]) -> Market:
    from slacktide.market.source import open_market

    unsorted = "sort" if given.pop("sort") else "refuse"
    return open_market(source, unsorted=unsorted, **given)


def _only(found: Market, pool: str | None) -> Market:
    from dataclasses import replace

    return found if pool is None else replace(found, pools=(found.pool(pool),))


def _stamp(time: Any) -> str:
    return str(time.isoformat()).replace("+00:00", "Z")


def _check_out(out: str, force: bool) -> None:
    """Refuse before the work is done, not after it."""
    kinds = (".csv", ".csv.gz", ".parquet", ".json")
    if not out.endswith(kinds):
        raise InputError(f"{out}: OUT must end in {', '.join(kinds)}; add an extension")
    if Path(out).is_dir():
        raise InputError(f"{out}: OUT must be a file, got a folder; name a file in it")
    if Path(out).exists() and not force:
        raise InputError(f"{out}: OUT must not exist yet, found a file; give --force to replace it")


def _write(found: Market, out: str) -> None:
    from slacktide.market.skypilot import write_skypilot
    from slacktide.market.table import write_table

    if not out.endswith(".json"):
        write_table(found, out)
    elif len(found) > 1:
        raise InputError(f"{out}: a SkyPilot trace holds one pool, got {len(found)}; write a .csv instead")
    else:
        write_skypilot(found.pools[0], out)
    slots = sum(len(pool) for pool in found.pools)
    pools = "1 pool" if len(found) == 1 else f"{len(found)} pools"
    click.echo(f"wrote {out}: {pools}, {slots} slots of {found.pools[0].slot_hours * 60:.6g} min")
    for sentence in found.assumptions:
        click.echo(f"assumed: {sentence}")


_COLUMNS = (
    "days",
    "GPUs",
    "any",
    "half",
    "full",
    "losses a day",
    "median up",
    "mean up",
    "mean down",
    "USD per GPU-hour",
    "of on demand",
)


def _print(found: Market) -> None:
    """Print all about one pool, or several side by side."""
    from slacktide.report.tables import pools

    (_describe if len(found) == 1 else _compare)(found)
    common.show(*pools.stock_words(found.pools), *(f"assumed: {sentence}" for sentence in found.assumptions))


def _describe(found: Market) -> None:
    from rich.table import Table

    from slacktide.market.statistics import describe

    table = Table(title=_title(found), title_justify="left")
    table.add_column("pool", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=title not in ("losses a day", "of on demand"))
    for pool in found.pools:
        table.add_row(pool.name, *_cells(describe(pool)))
    common.show(
        table, "any, half, full: share of time with at least one, half, all of the most GPUs ever available"
    )


def _compare(found: Market) -> None:
    """Print the pools side by side, and what moves between them cost."""
    from slacktide.market.side_by_side import largest_gpus, moves_between, side_by_side
    from slacktide.report.tables import grid, pools

    most = largest_gpus(found)
    table = grid.as_rich(pools.beside(side_by_side(found), most), title=_title(found))
    common.show(table, pools.beside_words(most), *pools.moves_words(moves_between(found)))
    click.echo("More about one of them: --pool NAME.")


def _title(found: Market) -> str:
    begin, end = min(pool.start for pool in found.pools), max(pool.end for pool in found.pools)
    slot = found.pools[0].slot_hours * 60
    return f"{found.source}: {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, slots of {slot:.4g} min"


def _cells(figures: PoolFigures) -> list[str]:
    low, mean, high = figures.spot_min_usd, figures.spot_mean_usd, figures.spot_max_usd
    return [
        f"{figures.hours / 24:.1f}",
        f"{figures.max_spot_gpus}",
        f"{figures.any_share:.0%}",
        f"{figures.half_share:.0%}",
        f"{figures.full_share:.0%}",
        f"{figures.losses_per_day:.1f}",
        _span(figures.up_median_hours),
        _span(figures.up_mean_hours),
        _span(figures.down_mean_hours),
        f"{mean:.2f}" if low == high else f"{mean:.2f} ({low:.2f}..{high:.2f})",
        "-" if figures.price_share is None else f"{figures.price_share:.0%}",
    ]


def _span(hours: float | None) -> str:
    if hours is None:
        return "-"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"
