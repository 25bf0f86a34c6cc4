"""The market slot in which a planned job would start: the one in which it would if it were submitted now."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from slacktide.app.markets.market import MarketSpec
from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.types import Job
from slacktide.engine.job.journal_market import same_market, standing
from slacktide.engine.job.placement import stand, start_of, wanted_slot, whole_spec
from slacktide.journal.events import SiteOpened
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.real_path import real_path
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import Pool
from slacktide.market.spec import absolute, is_feed


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """The slot of each pool in which a job would begin."""

    slot: Callable[[Job, Pool], int | None]  # none: as late as leaves the job room, as a run does
    checked: Callable[[Job, Pool, int | None], int] = start_of
    """Returns the slot of a job, if the market reaches from it to the deadline; else raises InputError."""

    def of(self, job: Job, pool: Pool) -> int:
        """Return the slot; raises InputError where the job cannot begin in it."""
        return self.checked(job, pool, self.slot(job, pool))


def at_slot(start: int | None) -> PlannedSlot:
    """Begin in a slot, the same in every pool; None: as late as leaves the job room."""
    return PlannedSlot(lambda job, pool: start)


def as_submitted(
    market: MarketSpec, written: str | None, journal: Path | None
) -> tuple[MarketSpec, PlannedSlot]:
    """Return the market that a job would be on if it were submitted now, and where it would begin.

    `written` is the market that the job file names. A job begins in the slot that was given, else at the
    present of its market, else where a run would. A feed's present is its last row. The present of a recorded
    market is the hour that the journal's controller has reached with the jobs that run on it: later rows are
    not known yet.
    """
    present = None if market.start is not None and not market.shared else _present(market, written, journal)
    on = market if present is None else _on_site(market, present[0])
    if is_feed(on.named(written) or ""):
        return on, PlannedSlot(lambda job, pool: len(pool) - 1, lambda job, pool, slot: len(pool) - 1)
    if present is None:
        return on, PlannedSlot(lambda job, pool: wanted_slot(job, pool, on.start, shared=on.shared))
    site, hours = present
    return on, PlannedSlot(
        lambda job, pool: standing(site, pool, hours).slot,
        lambda job, pool, slot: stand(job, pool, site, hours).slot,
    )


def _on_site(market: MarketSpec, site: SiteOpened) -> MarketSpec:
    """Name the market of a journal's jobs as they do."""
    said = json.loads(site.market)
    return replace(market, source=said.pop("spec"), **said)


def _present(
    market: MarketSpec, written: str | None, journal: Path | None
) -> tuple[SiteOpened, float] | None:
    """Return the journal's market and the hour on its clock, if jobs are under way on this very market.

    The journal is only read. Where there is none, or a damaged one, there is no such present.
    """
    if journal is None or not real_path(journal).exists():
        return None
    try:
        with SqliteStore(journal, create=False) as store:
            state = read_state(store)
        under_way = is_held(journal) and (state.active or state.fleets)
    except SlacktideError:
        return None
    if state.site is None or not under_way or not _is_on(state.site, market, written):
        return None
    return state.site, state.now_hours


def _is_on(site: SiteOpened, market: MarketSpec, written: str | None) -> bool:
    """Whether a job that names this market, or none, would be on that of the journal."""
    named = market.source or written
    try:
        same_market(site, {**({"spec": whole_spec(absolute(named))} if named else {}), **market.options()})
    except InputError:
        return False
    return True
