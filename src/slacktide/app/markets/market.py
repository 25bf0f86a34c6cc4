"""Which market is meant, as a value: for plans, back-tests, submissions and controllers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from slacktide.market.base import Market, Pool
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.market.spec import is_feed

DEFAULT_MARKET = "synthetic:h100"
_PLACE = ("source", "usual", "pool", "start", "shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSpec:
    """What a user says of a market; what is left out is as the job file, the journal or the market says."""

    source: str | None = None
    """A file, `synthetic:PROFILE`, or `feed:FILE` for one that is still being written."""
    usual: str | None = None  # the market of jobs that name none, as the user's settings say
    pool: str | None = None  # only this pool of it
    slot_hours: float | None = None
    gaps: str | None = None  # what a hole in a trace means: refuse, hold or empty
    spot_usd: float | None = None  # USD per GPU-hour, where the trace has no price
    on_demand_usd: float | None = None
    start: int | None = None  # the slot in which a live run begins; of a market that is shared, its first job
    shared: bool = False
    """Whether other jobs will come later: then a record begins in its middle, so that it lasts for them."""

    def options(self) -> dict[str, str | float]:
        """Return what was said about how to read the source, by the names that readers of markets use."""
        names = [one.name for one in fields(self) if one.name not in _PLACE]
        said = {name: getattr(self, name) for name in names}
        return {name: value for name, value in said.items() if value is not None}

    def named(self, written: str | None) -> str | None:
        """Return the market that is named here, else the one written in a job file, else the usual one."""
        return self.source or written or self.usual

    def open(self, written: str | None = None) -> Market:
        """Open the market that is named here or in a job file, else the usual one, else the default.

        Of one that is still being written it is the past so far.
        """
        named = self.named(written) or DEFAULT_MARKET
        return _opener(named)(
            named,
            slot_hours=self.slot_hours,
            gaps=self.gaps or "hold",
            spot_usd=self.spot_usd,
            on_demand_usd=self.on_demand_usd,
        )


def as_market(market: Market | Pool | str, slot_hours: float | None) -> Market:
    """Return a market given as such, as a pool or by its name, in slots of a length if one is given."""
    if isinstance(market, str):
        return open_market(market, slot_hours=slot_hours)
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    return market if slot_hours is None else resample(market, slot_hours)


def _opener(named: str) -> Callable[..., Market]:
    if is_feed(named):
        from slacktide.market.live.feed import open_feed

        return open_feed
    return open_market
