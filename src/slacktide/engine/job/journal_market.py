"""The market that all jobs of a journal share: opens it, checks that it is unchanged, finds a job's slot.

A job that may move uses several of its pools, on one clock.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.journal.events import JournalMade, SiteOpened
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.market.base import Market, Pool, digest
from slacktide.market.live.feed import Feed, open_feed, shared_feed
from slacktide.market.pools.places import job_at, places_of
from slacktide.market.source import open_market
from slacktide.market.spec import is_feed
from slacktide.market.tape import NOT_BEGUN, SAME_TIME_SHARE, first_hours

ANOTHER = "name another journal with --journal"


class MarketPosition(NamedTuple):
    """A slot of a pool, and when it began on the market's clock."""

    slot: int
    origin_hours: float


def standing(site: SiteOpened, pool: Pool, hours: float) -> MarketPosition:
    """Return the slot of a pool at an hour of the clock: the same for all jobs at one moment."""
    ahead = (datetime.fromisoformat(site.start_utc) - pool.start).total_seconds() / 3600.0
    first = ahead / pool.slot_hours
    if abs(first - round(first)) < 1e-6:
        first = round(first)
    slot = math.floor(first + (hours - site.at_hours) / pool.slot_hours + 1e-9)
    return MarketPosition(slot, site.at_hours + (slot - first) * pool.slot_hours)


def same_market(site: SiteOpened, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the journal's market was opened with; raises InputError if `named` differs.

    `named` has only the options that a submission gives; the others stay as the first job set them.
    """
    opened: dict[str, Any] = json.loads(site.market)
    if {**opened, **named} != opened:
        raise InputError(
            f"a journal with unfinished jobs must keep its market, which is {_words(opened)}, got "
            f"{_words({**opened, **named})}; leave the market out, or {ANOTHER}"
        )
    return opened


def make_journal(store: Store) -> None:
    """Give a new journal its own name, which is random; one that has events is left as it is."""
    if store.last_seq() == 0:
        store.append([JournalMade(at_hours=0.0, id=secrets.token_hex(8))])


def check_resumable(state: JournalState) -> None:
    """Raise InputError if unfinished jobs share no market, as in older journals."""
    if state.active and state.site is None:
        names = ", ".join(record.job for record in state.active)
        raise InputError(
            "the unfinished jobs of a journal must share one market, but an earlier version wrote this "
            f"journal and gave each its own: {names}; finish them with that version, or submit them again: "
            f"{ANOTHER}"
        )


def _words(market: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name} {value}" for name, value in market.items() if name != "spec")
    return f"{market['spec']} ({options})" if options else str(market["spec"])


def open_written(written: str) -> tuple[Market, Feed | None]:
    """Open the market that a submission names, and its feed if it is still being written."""
    spec = json.loads(written)["spec"]
    if is_feed(spec):
        feed = shared_feed(written)
        return feed.market, feed
    return _recorded(written, _stamp(spec)), None


@lru_cache(maxsize=8)  # until its file changes
def _recorded(written: str, stamp: tuple[int, ...]) -> Market:
    return open_market(**json.loads(written))


def _stamp(spec: str) -> tuple[int, ...]:
    """Return what distinguishes two states of a market's file; nothing for a market that has none."""
    try:
        now = os.stat(spec)
    except (OSError, ValueError):
        return ()
    return now.st_ino, now.st_size, now.st_mtime_ns


def digest_of(market: Market, spec: str, start_utc: str) -> str:
    """Return the digest of a market; for a feed, which grows, only of the slots before `start_utc`."""
    return digest(market, datetime.fromisoformat(start_utc) if is_feed(spec) else None)


def digest_now(written: str, start_utc: str) -> str:
    """Return the digest of a market as it can be opened now; raises InputError where it cannot."""
    options = json.loads(written)
    spec = options["spec"]
    market = open_feed(**options) if is_feed(spec) else _recorded(written, _stamp(spec))
    return digest_of(market, spec, start_utc)


def check_unchanged(site: SiteOpened | None, market: Market) -> None:
    """Raise InputError if the opened market has other numbers than when the journal's jobs began on it.

    Older journals have no digest to compare with.
    """
    if site is None or not site.digest:
        return
    spec = json.loads(site.market)["spec"]
    if digest_of(market, spec, site.start_utc) != site.digest:
        raise InputError(
            f"{spec}: the market must stay as it was when the jobs of this journal began, got other numbers; "
            "put the file back as it was, or cancel the job and submit it to another journal"
        )


def was_changed(site: SiteOpened | None) -> bool:
    """Whether the market of a site has other numbers now; raises InputError if it cannot be opened."""
    if site is None or not site.digest:
        return False
    return digest_now(site.market, site.start_utc) != site.digest


def usable(job: Job, gpu: str, market: Market) -> tuple[str, ...]:
    """Return the pools that a job may use; raises InputError if it names pools that the market lacks.

    Empty if it names none and the market has several GPU types, but not its own: then it stays in one pool.
    """
    try:
        return tuple(place.pool for place in places_of(job, gpu, market))
    except InputError:
        if job.pools:
            raise
        return ()


def job_in(job: Job, gpu: str, market: Market, name: str) -> Job:
    """Return a job as it is in a pool that it stays in; raises InputError if it may not use the pool."""
    places = {place.pool: place for place in places_of(job, gpu, market)}
    if name not in places:
        raise UnknownNameError("pool", name, places, place="the job may not use this pool: ")
    return job_at(job, places[name])


def own_slot(pool: Pool, home: Pool, slot: int) -> int:
    """Return the slot of a pool that runs when a slot of another one begins; negative before its first."""
    hours = slot * home.slot_hours
    return math.floor((hours - first_hours(pool, home, 0)) / pool.slot_hours + SAME_TIME_SHARE)


def quote_in(pool: Pool, home: Pool, slot: int) -> Quote:
    """Return what a recorded pool offers when a slot of another one begins."""
    if pool is home:
        return pool.quote(slot)
    own = own_slot(pool, home, slot)
    return pool.quote(own) if own >= 0 else NOT_BEGUN


def hours_since(at_hours: float, origin_hours: float, slot_hours: float) -> float:
    """Return a moment in hours since another, rounded to a slot's border if it is as good as there."""
    hours = at_hours - origin_hours
    border = round(hours / slot_hours) * slot_hours
    return border if abs(hours - border) < TIME_TOLERANCE_HOURS else hours
