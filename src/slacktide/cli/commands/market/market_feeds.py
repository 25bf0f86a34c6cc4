"""`slacktide market follow` and `feeds`: writes live prices into a market table, and lists their sources."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json
from slacktide.core.errors import InputError
from slacktide.core.units import format_count

if TYPE_CHECKING:
    from slacktide.app.markets.follow import FollowStep


@click.command()
@click.argument("feed", metavar="FEED")
@click.option("--zones", metavar="ZONES", help="Zones or regions with commas; default: all of the source's.")
@click.option(
    "--every", type=common.Duration(), default="5m", show_default=True, help="Slot length: a row each."
)
@click.option(
    "--since", type=common.Duration(), default="14d", show_default=True,
    help="How far back a new table begins, if the source has past prices.",
)  # fmt: skip
@click.option(
    "--spot-gpus", type=int, default=16, show_default=True,
    help="Spot GPUs to assume until attempts show otherwise; no source reports it.",
)  # fmt: skip
@click.option("--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where the source has none.")
@click.option("--once", is_flag=True, help="Bring the table up to date and exit.")
@click.option(
    "-o", "--out", required=True, metavar="FILE.csv", help="The table; one that exists is continued."
)
def follow(
    feed: str,
    zones: str | None,
    every: float,
    since: float,
    spot_gpus: int,
    on_demand_usd: float | None,
    once: bool,
    out: str,
) -> None:
    """Keep a market table of the live prices that FEED reports, such as aws:p5.48xlarge.

    Use it as --market feed:FILE.csv while it is being written. It can be stopped or killed at any moment;
    started again, it continues where it stopped and fills the gap if the source has past prices.
    Requests that fail are repeated, at growing intervals. `slacktide market feeds` lists sources.
    """
    from slacktide.app.markets.follow import FollowRequest
    from slacktide.app.markets.follow import follow as follow_on

    request = FollowRequest(
        feed=feed,
        path=out,
        zones=_names(zones),
        every_hours=every,
        since_hours=since,
        spot_gpus=spot_gpus,
        on_demand_usd=on_demand_usd,
    )
    screen = FeedScreen()
    with _ended_by_signals():
        try:
            follow_on(request, screen.show, once=once)
        except KeyboardInterrupt:
            click.echo(f"stopped; {out} is complete up to here, and the same command continues it", err=True)


class FeedScreen:
    """Prints the result of each request: prices when they change, and errors when they begin and end."""

    def __init__(self) -> None:
        self._prices: dict[str, tuple[float, float | None]] = {}
        self._trouble = ""

    def show(self, step: FollowStep) -> None:
        """Print a step."""
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


@click.command()
@click.option(
    "--check", metavar="FEED", help="Check this feed, such as aws:p5.48xlarge, against the contract."
)
@click.option("--zones", metavar="ZONES", help="Zones of which the feed has prices, for --check.")
@common.output_option("table", "json")
def feeds(check: str | None, zones: str | None, output: str) -> None:
    """List the sources of live prices with their settings, or check one against the contract.

    Settings follow a question mark: 'azure:Standard_NC6s_v3?base_url=http://mirror/prices'.
    """
    from slacktide.app.markets.follow import known_feeds

    if check is not None:
        _check(check, _names(zones))
        return
    known = known_feeds()
    if output == "json":
        echo_json(
            [{"name": one.name, "summary": one.summary, "settings": list(one.settings)} for one in known]
        )
        return
    for one in known:
        click.echo(f"{click.style(one.name, bold=True)}\n    {one.summary}")
        click.echo(f"    settings: {', '.join(one.settings)}")


def _check(feed: str, zones: tuple[str, ...]) -> None:
    from slacktide.app.markets.follow import check_feed_named

    check_feed_named(feed, zones)
    click.echo(f"{feed} keeps the contract")


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(","))
    if text is not None and not all(names):
        raise InputError(f"zones must be named between commas, got {text!r:.80}")
    return names if text else ()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: the table is complete at any moment."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
