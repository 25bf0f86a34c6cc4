"""A job with all that is needed to run it: market, policy, physics. Made anew from its submission."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from slacktide import physics
from slacktide.backtesting.compare import guarded, setting_for
from slacktide.backtesting.plain import LATE, Setting, look
from slacktide.engine.feed import Feed, is_feed, open_feed
from slacktide.engine.patience import USUAL, Patience
from slacktide.events import Submitted
from slacktide.jobfile import JobFile
from slacktide.jobfile.reading import parse_job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.policy.base import policies
from slacktide.types import Allocation, Job, JobState, Policy, Quote


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Where one job runs and how it is decided."""

    job: Job
    market_pool: Pool
    start_slot: int
    policy: Policy
    """As it runs: behind the guard when the deadline is hard."""
    terms: physics.Terms
    setting: Setting
    file: JobFile | None = None
    patience: Patience = USUAL
    feed: Feed | None = None
    """Where the pool's quotes keep coming from, for a market that is still being written."""

    @property
    def pool(self) -> Pool:
        """The pool as far as it is known now."""
        return self.market_pool if self.feed is None else self.feed.pool(0)

    def slot(self, hours: float) -> int:
        """Return the slot that hours since the job began fall in."""
        return math.floor(hours / self.terms.slot_hours + 1e-9)

    def quote(self, slot: int) -> Quote:
        """Return what the market offers in a slot of the job."""
        return self._pool_at(slot).quote(self.start_slot + slot)

    def _pool_at(self, slot: int) -> Pool:
        return self.market_pool if self.feed is None else self.feed.pool(self.start_slot + slot)

    def decide(self, state: JobState, slot: int, memory: tuple[float, ...]) -> Allocation:
        """Ask the policy; past the deadline the termination configuration holds, as in a back-test."""
        if slot >= self.terms.deadline_slots:
            return Allocation(0, self.terms.fastest, reason=LATE)
        return self.policy.decide(
            look(self.job, self._pool_at(slot), self.setting, state, self.start_slot, slot, memory)
        )


def make_lane(
    job: Job, market: Market, pool: Pool, policy: Policy, start_slot: int, file: JobFile | None = None
) -> Lane:
    """Put a job on a pool of a market, under a policy that is guarded where it must be."""
    return Lane(
        job,
        pool,
        start_slot,
        guarded(policy, job),
        physics.terms(job, pool.slot_hours),
        setting_for(market, pool, None),
        file,
        USUAL if file is None else _patience(file),
    )


def _patience(file: JobFile) -> Patience:
    return Patience(*file.retries, silent_s=file.hang_after_hours * 3600.0)


def lane_of(submitted: Submitted) -> Lane:
    """Make the lane of a job from what the journal says of its submission."""
    now = datetime.fromisoformat(submitted.submitted_utc)
    written = parse_job(submitted.text, path=submitted.path, now=now)
    file = dataclasses.replace(written, envs={**written.envs, **submitted.envs})
    market = _market(submitted.market)
    # A job of a stream has no policy of its own: the stream's policy decides about all of them.
    spec = "on-demand" if submitted.fleet else json.loads(submitted.policy)
    policy = policies.make(spec)
    lane = make_lane(file.job, market, market.pool(submitted.pool), policy, submitted.start_slot, file)
    options = json.loads(submitted.market)
    if not is_feed(options["spec"]):
        return lane
    return dataclasses.replace(lane, feed=Feed(pool=submitted.pool, **options))


@lru_cache(maxsize=8)
def _market(written: str) -> Market:
    options = json.loads(written)
    return open_feed(**options) if is_feed(options["spec"]) else open_market(**options)
