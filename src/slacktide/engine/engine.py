"""The engine: look, decide, write, act.

`Engine.step(now)` is all there is to running jobs. It neither sleeps nor reads a clock: whoever
calls it owns the time, so a test lives through a week in milliseconds and the live loop is a few lines
round it. Each step writes what it found and decided into the journal as one batch, and only then
acts; whatever is killed in between, the next engine reads the same journal and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from slacktide import physics
from slacktide.backend.base import Backend, Failure, Order, Seen
from slacktide.engine.health import health
from slacktide.engine.lane import Lane, lane_of
from slacktide.engine.streams import Streams
from slacktide.engine.telling import decided, ended, lived, preempted
from slacktide.engine.world import Track, World
from slacktide.events import (
    ClockJumped,
    Ending,
    Event,
    HealthChanged,
    Released,
    Restarted,
    Stalled,
    Status,
    Submitted,
    WorkerFailed,
)
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
    ) -> None:
        self.world = World()
        self.store, self.backend = store, backend
        self._open_lane = open_lane
        self._lanes: dict[str, Lane] = {}
        self._streams = Streams()
        self._releasing = False
        self._behind = False
        self.hear()

    # ---------------------------------------------------------------- what others may call

    def submit(self, submitted: Submitted) -> Lane:
        """Take a job in: it is written only when it can be run here."""
        lane = self._open_lane(submitted)
        self.backend.enter(submitted.job, lane.terms, lane.file)
        self._lanes[submitted.job] = lane
        self.write([submitted])
        return lane

    def recover(self) -> None:
        """Compare the journal with what the back end really holds: adopt what it explains, end the rest."""
        for track in self.world.active:
            lane = self.lane(track)
            self.backend.enter(track.job, lane.terms, lane.file)
        orders = [track.order for track in self.world.active if track.order is not None]
        self.backend.sweep(orders)
        for order in orders:
            self.backend.hold(order)

    def step(self, now_hours: float) -> None:
        """Do all that is due at this time of the market clock."""
        self.hear()
        now = self._forward(now_hours)
        self.backend.tick()
        for track in self.world.active:
            self._serve(track, now)

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

    def hear(self) -> None:
        """Take into account what others have appended to the journal."""
        for record in self.store.read(after=self.world.seq):
            self.world.apply(record)
            self._streams.hear(record, self.world)

    def write(self, events: list[Event]) -> None:
        """Append events, all or none, and take them into account."""
        self.store.append(events)
        self.hear()

    # ---------------------------------------------------------------- one job, one step

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

    def _serve(self, track: Track, now_hours: float) -> None:
        hours = now_hours - track.began_hours
        if track.order is None:
            if not (self._releasing or track.cancel_asked):
                self._begin(track, hours)
            elif track.cancel_asked:
                self.write([ended(track, "cancelled", ASKED, now_hours)])
            elif not track.released:
                self.write([Released(job=track.job, at_hours=now_hours, why="the controller stops")])
            return
        # "Make it so" may be repeated, so what was written but not acted on is made up for here.
        self.backend.hold(track.order)
        if self.lane(track).slot(hours) > track.order.slot:
            self._turn(track, hours)
        else:
            self._watch(track, hours)

    def _begin(self, track: Track, hours: float) -> None:
        """Take the first decision, or the first one after everything was let go."""
        lane = self.lane(track)
        slot = lane.slot(hours)
        begin = slot * lane.terms.slot_hours
        from_hours = begin if abs(hours - begin) < TIME_TOLERANCE_HOURS else hours
        order, events = self._decide(track, track.state, slot, from_hours, track.attempt)
        self._act(track, events, order)

    def _turn(self, track: Track, hours: float) -> None:
        """Account for the slots that have passed and decide about the one that has begun."""
        lane, order = self.lane(track), track.order
        assert order is not None
        slot, events = lane.slot(hours), list[Event]()
        taken: int | None = None
        if slot > order.slot + 1:
            events.append(self._unseen(track, hours, slot - order.slot - 1))
        while order.slot < slot:
            end = (order.slot + 1) * lane.terms.slot_hours
            seen = self.backend.look(order, end)
            events.append(lived(track, order, seen))
            if seen.state.ended:
                self._finish(track, events, seen)
                return
            nearly = order.slot + 1 == slot
            order, more, taken = self._next(track, order, seen.state, end, decide=nearly)
            events += more
        self._act(track, events, order, taken)

    def _unseen(self, track: Track, hours: float, slots: int) -> ClockJumped:
        assert track.order is not None
        return ClockJumped(
            job=track.job,
            at_hours=track.began_hours + hours,
            from_hours=track.began_hours + track.order.from_hours,
            why=f"{slots} slots passed unseen; they are paid as they were held",
        )

    def _next(
        self, track: Track, order: Order, state: JobState, at_hours: float, *, decide: bool
    ) -> tuple[Order, list[Event], int | None]:
        """Go over into the next slot: the market takes what it takes, then the policy decides."""
        lane, slot = self.lane(track), order.slot + 1
        quote = lane.quote(slot)
        if order.ending or not decide:
            same = order._replace(slot=slot, from_hours=at_hours, quote=quote, state=state)
            reason = LEFT if order.ending else UNSEEN
            wish = Allocation(order.spot_gpus, order.on_demand_gpus, reason=reason, memory=track.memory)
            return same, [decided(track, same, wish, track.ending)], None
        left = physics.lose(lane.terms, state, quote.spot_gpus)
        events: list[Event] = []
        taken = None
        if left.spot_gpus < state.spot_gpus:
            taken = left.spot_gpus
            why = f"the market left {quote.spot_gpus} spot GPUs"
            events.append(preempted(track, slot, at_hours, state, left, why))
        attempt = track.attempt + (1 if taken is not None else 0)
        order, more = self._decide(track, left, slot, at_hours, attempt, fresh=taken is not None)
        return order, events + more, taken

    def _decide(
        self, track: Track, state: JobState, slot: int, at_hours: float, attempt: int, *, fresh: bool = False
    ) -> tuple[Order, list[Event]]:
        """Ask the policy, cut its wish to what can be had, and say what is to be held."""
        lane = self.lane(track)
        quote = lane.quote(slot)
        share = self._streams.share(track.job)
        wish = share or lane.decide(state, slot, track.memory)
        spot, on_demand = physics.cut(lane.terms, quote, wish.spot_gpus, wish.on_demand_gpus)
        if not fresh and (spot, on_demand) != (state.spot_gpus, state.on_demand_gpus):
            attempt += 1
        order = Order(track.job, attempt, slot, at_hours, quote, state, int(spot), int(on_demand))
        events: list[Event] = [decided(track, order, wish, None)]
        word, why = health(lane.terms, order)
        if word != track.health:
            events.append(
                HealthChanged(job=track.job, at_hours=track.began_hours + at_hours, health=word, why=why)
            )
        return order, events

    def _watch(self, track: Track, hours: float) -> None:
        """Inside a slot: see whether the job is done, has failed, hangs, or must be stopped."""
        order = track.order
        assert order is not None
        seen = self.backend.look(order, max(hours, order.from_hours))
        if seen.state.ended and not order.ending:
            self._finish(track, [lived(track, order, seen)], seen)
        elif order.ending:
            if seen.gone:
                self._gone(track, order, seen)
        elif track.cancel_asked:
            self._let_go(track, "cancelled", ASKED)
        elif self._releasing:
            self._let_go(track, "released", "the controller stops")
        elif self._money_ends(track, hours):
            self._let_go(track, "budget_exhausted", "max_cost would be passed")
        elif self.lane(track).patience.preempted_too_often(track.preemptions):
            self._let_go(track, "failed", f"preempted {track.preemptions} times, more than it may be")
        elif seen.failure is not None:
            self._failed(track, seen, seen.failure)
        elif order.gpus and seen.silent_s > self.lane(track).patience.silent_s:
            self._stalled(track, seen)
        elif track.preemption_asked is not None:
            self._preempt(track, seen, hours)
        else:
            self._reshape(track, seen, hours)

    # ---------------------------------------------------------------- what can come in between

    def _preempt(self, track: Track, seen: Seen, hours: float) -> None:
        """Take spot workers away because a user asked for it; the job goes on with what is left."""
        lane, order, asked = self.lane(track), track.order, track.preemption_asked
        assert order is not None
        assert asked is not None
        if order.spot_gpus == 0:
            why = "a user asked for it, but no spot is held"
            nothing = preempted(track, order.slot, hours, order.state, order.state, why, asked=True)
            self.write([nothing])
            return
        spot_left = max(0, order.spot_gpus - (asked.spot_gpus or order.spot_gpus))
        left = physics.lose(lane.terms, seen.state, spot_left)
        spot, on_demand = physics.cut(lane.terms, order.quote, left.spot_gpus, left.on_demand_gpus)
        after = order._replace(
            attempt=order.attempt + 1,
            from_hours=hours,
            state=left,
            spot_gpus=int(spot),
            on_demand_gpus=int(on_demand),
        )
        wish = Allocation(left.spot_gpus, left.on_demand_gpus, reason=LEFT, memory=track.memory)
        events = [
            lived(track, order, seen),
            preempted(track, order.slot, hours, seen.state, left, asked.why or ASKED, asked=True),
            decided(track, after, wish, None),
        ]
        self._act(track, events, after, spot_left)

    def _reshape(self, track: Track, seen: Seen, hours: float) -> None:
        """Inside a slot, give a job of a stream the width that its stream's policy now wants."""
        order = track.order
        assert order is not None
        share = self._streams.share(track.job)
        if share is None:
            return
        terms = self.lane(track).terms
        spot, on_demand = physics.cut(terms, order.quote, share.spot_gpus, share.on_demand_gpus)
        if (spot, on_demand) == (order.spot_gpus, order.on_demand_gpus):
            return
        after, events = self._decide(track, seen.state, order.slot, hours, track.attempt)
        self._act(track, [lived(track, order, seen), *events], after)

    def _failed(self, track: Track, seen: Seen, failure: Failure) -> None:
        """Note that a worker failed, and begin again or give up."""
        order = track.order
        assert order is not None
        failed = WorkerFailed(
            job=track.job,
            at_hours=track.began_hours + seen.to_hours,
            actor="worker",
            why=failure.what or f"rank {failure.rank} ended with {failure.exit_code}",
            attempt=order.attempt,
            rank=failure.rank,
            exit_code=failure.exit_code,
            checkpointed_gpu_hours=seen.state.checkpointed_gpu_hours,
        )
        self._again(track, failed, hopeless=failure.hopeless)

    def _stalled(self, track: Track, seen: Seen) -> None:
        """Note that a job hangs, and begin again or give up."""
        order = track.order
        assert order is not None
        stalled = Stalled(
            job=track.job,
            at_hours=track.began_hours + seen.to_hours,
            why=f"no progress for {seen.silent_s:.0f} s",
            attempt=order.attempt,
            silent_s=seen.silent_s,
            checkpointed_gpu_hours=seen.state.checkpointed_gpu_hours,
        )
        self._again(track, stalled, hopeless=False)

    def _again(self, track: Track, failed: WorkerFailed | Stalled, *, hopeless: bool) -> None:
        self.write([failed])
        if hopeless or track.failures_in_row > self.lane(track).patience.failures:
            self._let_go(track, "failed", failed.why)
            return
        delay = self.lane(track).patience.delay_s(track.failures_in_row)
        why = f"failure {track.failures_in_row} in a row of at most {self.lane(track).patience.failures}"
        attempt = failed.attempt + 1
        restarted = Restarted(
            job=track.job, at_hours=failed.at_hours, attempt=attempt, delay_s=delay, why=why
        )
        self._act(track, [restarted], None)

    def _money_ends(self, track: Track, hours: float) -> bool:
        """Whether stopping now is the last chance to stay within the greatest cost."""
        terms, order = self.lane(track).terms, track.order
        margin = self.backend.stop_hours(track.job)
        if order is None or margin <= 0.0 or order.gpus == 0:
            return False
        until = hours - order.from_hours + margin
        return (
            order.state.cost_usd
            + physics.usd_per_hour(order.quote, order.spot_gpus, order.on_demand_gpus) * until
            >= terms.max_cost_usd
        )

    def _let_go(self, track: Track, ending: Ending, why: str) -> None:
        """Begin to let go of all workers for good; they are paid until they are gone."""
        order = track.order
        assert order is not None
        wish = Allocation(reason=Reason(why), memory=track.memory)
        ending_order = order._replace(ending=True)
        self._act(track, [decided(track, ending_order, wish, ending)], ending_order)

    def _gone(self, track: Track, order: Order, seen: Seen) -> None:
        """All workers of a job that was to be let go are gone."""
        at = track.began_hours + seen.to_hours
        events: list[Event] = [lived(track, order, seen, let_go=True)]
        if track.ending == "released":
            events.append(Released(job=track.job, at_hours=at, why="the controller stops"))
        else:
            assert track.ending is not None
            events.append(ended(track, track.ending, "", at))
        self.write(events)

    def _finish(self, track: Track, events: list[Event], seen: Seen) -> None:
        """The job ended by itself: its work is done, or its money."""
        lane = self.lane(track)
        finish = seen.state.finish_hours
        status: Status = "succeeded"
        if seen.state.exhausted:
            status = "budget_exhausted"
        elif not lane.job.on_time(finish) and (lane.job.hard or lane.job.value_at(finish) <= 0.0):
            status = "deadline_missed"
        events.append(ended(track, status, "", track.began_hours + seen.to_hours, finish))
        order = track.order
        self.write(events)
        if order is not None:
            self.backend.hold(order._replace(ending=True))

    def _act(self, track: Track, events: list[Event], order: Order | None, taken: int | None = None) -> None:
        """Write, then act: the journal knows of a decision before the world does."""
        self.write(events)
        if taken is not None:
            self.backend.take(track.job, taken)
        due = track.order if order is None else order
        if due is not None:
            self.backend.hold(due)
