"""Markets as files: read, imported from other formats, synthesized, written; forecasters compared on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.market.base import Market
from slacktide.market.forecast.score import DEFAULT_WARMUP_SHARE, Scores, named, score
from slacktide.market.formats.skypilot_traces import write_skypilot
from slacktide.market.formats.table import write_table
from slacktide.market.source import open_market
from slacktide.market.synthetic import profile as profile_named
from slacktide.market.synthetic import synthesize
from slacktide.results.comparison import Forecasts
from slacktide.simulation.compare import Progress

ENDINGS = (".csv", ".csv.gz", ".parquet", ".json")  # of files that a market can be written to


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A market, and how to read it where its file leaves something open."""

    source: str  # a file, or `synthetic:PROFILE`
    pool: str | None = None  # only this pool of it
    slot_hours: float | None = None
    gaps: str = "hold"  # what a hole means: refuse, hold or empty
    sort: bool = False  # whether rows may be out of order
    duplicates: str = "refuse"  # which of two rows for one time to keep: refuse, first or last
    spot_usd: float | None = None  # USD per GPU-hour, where the file has no price
    on_demand_usd: float | None = None
    spot_gpus: int | None = None  # what is available, where the file has prices only
    gpus_per_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRequest:
    """A synthetic market like a profile, by its name."""

    profile: str
    days: float = 30.0
    seed: int = 0
    slot_hours: float | None = None  # none: the profile's
    pools: int = 1


def read_market(request: ReadRequest, *, journal: Path | None = None) -> Market:
    """Read a market; of pools with prices only, a journal's own tries say what is available.

    Raises InputError or FileError for what cannot be read.
    """
    found = open_market(
        request.source,
        slot_hours=request.slot_hours,
        gaps=request.gaps,
        unsorted="sort" if request.sort else "refuse",
        duplicates=request.duplicates,
        spot_usd=request.spot_usd,
        on_demand_usd=request.on_demand_usd,
        spot_gpus=request.spot_gpus,
        gpus_per_instance=request.gpus_per_instance,
    )
    if journal is not None:
        from slacktide.app.markets.market import with_spot_seen

        found = with_spot_seen(found, journal)
    return found if request.pool is None else replace(found, pools=(found.pool(request.pool),))


def import_market(request: ReadRequest, out: str, *, force: bool = False) -> Market:
    """Read a market and write it as a table; raises InputError for an `out` that must not be written."""
    check_out(out, force=force)
    found = read_market(request)
    write_market(found, out)
    return found


def synthesize_market(request: SyntheticRequest, out: str, *, force: bool = False) -> Market:
    """Make a synthetic market and write it; raises as `import_market` does."""
    check_out(out, force=force)
    found = synthesize(
        profile_named(request.profile),
        days=request.days,
        seed=request.seed,
        slot_hours=request.slot_hours,
        pools=request.pools,
    )
    write_market(found, out)
    return found


def check_out(out: str, *, force: bool) -> None:
    """Refuse a file before the work is done, not after it."""
    if not out.endswith(ENDINGS):
        raise InputError(f"{out}: OUT must end in {', '.join(ENDINGS)}; add an extension")
    if Path(out).is_dir():
        raise InputError(f"{out}: OUT must be a file, got a folder; name a file in it")
    if Path(out).exists() and not force:
        raise InputError(f"{out}: OUT must not exist yet, found a file; give --force to replace it")


def write_market(found: Market, out: str) -> None:
    """Write a market in the format of the file's ending; raises InputError for one that cannot hold it."""
    if not out.endswith(".json"):
        write_table(found, out)
    elif len(found) > 1:
        raise InputError(f"{out}: a SkyPilot trace holds one pool, got {len(found)}; write a .csv instead")
    else:
        write_skypilot(found.pools[0], out)


USUAL_FORECASTERS: tuple[Spec, ...] = ("harmonic", "seasonal")
"""Those that need no extra package and are fast; `arima` must be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRequest:
    """A market, and which forecasters are tried on it."""

    market: ReadRequest
    forecasters: Sequence[Spec] = USUAL_FORECASTERS
    horizon: int = 12  # how many slots ahead
    warmup_share: float = DEFAULT_WARMUP_SHARE
    """The share of the market that is learned from before forecasts are scored."""


def compare_forecasters(request: ForecastRequest, *, progress: Progress | None = None) -> Forecasts:
    """Score forecasters on every pool of a market, against persistence.

    Raises InputError when a pool is too short for warm-up and horizon, or a forecaster is not known.
    """
    market = read_market(request.market)
    wanted = named(request.forecasters)
    scored: list[Scores] = []
    for number, pool in enumerate(market.pools):
        if progress is not None:
            progress(number, len(market))
        scored.append(score(pool, wanted, horizon=request.horizon, warmup_share=request.warmup_share))
    return Forecasts(market, request.warmup_share, tuple(scored))


__all__ = [
    "Market",
    "ReadRequest",
    "SyntheticRequest",
    "check_out",
    "import_market",
    "read_market",
    "synthesize_market",
    "write_market",
]
