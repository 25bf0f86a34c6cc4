"""The engine: look, decide, write, act.

`Engine.step(now)` is all there is to running jobs. It neither sleeps nor reads a clock: whoever
calls it owns the time, so a test lives through a week in milliseconds and the live loop is a few lines
round it. What a step found and decided is written into the journal as one batch, and only then
acted on; whatever is killed in between, the next engine reads the same journal and does the rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low

from slacktide.allocators.site.spot import Claim, Spot
from slacktide.backends.base import Backend, BackendStatus, Preemptable, Renter
from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState, Order
from slacktide.engine.capacity import scarce_spot
from slacktide.engine.failures_and_ends import has_no_trace, vanished
from slacktide.engine.fleet.admission import check_admitted
from slacktide.engine.fleet.fleets import FleetRun, Fleets, class_of, open_fleet
from slacktide.engine.fleet.step import FleetStep
from slacktide.engine.holding import note_held
from slacktide.engine.job.account import Account, account, money_ends
from slacktide.engine.job.availability import SpotSeen
from slacktide.engine.job.blocked_jobs import Troubles, said
from slacktide.engine.job.changed_market import check_unchanged, digest_now, market_now
from slacktide.engine.job.job_context import JobContext, lane_of, lane_without_market
from slacktide.engine.job.launch_spec import launch_of
from slacktide.engine.job.pace_learning import Watched
from slacktide.engine.step import take_step
from slacktide.journal.events import ClockJumped, Event, FeedTroubled, Record, SiteOpened, Submitted
from slacktide.journal.state.fleet_record import key_of
from slacktide.journal.state.journal_state import NOTHING, Begun, Holding, JobRecord, JournalState
from slacktide.journal.state.snapshots import is_due, keep, known
from slacktide.journal.store.base import Store

KEPT_LANES = 64
"""How many jobs that ended keep their lane at hand: whoever asks for a bill or a picture asks soon."""
STEPS_A_SLOT = 3
"""A market that runs faster than this many steps a slot waits for them: every slot is seen."""
STEPS_IN_RESERVE = 2
GAPS_KEPT = 5


class Engine:
    """Runs the jobs of one journal on one back end."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        open_lane: Callable[[Submitted], JobContext] = lane_of,
        open_fleet: Callable[[Submitted], FleetRun] = open_fleet,
        notice_s: float = 0.0,
        world: JournalState | None = None,
    ) -> None:
        """Read the journal; `notice_s` is how long before the market takes workers they are told.

        `world` is what was read of it already.
        """
        self.world = known(store) if world is None else world
        self.store, self.backend = store, backend
        self.facts: Mapping[str, BackendStatus] = {}
        """What the back end said at the last step."""
        self.watched: dict[str, Watched] = {}
        """What the present workers of each job were seen to report."""
        self.releasing = False
        """Whether everything is to be let go."""
        self.spot = Spot()
        """Who holds spot now."""
        self._open_lane = open_lane
        self._notice_s = notice_s
        self._lanes: dict[str, JobContext] = {}
        self.troubles = Troubles()
        """What keeps single jobs from going on."""
        self.fleets = Fleets(store, self.world, lambda track: self.lane(track).terms, open_fleet)
        self._behind = False
        self._acted: set[str] = set()
        """The jobs whose order was carried out in this step."""
        self._stepped_hours = math.inf
        self._gaps: deque[float] = deque([0.0], maxlen=GAPS_KEPT)
        """How long lay between two steps, on the market's clock."""
        self._kept_seq = self.world.seq
        self._spot_seen: SpotSeen | None = None
        """What our tries showed of spot; nobody asks before there is a market that does not tell it."""
        self.hear()

    # ---------------------------------------------------------------- what others may call

    def submit(self, submitted: Submitted) -> JobContext:
        """Take a job in: it is written only when it can be run here. The first one fixes all jobs' market.

        Raises InfeasibleError where its fleet cannot promise what it asks for.
        """
        self._forget()
        lane = self._lanes[submitted.job] = self._open_lane(submitted)
        try:
            told = _told(submitted, lane)
            if told.fleet:
                check_admitted(self, told)
            self.backend.enter(launch_of(submitted.job, lane.file))
            self.write([*self._opening(submitted, lane), told])
        except BaseException:
            del self._lanes[submitted.job]
            if submitted.fleet and key_of(submitted) not in self.world.fleets:
                self.fleets.forget(key_of(submitted))
            raise
        return lane

    def recover(self) -> None:
        """Compare the journal with what the back end really holds: adopt what it explains, end the rest."""
        self.retry(all_jobs=True)
        orders = [track.order for track in self._able() if track.order is not None]
        self.backend.sweep(orders)
        self._miss_what_vanished()
        for track in self._able():
            if track.order is not None:
                self.backend.hold(track.order)

    def retry(self, *, all_jobs: bool = False) -> None:
        """Try again what kept single jobs from going on: their market, their file, what starts their workers.

        Whatever goes wrong is that job's trouble and no other's.
        """
        stuck = {*self.troubles.having("market"), *self.troubles.having("launch")}
        for track in self.world.active:
            if all_jobs or track.job in stuck:
                self.troubles.note(track.job, "market", _found_wrong(self.lane, track))
                if track.job in self._lanes:
                    self.troubles.note(track.job, "launch", _found_wrong(self._enter, track))

    def step(self, now_hours: float) -> None:
        """Do all that is due at this time of the market clock."""
        self.hear()
        now, active = self._forward(now_hours), self._able()
        self._teach_feeds()
        self._gaps.append(now - min(self._stepped_hours, now))
        self._stepped_hours = now
        for track in active:
            if track.order is not None:
                # "Make it so" may be repeated, so what was written but not acted on is made up for here.
                self.backend.hold(track.order)
        self.facts = self.backend.look(self.world.unended)
        self.spot = self.spot_at(now)
        self._acted.clear()
        take_step(self, active, now)
        self._see_what_came(now)
        self._tell_troubles(now)
        if is_due(self.world, self._kept_seq):
            self.keep()

    def spot_at(self, now_hours: float) -> Spot:
        """Return who holds what at this time of the market clock, by what was ordered and came."""
        active = self._able()
        claims = (claim for track in active for claim in _claims(track))
        return Spot(claims, scarce_spot(self, active, now_hours))

    def release(self) -> None:
        """From now on let go of everything, keeping the jobs; `idle` says when it is done."""
        self.releasing = True

    def abandon(self) -> None:
        """Let go of all workers though the journal cannot be told; the next controller will see them gone."""
        for track in self.world.active:
            if track.order is not None:
                self.backend.hold(track.order._replace(ending=True))

    @property
    def idle(self) -> bool:
        """Whether nothing is held or rented and nothing is to be done, but for jobs that cannot go on."""
        if isinstance(self.backend, Renter) and self.backend.rented:
            return False
        return all(
            self.facts.get(track.job, BackendStatus()).gone
            if self.troubles.has(track.job, "market")
            else track.released
            for track in self.world.active
        )

    @property
    def most_hours(self) -> float:
        """How much of the market's time may pass between two steps without a slot passing unseen."""
        slots = (self.world.jobs[job].submitted.slot_hours for job in self.world.unended)
        return min(slots, default=math.inf) / STEPS_A_SLOT

    def close(self) -> None:
        """Give back the machines of fleets whose jobs are all over."""
        for track, run in self.fleets:
            if not track.present:
                FleetStep(self, track, run, (), max(self.world.now_hours, track.accounted_hours)).let_go()

    def lane(self, track: JobRecord) -> JobContext:
        """Return a job's lane, made from the journal where this engine did not take the job in.

        It is that of the pool in which its workers are to be, or where it was last.
        """
        if track.job not in self._lanes:
            lane = self._open_lane(track.submitted)
            market = market_now(track.submitted.market, lane.feed)
            if track.active and market is not None:
                check_unchanged(self.world.site, market)
            self._lanes[track.job] = lane
        lane = self._lanes[track.job]
        return lane.at(track.state.pool) if track.order is None else lane.named(track.order.pool)

    def lane_of(self, job: str) -> JobContext:
        """Return the lane of a job that is being taken in or was."""
        return self._lanes[job] if job in self._lanes else self.lane(self.world.jobs[job])

    def account(self, track: JobRecord, now_hours: float) -> Account | None:
        """Say what the stretch that a job is in has done and cost so far; None when it is in none."""
        if track.begun is None or self.troubles.has(track.job, "market"):
            return None
        until = min(now_hours, self.lane(track).begins(track.begun.slot + 1))
        facts = self.facts.get(track.job, BackendStatus())
        return account(self.lane(track), track, facts, max(until, track.begun.from_hours))

    def hear(self) -> None:
        """Take into account what others have appended to the journal."""
        self._take_in(self.store.read(after=self.world.seq))

    def write(self, events: Sequence[Event]) -> None:
        """Append events, all or none, and take them into account."""
        records = self.store.append(events)
        if records and records[0].seq == self.world.seq + 1:
            self._take_in(records)
        else:  # somebody asked for something in between
            self.hear()
        for job in {event.job for event in events} & self.world.jobs.keys():
            for claim in _claims(self.world.jobs[job]):
                self.spot.hold(claim)

    def act(self, events: Sequence[Event], acts: Iterable[tuple[JobRecord, int | None]]) -> None:
        """Write, then act: the journal knows of a decision before the world does.

        `acts` are the jobs whose order is to be carried out, with how much spot the market left of those that
        it took some from.
        """
        self.write(events)
        for track, taken in acts:
            if taken is not None and isinstance(self.backend, Preemptable):
                self.backend.take(track.job, taken, self._notice_s)
            assert track.order is not None
            self.backend.hold(track.order)
            self._acted.add(track.job)

    def lasting(self, track: JobRecord, state: JobState, begun: Begun, order: Order) -> Order:
        """Return an order that ends early enough for all to be gone before the money is.

        That of a job that stops at its deadline ends there at the latest.
        """
        stop_hours = self.backend.stop_hours(track.job)
        if self.facts.get(track.job, BackendStatus()).finished is not None:
            # It is noticed a step late, or two. A machine that slept once is no measure of that.
            stop_hours += STEPS_IN_RESERVE * median_low(self._gaps)
        lane = self.lane(track).named(order.pool)
        ends = money_ends(lane, track, state, begun, order, stop_hours)
        return order._replace(until_hours=min(ends, lane.stops_hours))

    def keep(self) -> None:
        """Leave a snapshot in the journal, so that whoever reads it next need not begin at its beginning."""
        keep(self.store, self.world)
        self._kept_seq = self.world.seq

    # ---------------------------------------------------------------- its own

    def _forget(self) -> None:
        """Let go of the lanes of all but the last jobs that ended: a controller may run for months."""
        needed = {*self.world.unended, *(fleet.first.job for fleet in self.world.fleets.values())}
        for job in [job for job in self._lanes if job not in needed][:-KEPT_LANES]:
            del self._lanes[job]
        for job in self.watched.keys() - needed:
            del self.watched[job]

    def _enter(self, track: JobRecord) -> None:
        worked = track.state.progress_gpu_hours > 0
        self.backend.enter(launch_of(track.job, self.lane(track).file, worked=worked))

    def _able(self) -> list[JobRecord]:
        """Return the jobs that can go on; one without its market can be cancelled, at its last quote."""
        stuck, able = set(self.troubles.having("market")), []
        for track in self.world.active:
            if track.job in stuck and not track.cancel_asked:
                continue
            if track.job in stuck and track.begun is not None:
                self._lanes[track.job] = lane_without_market(track.submitted, track.begun.quote)
                self.troubles.note(track.job, "market", "")
            able.append(track)
        return able

    def _miss_what_vanished(self) -> None:
        """Begin anew what the journal knows to have been there and of which no trace is left."""
        facts = self.backend.look(self.world.unended)
        for track in self._able():
            order, held = track.order, track.held
            if order is None or order.ending or held is None or not held.gpus:
                continue
            if track.held_attempt == order.attempt and has_no_trace(order, facts[track.job]):
                self.write(vanished(track, order))

    def _is_stuck_and_gone(self, track: JobRecord) -> bool:
        return self.troubles.has(track.job, "market") and self.facts.get(track.job, BackendStatus()).gone

    def _teach_feeds(self) -> None:
        """Let markets that tell prices only know what our tries have shown of spot."""
        feeds = [lane.feed for lane in self._lanes.values() if lane.feed is not None]
        for feed in feeds:
            if feed.is_uncounted:
                feed.learn(self._seen().pools)

    def _seen(self) -> SpotSeen:
        if self._spot_seen is None:
            self._spot_seen = SpotSeen()
            for record in self.store.read(job=""):
                self._spot_seen.hear(record)
        return self._spot_seen

    def _tell_troubles(self, now_hours: float) -> None:
        for track in self.world.active:
            self.troubles.note(track.job, "machine", self.facts.get(track.job, BackendStatus()).trouble)
        news = self.troubles.news(self.world.active, now_hours)
        trouble = next((lane.feed.trouble for lane in self._lanes.values() if lane.feed is not None), "")
        if trouble != self.world.feed_trouble:
            news.append(FeedTroubled(at_hours=now_hours, why=trouble))
        if news:
            self.write(news)

    def _see_what_came(self, now_hours: float) -> None:
        """Note what is held at once of what was ordered in this step: it is paid for from now on."""
        seen = [track for track in self.world.active if track.job in self._acted and track.begun is not None]
        if seen:
            self.facts = {**self.facts, **self.backend.look([track.job for track in seen])}
        for track in seen:
            assert track.begun is not None
            note_held(self, track, self.facts[track.job], max(now_hours, track.begun.from_hours))

    def _take_in(self, records: Iterable[Record]) -> None:
        for record in records:
            self.world.apply(record)
            self.fleets.hear(record)
            if self._spot_seen is not None:
                self._spot_seen.hear(record)

    def _opening(self, submitted: Submitted, lane: JobContext) -> list[Event]:
        """Say on which market all jobs run, where none has said so yet."""
        if self.world.site is not None:
            return []
        slot = lane.start_slot
        start_utc, market = lane.market_pool.time(slot).isoformat(), submitted.market
        digest = digest_now(market, start_utc) if market else ""
        return [SiteOpened(at_hours=lane.begins(slot), market=market, start_utc=start_utc, digest=digest)]

    def _forward(self, now_hours: float) -> float:
        """Return the time, which never goes back; a clock that did is noted."""
        latest = self.world.now_hours
        if now_hours < latest - TIME_TOLERANCE_HOURS and self.world.active:
            why = "the clock went back; market time stops until the clock has caught up"
            if not self._behind:
                self.write([ClockJumped(at_hours=latest, from_hours=now_hours, why=why)])
            self._behind = True
            return latest
        self._behind = False
        return max(now_hours, latest)


def _told(submitted: Submitted, lane: JobContext) -> Submitted:
    """Return a submission that says itself what a list of jobs tells of it."""
    told = dataclasses.replace(
        submitted, work_gpu_hours=lane.job.work_gpu_hours, deadline_hours=lane.job.deadline_hours
    )
    return dataclasses.replace(told, fleet_class=class_of(told)) if told.fleet else told


def _found_wrong(try_it: Callable[[JobRecord], object], track: JobRecord) -> str:
    """Return what goes wrong with a job; empty when nothing does."""
    try:
        try_it(track)
    except Exception as error:
        return said(error)
    return ""


def _claims(track: JobRecord) -> list[Claim]:
    """Say what a job holds; what it has left behind in another pool is nobody's until it has gone."""
    order, added = track.order, track.spot_added_hours
    if order is None:
        return [Claim(track.job, "", 0, added), *_left_behind(track, NOTHING)]
    held = track.held or NOTHING  # still there, though less was ordered
    left = NOTHING
    if held.gpus and track.held_pool != order.pool:
        held, left = NOTHING, held
    spot, on_demand = max(order.spot_gpus, held.spot_gpus), max(order.on_demand_gpus, held.on_demand_gpus)
    return [Claim(track.job, order.pool, spot, added, on_demand), *_left_behind(track, left)]


def _left_behind(track: JobRecord, held: Holding) -> list[Claim]:
    """Say what a job that may move holds that has still to end in a pool that it left."""
    if not track.submitted.pools:
        return []
    return [
        Claim(
            f"{track.job} left", track.held_pool, held.spot_gpus, track.spot_added_hours, held.on_demand_gpus
        )
    ]
