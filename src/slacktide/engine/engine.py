"""The engine: look, decide, write, act.

`Engine.step(now)` is all there is to running jobs. It neither sleeps nor reads a clock: whoever
calls it owns the time, so a test lives through a week in milliseconds and the live loop is a few lines
round it. Each step writes what it found and decided into the journal as one batch, and only then
acts; whatever is killed in between, the next engine reads the same journal and does the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from slacktide import physics
from slacktide.backend.base import Backend, Facts, Failure, Order, Preemptable
from slacktide.engine.account import Account, account, known_safe_gpu_hours, money_ends
from slacktide.engine.health import health
from slacktide.engine.lane import Lane, lane_of
from slacktide.engine.launching import launch_of
from slacktide.engine.snapshots import is_due, keep, known
from slacktide.engine.streams import Streams
from slacktide.engine.telling import decided, ended, lived, preempted
from slacktide.engine.world import Begun, Track, World
from slacktide.events import (
    ClockJumped,
    Ending,
    Event,
    HealthChanged,
    Released,
    Restarted,
    SiteOpened,
    Stalled,
    Status,
    Submitted,
    WorkerFailed,
)
from slacktide.site.moment import offer
from slacktide.site.spot import Claim, Spot
from slacktide.store.base import Store
from slacktide.types import TIME_TOLERANCE_HOURS, Allocation, JobState, Reason

UNSEEN = Reason("unseen")
LEFT = Reason("what-is-left")
ASKED = "a user asked for it"


class Engine:
    """Runs the jobs of one journal on one back end."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        open_lane: Callable[[Submitted], Lane] = lane_of,
        notice_s: float = 0.0,
        world: World | None = None,
    ) -> None:
        """Read the journal; `notice_s` is how long before the market takes workers they are told.

        `world` is what was read of it already.
        """
        self.world = known(store) if world is None else world
        self.store, self.backend = store, backend
        self.facts: Mapping[str, Facts] = {}
        """What the back end said at the last step."""
        self._open_lane = open_lane
        self._notice_s = notice_s
        self._lanes: dict[str, Lane] = {}
        self._streams = Streams()
        self._spot = Spot()
        self._releasing = False
        self._behind = False
        self._kept_seq = self.world.seq
        self._streams.retell(store, self.world)
        self.hear()

    # ---------------------------------------------------------------- what others may call

    def submit(self, submitted: Submitted) -> Lane:
        """Take a job in: it is written only when it can be run here. The first one fixes all jobs' market."""
        lane = self._lanes[submitted.job] = self._open_lane(submitted)
        try:
            self.backend.enter(launch_of(submitted.job, lane.file))
            work, deadline = lane.job.work_gpu_hours, lane.job.deadline_hours
            told = dataclasses.replace(submitted, work_gpu_hours=work, deadline_hours=deadline)
            self.write([*self._opening(submitted, lane), told])
        except BaseException:
            del self._lanes[submitted.job]
            raise
        return lane

    def recover(self) -> None:
        """Compare the journal with what the back end really holds: adopt what it explains, end the rest."""
        for track in self.world.active:
            self.backend.enter(launch_of(track.job, self.lane(track).file))
        orders = [track.order for track in self.world.active if track.order is not None]
        self.backend.sweep(orders)
        for order in orders:
            self.backend.hold(order)

    def step(self, now_hours: float) -> None:
        """Do all that is due at this time of the market clock."""
        self.hear()
        now = self._forward(now_hours)
        active = self.world.active
        for track in active:
            if track.order is not None:
                # "Make it so" may be repeated, so what was written but not acted on is made up for here.
                self.backend.hold(track.order)
        self.facts = self.backend.look([track.job for track in active])
        self._spot = Spot(map(_claim, active))
        due = [track for track in active if self._due(track, now)]
        self._turn(due, now)
        turned = {track.job for track in due}
        waiting = [track for track in active if track.begun is None and track.job not in turned]
        for track in active:
            if track.begun is not None and track.job not in turned:
                self._watch(track, self.facts[track.job], max(now, track.begun.from_hours))
        for track in sorted(waiting, key=lambda one: self._latest_start(one, one.state)):
            self._wait(track, now)
        if is_due(self.world, self._kept_seq):
            self.keep()

    def release(self) -> None:
        """From now on let go of everything, keeping the jobs; `idle` says when it is done."""
        self._releasing = True

    def abandon(self) -> None:
        """Let go of all workers though the journal cannot be told; the next controller will see them gone."""
        for track in self.world.active:
            if track.order is not None:
                self.backend.hold(track.order._replace(ending=True))

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing is to be done."""
        return all(track.released for track in self.world.active)

    def lane(self, track: Track) -> Lane:
        """Return a job's lane, made from the journal where this engine did not take the job in."""
        if track.job not in self._lanes:
            self._lanes[track.job] = self._open_lane(track.submitted)
        return self._lanes[track.job]

    def lane_of(self, job: str) -> Lane:
        """Return the lane of a job that is being taken in or was."""
        return self._lanes[job] if job in self._lanes else self.lane(self.world.jobs[job])

    def account(self, track: Track, now_hours: float) -> Account | None:
        """Say what the stretch that a job is in has done and cost so far; None when it is in none."""
        if track.begun is None:
            return None
        until = min(now_hours, self.lane(track).begins(track.begun.slot + 1))
        facts = self.facts.get(track.job, Facts())
        return account(self.lane(track), track, facts, max(until, track.begun.from_hours))

    def hear(self) -> None:
        """Take into account what others have appended to the journal."""
        for record in self.store.read(after=self.world.seq):
            self.world.apply(record)
            self._streams.hear(record, self.world)

    def write(self, events: list[Event]) -> None:
        """Append events, all or none, and take them into account."""
        self.store.append(events)
        self.hear()
        for job in {event.job for event in events} & self.world.jobs.keys():
            self._spot.hold(_claim(self.world.jobs[job]))

    def keep(self) -> None:
        """Leave a snapshot in the journal, so that whoever reads it next need not begin at its beginning."""
        keep(self.store, self.world)
        self._kept_seq = self.world.seq

    # ---------------------------------------------------------------- one step

    def _opening(self, submitted: Submitted, lane: Lane) -> list[Event]:
        """Say on which market all jobs run, where none has said so yet."""
        if self.world.site is not None:
            return []
        slot = lane.start_slot
        start_utc = lane.market_pool.time(slot).isoformat()
        return [SiteOpened(at_hours=lane.begins(slot), market=submitted.market, start_utc=start_utc)]

    def _forward(self, now_hours: float) -> float:
        """Return the time, which never goes back; a clock that did is noted."""
        latest = self.world.now_hours
        if now_hours < latest - TIME_TOLERANCE_HOURS and self.world.active:
            why = "the clock went back; time stands still until it has caught up"
            if not self._behind:
                self.write([ClockJumped(at_hours=latest, from_hours=now_hours, why=why)])
            self._behind = True
            return latest
        self._behind = False
        return max(now_hours, latest)

    def _due(self, track: Track, now_hours: float) -> bool:
        """Whether the slot of a job's open stretch is over."""
        return track.begun is not None and self.lane(track).slot(now_hours) > track.begun.slot

    def _latest_start(self, track: Track, state: JobState) -> float:
        """Return when on demand must begin at the latest: who has less time is asked first."""
        return physics.latest_start(self.lane(track).terms, state.checkpointed_gpu_hours)

    def _wait(self, track: Track, now_hours: float) -> None:
        """Begin with a job that is in no stretch, unless it is to be let go."""
        if not (self._releasing or track.cancel_asked):
            self._begin(track, now_hours)
        elif track.cancel_asked:
            self.write([ended(track, "cancelled", ASKED, now_hours)])
        elif not track.released:
            self.write([Released(job=track.job, at_hours=now_hours, why="the controller stops")])

    def _begin(self, track: Track, now_hours: float) -> None:
        """Take the first decision, or the first one after everything was let go."""
        lane = self.lane(track)
        slot = lane.slot(now_hours)
        begins = lane.begins(slot)
        at_hours = begins if abs(now_hours - begins) < TIME_TOLERANCE_HOURS else now_hours
        begun = Begun(slot, at_hours, lane.quote(slot))
        self._act(track, self._decide(track, track.state, begun))

    def _turn(self, tracks: Sequence[Track], now_hours: float) -> None:
        """Account for the slots that have passed and decide about the one that has begun.

        First the market takes back what it takes; then the jobs are asked, the one with the least slack
        first, each with what is left. So a guard judges what its job will really get, and no spot is sold
        twice.
        """
        over = [(track, self._caught_up(track, now_hours)) for track in tracks]
        lived_through = {track.job: one for track, one in over if one is not None}
        asked = [track for track in tracks if track.job in lived_through]
        self._lose(asked, now_hours)
        for track in sorted(asked, key=lambda one: self._latest_start(one, lived_through[one.job].state)):
            self._next(track, lived_through[track.job])

    def _caught_up(self, track: Track, now_hours: float) -> Account | None:
        """Return a job's stretch up to the border of the present slot; None where the job ended before it."""
        lane, facts = self.lane(track), self.facts[track.job]
        slot = lane.slot(now_hours)
        assert track.begun is not None
        if slot > track.begun.slot + 1:
            self.write([self._unseen(track, now_hours, slot - track.begun.slot - 1)])
        while True:
            one = account(lane, track, facts, lane.begins(track.begun.slot + 1))
            if one.state.ended:
                self._finish(track, one)
                return None
            if track.begun.slot + 1 == slot:
                return one
            self._go_on(track, one, UNSEEN)

    def _unseen(self, track: Track, now_hours: float, slots: int) -> ClockJumped:
        assert track.begun is not None
        return ClockJumped(
            job=track.job,
            at_hours=now_hours,
            from_hours=track.begun.from_hours,
            why=f"{slots} slots passed unseen; they are paid as they were held",
        )

    def _lose(self, tracks: Sequence[Track], now_hours: float) -> None:
        """Find out whose spot goes in each pool where the new slot offers less than is held."""
        jobs = [track.job for track in tracks if track.ending is None]
        offered = {lane.market_pool.name: lane for lane in map(self.lane, tracks)}
        for pool, lane in offered.items():
            self._spot.lose(pool, lane.quote(lane.slot(now_hours)).spot_gpus, jobs)

    def _go_on(self, track: Track, one: Account, reason: Reason) -> None:
        """Go over into the next slot with what is held."""
        order = track.order
        assert order is not None
        slot = one.priced.stretch.slot + 1
        begun = Begun(slot, one.to_hours, self.lane(track).quote(slot))
        wish = Allocation(order.spot_gpus, order.on_demand_gpus, reason=reason, memory=track.memory)
        same = self._lasting(track, one.state, begun, order)
        self._act(track, [lived(track, one), decided(begun, one.state, same, wish, track.ending)])

    def _next(self, track: Track, one: Account) -> None:
        """Go over into the next slot: the market has taken what it takes, now the policy decides."""
        if track.ending is not None:
            self._go_on(track, one, LEFT)
            return
        slot = one.priced.stretch.slot + 1
        begun = Begun(slot, one.to_hours, self.lane(track).quote(slot))
        left = physics.lose(self.lane(track).terms, one.state, self._spot.held(track.job))
        events: list[Event] = [lived(track, one)]
        taken = None
        if left.spot_gpus < one.state.spot_gpus:
            taken = left.spot_gpus
            why = f"the market left {begun.quote.spot_gpus} spot GPUs"
            events.append(preempted(track, slot, begun.from_hours, one.state, left, why))
        events += self._decide(track, left, begun, fresh=taken is not None)
        self._act(track, events, taken)

    def _decide(self, track: Track, state: JobState, begun: Begun, *, fresh: bool = False) -> list[Event]:
        """Ask the policy, cut its wish to what can be had, and say what is to be held.

        A new set of workers begins where the holding changes, and where some were just taken (`fresh`).
        """
        lane = self.lane(track)
        share, by_others = self._streams.share(track.job), self._spot.by_others(track.job)
        wish = share or lane.decide(state, begun.slot, begun.from_hours, track.memory, by_others)
        left = offer(begun.quote, by_others.get(lane.market_pool.name, 0))
        spot, on_demand = physics.cut(lane.terms, left, wish.spot_gpus, wish.on_demand_gpus)
        changed = fresh or (spot, on_demand) != (state.spot_gpus, state.on_demand_gpus)
        wanted = Order(track.job, track.attempt + changed, lane.market_pool.name, int(spot), int(on_demand))
        order = self._lasting(track, state, begun, wanted)
        events: list[Event] = [decided(begun, state, order, wish)]
        word, why = health(
            lane.terms, state, begun.from_hours, lane.slot_hours, order.spot_gpus, order.on_demand_gpus
        )
        if word != track.health:
            events.append(HealthChanged(job=track.job, at_hours=begun.from_hours, health=word, why=why))
        return events

    def _lasting(self, track: Track, state: JobState, begun: Begun, order: Order) -> Order:
        """Return an order that ends early enough for all to be gone before the money is."""
        ends = money_ends(self.lane(track), track, state, begun, order.spot_gpus, order.on_demand_gpus)
        return order._replace(until_hours=ends - self.backend.stop_hours(track.job))

    def _watch(self, track: Track, facts: Facts, now_hours: float) -> None:
        """Inside a slot: see whether the job is done, has failed, hangs, or must be stopped."""
        lane, order = self.lane(track), track.order
        assert order is not None
        one, here = account(lane, track, facts, now_hours), facts.attempt == order.attempt
        if one.state.ended and not order.ending:
            self._finish(track, one)
        elif order.ending:
            if facts.gone:
                self._gone(track, one)
        elif track.cancel_asked:
            self._let_go(track, "cancelled", ASKED)
        elif self._releasing:
            self._let_go(track, "released", "the controller stops")
        elif facts.finished is not None and now_hours >= order.until_hours:
            self._let_go(track, "budget_exhausted", "max_cost would be passed")
        elif lane.patience.preempted_too_often(track.preemptions):
            self._let_go(track, "failed", f"preempted {track.preemptions} times, more than it may be")
        elif here and order.gpus and facts.failure is not None:
            self._failed(track, one, facts, facts.failure)
        elif here and order.gpus and facts.silent_s > lane.patience.silent_s:
            self._stalled(track, one, facts)
        elif here and facts.taken_spot_gpus:
            self._lost(track, one, order.spot_gpus - facts.taken_spot_gpus, "its machines were taken")
        elif track.preemption_asked is not None:
            self._preempt(track, one)
        else:
            self._reshape(track, one)

    # ---------------------------------------------------------------- what can come in between

    def _preempt(self, track: Track, one: Account) -> None:
        """Take spot workers away because a user asked for it; the job goes on with what is left."""
        order, asked = track.order, track.preemption_asked
        assert order is not None
        assert asked is not None
        if order.spot_gpus == 0:
            why = "a user asked for it, but no spot is held"
            slot = one.priced.stretch.slot
            self.write([preempted(track, slot, one.to_hours, track.state, track.state, why, asked=True)])
            return
        spot_left = max(0, order.spot_gpus - (asked.spot_gpus or order.spot_gpus))
        self._lost(track, one, spot_left, asked.why or ASKED, asked=True)

    def _lost(self, track: Track, one: Account, spot_left: int, why: str, *, asked: bool = False) -> None:
        """Go on with what is left after spot workers were lost inside a slot."""
        lane, begun, order = self.lane(track), track.begun, track.order
        assert begun is not None
        assert order is not None
        left = physics.lose(lane.terms, one.state, max(0, spot_left))
        spot, on_demand = physics.cut(lane.terms, begun.quote, left.spot_gpus, left.on_demand_gpus)
        anew = begun._replace(from_hours=one.to_hours)
        fewer = order._replace(attempt=order.attempt + 1, spot_gpus=int(spot), on_demand_gpus=int(on_demand))
        after = self._lasting(track, left, anew, fewer)
        wish = Allocation(left.spot_gpus, left.on_demand_gpus, reason=LEFT, memory=track.memory)
        events = [
            lived(track, one),
            preempted(track, begun.slot, one.to_hours, one.state, left, why, asked=asked),
            decided(anew, left, after, wish),
        ]
        self._act(track, events, left.spot_gpus)

    def _reshape(self, track: Track, one: Account) -> None:
        """Inside a slot, give a job of a stream the width that its stream's policy now wants."""
        begun, order = track.begun, track.order
        assert begun is not None
        assert order is not None
        share = self._streams.share(track.job)
        if share is None:
            return
        terms = self.lane(track).terms
        spot, on_demand = physics.cut(terms, begun.quote, share.spot_gpus, share.on_demand_gpus)
        if (spot, on_demand) == (order.spot_gpus, order.on_demand_gpus):
            return
        anew = begun._replace(from_hours=one.to_hours)
        self._act(track, [lived(track, one), *self._decide(track, one.state, anew)])

    def _failed(self, track: Track, one: Account, facts: Facts, failure: Failure) -> None:
        """Note that a worker failed, and begin again or give up."""
        failed = WorkerFailed(
            job=track.job,
            at_hours=one.to_hours,
            actor="worker",
            why=failure.what or f"rank {failure.rank} ended with {failure.exit_code}",
            attempt=track.attempt,
            rank=failure.rank,
            exit_code=failure.exit_code,
            checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
        )
        self._again(track, failed, hopeless=failure.hopeless)

    def _stalled(self, track: Track, one: Account, facts: Facts) -> None:
        """Note that a job hangs, and begin again or give up."""
        stalled = Stalled(
            job=track.job,
            at_hours=one.to_hours,
            why=f"no progress for {facts.silent_s:.0f} s",
            attempt=track.attempt,
            silent_s=facts.silent_s,
            checkpointed_gpu_hours=known_safe_gpu_hours(facts, one.state),
        )
        self._again(track, stalled, hopeless=False)

    def _again(self, track: Track, failed: WorkerFailed | Stalled, *, hopeless: bool) -> None:
        self.write([failed])
        patience = self.lane(track).patience
        if hopeless or track.failures_in_row > patience.failures:
            self._let_go(track, "failed", failed.why)
            return
        again = Restarted(
            job=track.job,
            at_hours=failed.at_hours,
            attempt=failed.attempt + 1,
            delay_s=patience.delay_s(track.failures_in_row),
            why=f"failure {track.failures_in_row} in a row of at most {patience.failures}",
        )
        self._act(track, [again])

    def _let_go(self, track: Track, ending: Ending, why: str) -> None:
        """Begin to let go of all workers for good; they are paid until they are gone."""
        begun, order = track.begun, track.order
        assert begun is not None
        assert order is not None
        wish = Allocation(reason=Reason(why), memory=track.memory)
        over = order._replace(ending=True)
        self._act(track, [decided(begun, track.state, over, wish, ending)])

    def _gone(self, track: Track, one: Account) -> None:
        """All workers of a job that was to be let go are gone."""
        events: list[Event] = [lived(track, one, let_go=True)]
        if track.ending == "released":
            events.append(Released(job=track.job, at_hours=one.to_hours, why="the controller stops"))
        else:
            assert track.ending is not None
            events.append(ended(track, track.ending, "", one.to_hours))
        self.write(events)

    def _finish(self, track: Track, one: Account) -> None:
        """The job ended by itself: its work is done, or its money."""
        job, order = self.lane(track).job, track.order
        assert order is not None
        own_hours = one.state.finish_hours - track.began_hours
        status: Status = "succeeded"
        if one.state.exhausted:
            status = "budget_exhausted"
        elif not job.on_time(own_hours) and (job.hard or job.value_at(own_hours) <= 0.0):
            status = "deadline_missed"
        self.write([lived(track, one), ended(track, status, "", one.to_hours, one.state.finish_hours)])
        self.backend.hold(order._replace(ending=True))

    def _act(self, track: Track, events: list[Event], taken: int | None = None) -> None:
        """Write, then act: the journal knows of a decision before the world does."""
        self.write(events)
        if taken is not None and isinstance(self.backend, Preemptable):
            self.backend.take(track.job, taken, self._notice_s)
        assert track.order is not None
        self.backend.hold(track.order)


def _claim(track: Track) -> Claim:
    """Say what spot a job holds."""
    order = track.order
    if order is None:
        return Claim(track.job, "", 0, track.spot_added_hours)
    return Claim(track.job, order.pool, order.spot_gpus, track.spot_added_hours)
