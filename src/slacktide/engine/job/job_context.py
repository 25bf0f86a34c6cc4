"""A live job with everything needed to run it: market, policy, physics, rebuilt from its submission."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job, JobState
from slacktide.engine.job.blocked_jobs import Troubles
from slacktide.engine.job.journal_market import (
    check_unchanged,
    job_in,
    open_written,
    own_slot,
    quote_in,
)
from slacktide.engine.job.retry_limits import USUAL, RetryLimits
from slacktide.files.job import JobFile, submitted_file
from slacktide.journal.events import Sight, Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.market.base import Market, Pool
from slacktide.market.live.feed import Feed
from slacktide.market.tape import MarketView
from slacktide.physics import progress as physics
from slacktide.physics.tariff import Tariff, tariff_of
from slacktide.policies.base import policies
from slacktide.policies.view import Policy
from slacktide.simulation.plain import guarded
from slacktide.simulation.playback import Playback, Setting
from slacktide.simulation.pool_options import PoolOptions


@dataclass(frozen=True, slots=True, eq=False)
class JobContext:
    """Where one job runs and what decides about it."""

    job: Job
    start_slot: int  # the market's slot in which the job was submitted
    origin_hours: float  # when that slot began, on the market's clock
    policy: Policy  # as it runs: behind the guard when the deadline is hard
    tariff: Tariff
    setting: Setting
    pools: PoolOptions
    """Where it may be: several pools for a job that may move; slots are those of the first."""
    all_terms: tuple[physics.Terms, ...]  # the job in each of those pools
    here: int = 0  # which of those pools this is the context of
    file: JobFile | None = None
    patience: RetryLimits = USUAL
    feed: Feed | None = None  # where the quotes keep coming from, for a market that is still being written
    playback: Playback | None = None  # a recorded market, moved on as the job's time passes
    sight: Sight = "feed"

    @property
    def market_pool(self) -> Pool:
        """The pool as it was when the market was opened."""
        return self.pools.pools[self.here]

    @property
    def terms(self) -> physics.Terms:
        """The job in this pool, as bare numbers."""
        return self.all_terms[self.here]

    @property
    def may_move(self) -> bool:
        """Whether the job may be in other pools, too."""
        return not self.pools.stays

    def at(self, pool: int) -> JobContext:
        """Return the context of the same job in another of its pools."""
        return self if pool == self.here else dataclasses.replace(self, here=pool)

    def named(self, pool: str) -> JobContext:
        """Return the context of the same job in a pool of this name; of a job that stays, the only one."""
        return self if pool == self.market_pool.name else self.at(self.index(pool))

    def index(self, pool: str) -> int:
        """Return the number by which states call a pool."""
        return self.pools.index(pool) if self.may_move else 0

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Where the job may be."""
        return tuple(self.pools.names)

    @property
    def home(self) -> Pool:
        """The pool whose slots are counted."""
        return self.pools.pools[0]

    def move_usd(self, state: JobState) -> float:
        """Return what it costs to bring the work done so far to this pool; nothing if the job is in it."""
        if state.pool == self.here or state.progress_gpu_hours <= 0.0:
            return 0.0
        return float(self.pools.places.move_usd[state.pool, self.here])

    @property
    def pool(self) -> Pool:
        """The pool as far as it is known now."""
        return self.market_pool if self.feed is None else self.feed.pool(self.market_pool.name)

    @property
    def slot_hours(self) -> float:
        """How long a slot of the market is."""
        return self.tariff.slot_hours

    @property
    def stops_hours(self) -> float:
        """When the job is stopped even if it is not done; infinite for one that may finish late."""
        return self.terms.deadline_hours if self.job.after_deadline == "stop" else math.inf

    def slot(self, now_hours: float) -> int:
        """Return the market's slot that a time falls in."""
        return self.start_slot + math.floor((now_hours - self.origin_hours) / self.slot_hours + 1e-9)

    def begins(self, slot: int) -> float:
        """Return when a slot of the market begins."""
        return self.origin_hours + (slot - self.start_slot) * self.slot_hours

    def quote(self, slot: int) -> Quote:
        """Return what the market offers to all jobs in one of its slots."""
        if self.feed is None:
            return quote_in(self.market_pool, self.home, slot)
        if not self.may_move:
            return self.feed.quote(self.market_pool.name, slot)
        return self.moment(slot, self.here)[self.here].quote

    def own_slot(self, slot: int) -> int:
        """Return the slot of this pool that runs when a slot of the job's first pool begins."""
        return own_slot(self.market_pool, self.home, slot)

    def worst_quote(self, slot: int) -> Quote:
        """Return the highest prices up to a slot, and the on-demand price for spot where that is higher."""
        slot = self.own_slot(slot)
        past = self.pool.window(0, max(1, min(slot + 1, len(self.pool))))
        on_demand = float(past.on_demand_usd_per_gpu_hour.max())
        spot = max(on_demand, float(past.spot_usd_per_gpu_hour.max()))
        return Quote(spot, on_demand, 0)

    @property
    def warns(self) -> bool:
        """Whether the market, as it was recorded, warns of losses in this pool."""
        return self.playback is not None and self.market_pool.notice_hours > 0.0

    def notice_hours(self, slot: int, state: JobState, from_hours: float, safe_gpus: int) -> float | None:
        """Return in how many hours the market will offer less than `safe_gpus` here; None: no warning."""
        assert self.playback is not None
        hours = self.playback.notice_hours(slot - self.start_slot, state.pool, safe_gpus)
        waited = from_hours - self.begins(slot)
        return hours if hours is None or waited < TIME_TOLERANCE_HOURS else hours - waited

    def moment(self, slot: int, own: int) -> MarketView:
        """Return the market as it is in one of its slots, for a job that is in the pool with number `own`."""
        if self.feed is not None:
            if self.may_move:
                return self.feed.among(self.pool_names, slot, self.start_slot, own)
            return self.feed.at(self.market_pool.name, slot)
        assert self.playback is not None
        return self.playback.at(slot - self.start_slot, own)


def make_context(
    job: Job,
    market: Market,
    pool: Pool,
    policy: Policy,
    start_slot: int,
    file: JobFile | None = None,
    began_hours: float = 0.0,
    feed: Feed | None = None,
    origin_hours: float | None = None,
    pools: PoolOptions | None = None,
    sight: Sight = "feed",
) -> JobContext:
    """Return the context of a job in a pool of a market; its policy is guarded if its deadline is hard.

    It is submitted at `began_hours`, in the slot `start_slot`, which began then or at `origin_hours`. A job
    with `pools` may move among them; `pool` is the first.
    """
    setting = Setting.on(market, pool)
    if pools is not None:
        setting = dataclasses.replace(setting, neighbours=pools.pools[1:])
    usable = PoolOptions.single(job, pool) if pools is None else pools
    terms = tuple(
        physics.terms(one, submitted_hours=began_hours, move_hours=usable.places.move_hours[:, at])
        for at, one in enumerate(usable.places.jobs)
    )
    return JobContext(
        job=job,
        start_slot=start_slot,
        origin_hours=began_hours if origin_hours is None else origin_hours,
        policy=guarded(policy, job),
        tariff=tariff_of(job.billing, pool.slot_hours),
        setting=setting,
        pools=usable,
        all_terms=terms,
        file=file,
        patience=USUAL
        if file is None
        else RetryLimits(*file.retries, silent_s=file.hang_after_hours * 3600.0),
        feed=feed,
        playback=Playback(pool, start_slot, setting) if feed is None else None,
        sight=sight,
    )


def context_of(submitted: Submitted) -> JobContext:
    """Make the context of a job from what the journal says of its submission."""
    return context_from_file(submitted, submitted_file(submitted))


def context_from_file(submitted: Submitted, written: JobFile) -> JobContext:
    """Make the context of a job whose file was read already."""
    file = dataclasses.replace(written, envs={**written.envs, **submitted.envs})
    # A job of a stream has no policy of its own: the stream's policy decides about all of them.
    spec = "on-demand" if submitted.fleet else json.loads(submitted.policy)
    market, feed = open_written(submitted.market)
    pool, policy = market.pool(submitted.pool), policies.make(spec)
    job, pools = file.job, None
    if submitted.pools:
        pools = PoolOptions.of(job, file.gpu, market, submitted.pools)
    elif job.pools:
        job = job_in(job, file.gpu, market, pool.name)
    return make_context(
        job, market, pool, policy, submitted.start_slot, file, submitted.at_hours, feed,
        submitted.origin_hours, pools, submitted.sight,
    )  # fmt: skip


def context_without_market(submitted: Submitted, quote: Quote) -> JobContext:
    """Make the context of a job whose market cannot be opened any more, at the quote it last had.

    That is enough to stop its workers and to pay for them.
    """
    file = submitted_file(submitted)
    slots = submitted.start_slot + 1
    recorded = tuple(
        Pool(
            name,
            submitted.slot_hours,
            np.full(slots, quote.spot_usd_per_gpu_hour),
            np.full(slots, quote.on_demand_usd_per_gpu_hour),
            np.full(slots, quote.spot_gpus),
            gpu=file.gpu,
        )
        for name in submitted.pools or (submitted.pool,)
    )
    market = Market(recorded)
    job = dataclasses.replace(file.job, pools=())
    pools = PoolOptions.of(job, file.gpu, market, submitted.pools) if submitted.pools else None
    return make_context(
        job, market, recorded[0], policies.make("on-demand"), submitted.start_slot, file, submitted.at_hours,
        None, submitted.origin_hours, pools,
    )  # fmt: skip


KEPT_CONTEXTS = 64
"""How many jobs that ended keep their context: the bill of a job is mostly wanted soon after its end."""


class JobContexts:
    """The context of each job by its id."""

    def __init__(
        self, state: JournalState, open_one: Callable[[Submitted], JobContext], troubles: Troubles
    ) -> None:
        self._state, self._open, self._troubles = state, open_one, troubles
        self._found: dict[str, JobContext] = {}

    def __contains__(self, job: object) -> bool:
        return job in self._found

    def add(self, submitted: Submitted) -> JobContext:
        """Open the context of a job that is not in the journal yet."""
        self._found[submitted.job] = self._open(submitted)
        return self._found[submitted.job]

    def drop(self, job: str) -> None:
        """Forget a job that was not accepted after all."""
        del self._found[job]

    def drop_ended(self) -> None:
        """Forget all but the last jobs that ended: a controller may run for months."""
        # The first job of a fleet says which pool and slots its machines are billed in, also after its end.
        needed = {*self._state.unended, *(fleet.first.job for fleet in self._state.fleets.values())}
        for job in [job for job in self._found if job not in needed][:-KEPT_CONTEXTS]:
            del self._found[job]

    def of(self, record: JobRecord) -> JobContext:
        """Return a job's context in the pool to which its workers were ordered, or where it was last.

        Raises InputError if its market or file cannot be opened, or has changed since the job began.
        """
        if record.job not in self._found:
            context = self._open(record.submitted)
            if record.active and record.submitted.market:
                check_unchanged(self._state.site, open_written(record.submitted.market)[0])
            self._found[record.job] = context
        context = self._found[record.job]
        return (
            context.at(record.progress.state.pool)
            if record.holding.order is None
            else context.named(record.holding.order.pool)
        )

    def named(self, job: str) -> JobContext:
        """Return the context of a job that is being submitted or is in the journal."""
        return self._found[job] if job in self._found else self.of(self._state.jobs[job])

    def able(self) -> list[JobRecord]:
        """Return the jobs that can go on; one without its market can only be cancelled, at its last quote."""
        stuck, able = set(self._troubles.having("market")), []
        for record in self._state.active:
            if record.job in stuck and not record.requests.cancelled:
                continue
            if record.job in stuck and record.holding.begun is not None:
                self._found[record.job] = context_without_market(record.submitted, record.holding.begun.quote)
                self._troubles.note(record.job, "market", "")
            able.append(record)
        return able

    def feeds(self) -> Iterator[Feed]:
        """Yield the feed of each open job whose market is still being written."""
        return (context.feed for context in self._found.values() if context.feed is not None)
