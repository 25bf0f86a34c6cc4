"""Markets that a server cannot know: read here, and sent with a question."""

from __future__ import annotations

from slacktide.app.jobs.submission import checkable
from slacktide.app.markets.market import MarketSpec
from slacktide.core.errors import InputError
from slacktide.core.yaml_tree import read_text
from slacktide.files.job import parse_job
from slacktide.market.base import Market
from slacktide.market.spec import is_feed, is_synthetic, parts_of


def own_market(job: str, market: MarketSpec, *, read_own_way: bool) -> Market | None:
    """Return the market that is named for a job file, or in it, where a server cannot know it; else None.

    A server knows synthetic markets and its own, unless one is to be read in a way of its own. Raises
    InputError for a live feed, and for what cannot be read.
    """
    named = market.source or parse_job(checkable(read_text(job)), path=job).market
    if named is None or (is_synthetic_only(named) and not read_own_way):
        return None
    if is_feed(named):
        raise InputError(
            f"a market for a server must be complete, got the live feed {named}; leave it out for the "
            "server's own, or name its file without 'feed:'"
        )
    return market.open(named)


def is_synthetic_only(named: str) -> bool:
    """Whether a name means synthetic markets alone."""
    return all(is_synthetic(part) for part in parts_of(named))
