"""Markets as files: read, imported from other formats, synthesized, written; forecasters compared on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slacktide.app.markets.market import with_spot_seen
from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.market.base import Market
from slacktide.market.forecast.base import forecasters as known_forecasters
from slacktide.market.forecast.score import DEFAULT_WARMUP_SHARE, Scores, named, score
from slacktide.market.formats.skypilot_traces import write_skypilot
from slacktide.market.formats.table import write_table
from slacktide.market.source import open_market
from slacktide.market.synthetic import profile as profile_named
from slacktide.market.synthetic import synthesize
from slacktide.results.comparison import Forecasts
from slacktide.simulation.compare import Progress

ENDINGS = (".csv", ".csv.gz", ".parquet", ".json")  # of files that a market can be written to


def read_market(
    source: str, *, pool: str | None = None, journal: Path | None = None, sort: bool = False, **options: Any
) -> Market:
    """Read a market, or one pool of it; if it has no counts of spot GPUs, use those that a journal saw.

    `sort`: rows may be out of order. Options are those of `open_market`. Raises InputError or FileError for
    a market that cannot be read.
    """
    market = open_market(source, unsorted="sort" if sort else "refuse", **options)
    market = with_spot_seen(market, journal)
    return market if pool is None else replace(market, pools=(market.pool(pool),))


def import_market(source: str, out: str, *, force: bool = False, **options: Any) -> Market:
    """Read a market and write it as a table; raises InputError for an `out` that must not be written."""
    _check_out(out, force=force)
    market = read_market(source, **options)
    _write(market, out)
    return market


def synthesize_market(profile: str, out: str, *, force: bool = False, **options: Any) -> Market:
    """Write a synthetic market of a profile, with the options of `synthesize`; raises as `import_market`."""
    _check_out(out, force=force)
    market = synthesize(profile_named(profile), **options)
    _write(market, out)
    return market


def _check_out(out: str, *, force: bool) -> None:
    """Raise InputError for a file that must not be written, before the work is done and not after it."""
    if not out.endswith(ENDINGS):
        raise InputError(f"{out}: OUT must end in {', '.join(ENDINGS)}; add an extension")
    if Path(out).is_dir():
        raise InputError(f"{out}: OUT must be a file, got a folder; name a file in it")
    if Path(out).exists() and not force:
        raise InputError(f"{out}: OUT must not exist yet, found a file; give --force to replace it")


def _write(market: Market, out: str) -> None:
    """Write a market in the format of the file's ending; raises InputError for one that cannot hold it."""
    if not out.endswith(".json"):
        write_table(market, out)
    elif len(market) > 1:
        raise InputError(f"{out}: a SkyPilot trace holds one pool, got {len(market)}; write a .csv instead")
    else:
        write_skypilot(market.pools[0], out)


USUAL_FORECASTERS = ("harmonic", "seasonal")
"""Those that need no extra package and are fast; `arima` must be named."""


def compare_forecasters(
    market: Market,
    forecasters: Sequence[Spec] = (),
    *,
    horizon: int = 12,
    warmup_share: float = DEFAULT_WARMUP_SHARE,
    progress: Progress | None = None,
) -> Forecasts:
    """Score forecasts up to `horizon` slots ahead on every pool of a market, against persistence.

    Without `forecasters`, the usual ones that are installed are scored. They learn from the first
    `warmup_share` of the market, where nothing is scored. Raises InputError when a pool is too short for that
    and the horizon, or a forecaster is not known.
    """
    wanted = named(forecasters or [name for name in USUAL_FORECASTERS if name in known_forecasters])
    scored: list[Scores] = []
    for number, pool in enumerate(market.pools):
        if progress is not None:
            progress(number, len(market))
        scored.append(score(pool, wanted, horizon=horizon, warmup_share=warmup_share))
    return Forecasts(market, warmup_share, tuple(scored))


__all__ = ["Market", "compare_forecasters", "import_market", "read_market", "synthesize_market"]
