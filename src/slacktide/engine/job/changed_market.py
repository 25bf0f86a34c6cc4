"""Whether a market is still the one on which jobs were begun: its file may have been edited since."""

from __future__ import annotations

import json
from datetime import datetime

from slacktide.core.errors import InputError
from slacktide.engine.job.job_context import market_of
from slacktide.journal.events import SiteOpened
from slacktide.market.base import Market, digest
from slacktide.market.live.feed import Feed, open_feed
from slacktide.market.spec import is_feed


def digest_of(market: Market, spec: str, start_utc: str) -> str:
    """Return the digest of a market that jobs stand on from a moment of it on.

    Of a feed, which grows, it is that of the slots before that moment.
    """
    return digest(market, datetime.fromisoformat(start_utc) if is_feed(spec) else None)


def digest_now(written: str, start_utc: str) -> str:
    """Return the digest of a market as it can be opened now; raises InputError where it cannot."""
    market = market_of(written)
    options = json.loads(written)
    return digest_of(open_feed(**options) if market is None else market, options["spec"], start_utc)


def check_unchanged(site: SiteOpened | None, market: Market) -> None:
    """Raise InputError where the market that was opened is not the one on which a journal's jobs stand.

    Journals of before do not say which that was.
    """
    if site is None or not site.digest:
        return
    spec = json.loads(site.market)["spec"]
    if digest_of(market, spec, site.start_utc) != site.digest:
        raise InputError(
            f"{spec}: the market must stay as it was when the jobs of this journal began, got other numbers; "
            "put the file back as it was, or cancel the job and submit it to another journal"
        )


def market_now(written: str, feed: Feed | None) -> Market | None:
    """Return the market that a job's context was made on; None where no journal names it."""
    if feed is not None:
        return feed.market
    return market_of(written) if written else None


def was_changed(site: SiteOpened | None) -> bool:
    """Whether the market of a site has other numbers now; raises InputError where it cannot be opened."""
    if site is None or not site.digest:
        return False
    return digest_now(site.market, site.start_utc) != site.digest
