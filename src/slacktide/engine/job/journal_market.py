"""The one market of a journal: which it is, and at which of its slots a job that is submitted stands."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from slacktide.core.errors import InputError
from slacktide.journal.events import JournalMade, SiteOpened
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.market.base import Pool

ANOTHER = "name another journal with --journal"


class MarketPosition(NamedTuple):
    """Where a job stands in a pool: its slot, and when that began on the market's clock."""

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
    """Return what the journal's market was opened with; raises InputError where another one is named.

    `named` holds only what the submission says; what it leaves open is as the first job said.
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
    """Raise InputError where jobs go on that stand on no common market, as in journals of before."""
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
