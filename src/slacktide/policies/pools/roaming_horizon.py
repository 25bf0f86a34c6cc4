"""Roaming horizon: chooses a job's pool and GPUs by one dynamic programme over several pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Allocation, Job, JobState, Reason, Wish
from slacktide.market.base import LruCache, Pool
from slacktide.physics.progress import Terms, lose, pass_time, phase_of, work_hours
from slacktide.policies.base import policies, signals, warned_slots, warning_of
from slacktide.policies.pools.candidate_allocations import (
    KEPT,
    CandidateAllocation,
    borders,
    numbers_of,
    seats_of,
    usd_per_hour,
    widths_of,
)
from slacktide.policies.pools.pool_beliefs import PoolBelief, PoolLevels, PoolWarning, Sources, seen_before
from slacktide.policies.pools.rescue import home, terms_in
from slacktide.policies.stochastic_horizon import Prepared, StochasticHorizon
from slacktide.policies.view import View
from slacktide.solvers.pools import joint

MOST_SETS = 216
"""The most combinations of levels that the programme may have: for six pools, 3 * 3 * 3 * 2 * 2 * 2."""
LET_PASS = 3  # for this many slots a programme is used even if something unlikely happened in another pool
WAITS, STAYS, MOVES, STARTS, ON_DEMAND = (
    "waiting-pays", "staying-pays", "moving-pays", "spot-pays", "on-demand-pays",
)  # fmt: skip


IN_ONE_POOL = StochasticHorizon()


@policies.register
@dataclass(frozen=True, slots=True)
class RoamingHorizon:
    """Be in whichever pool is best on average over what history makes likely, up to the deadline.

    For each pool it counts how long spot stays and stays away, and updates what it believes by what it sees
    and by warnings that held spot will be taken. A joint programme over the pools then weighs prices, moves,
    restarts and the deadline. Want it for a job that may use several pools; for a job that may use one
    `stochastic-horizon` decides.
    """

    roams: ClassVar[bool] = True
    heeds_warnings: ClassVar[bool] = True

    most_pools: int = 6  # how many pools are compared; price and chance of spot decide which

    def __post_init__(self) -> None:
        if not 2 <= self.most_pools <= 8:
            raise InputError(f"most_pools must be in 2..8, got {self.most_pools}")

    def decide(self, view: View) -> Allocation:
        if view.places is None or len(view.pools) == 1:
            return IN_ONE_POOL.decide(view)
        return _Turn(self, view).decide()

    def reasons(self) -> tuple[str, ...]:
        return (*IN_ONE_POOL.reasons(), STAYS, MOVES)

    def prepared(self, job: Job, pool: Pool, start: int, neighbours: tuple[Pool, ...]) -> Prepared:
        """Return `stochastic-horizon` prepared for one start of a job that stays in its pool."""
        return IN_ONE_POOL.prepared(job, pool, start, neighbours)

    def prepared_together(
        self, job: Job, futures: Sequence[Pool], start: int, neighbours: tuple[Pool, ...]
    ) -> list[Prepared]:
        """Return `stochastic-horizon` prepared for one start of futures that share their past."""
        return IN_ONE_POOL.prepared_together(job, futures, start, neighbours)

    def effort(self, job: Job, slot_hours: float) -> float:
        """Return how many values are computed for one start in one pool."""
        return IN_ONE_POOL.effort(job, slot_hours)


class SolvedProgramme(NamedTuple):
    """When and for what the programme was solved: the policy's memory from slot to slot."""

    slot: int
    slack_hours: float
    home: int  # the pool in which the job would be on demand
    home_gpus: int
    pools: tuple[int, ...]  # the pools that are compared
    narrower: tuple[int, ...]
    """For each of them the width that is distinguished besides none and the fastest; 0 if there is none."""
    fall: PoolWarning | None = None  # the warning that the job had

    def written(self) -> tuple[float, ...]:
        """Return it as the numbers of an allocation's memory; their count is odd only after a warning."""
        parts = (*self[:4], *self.pools, *self.narrower, *(self.fall or ()))
        return tuple(float(part) for part in parts)

    @classmethod
    def read(cls, numbers: Sequence[float]) -> SolvedProgramme | None:
        """Return what `written` wrote; None if there are too few numbers, as in a job's first slot."""
        warned = len(numbers) % 2 == 1
        if len(numbers) < (9 if warned else 6):
            return None
        slot, slack, home, gpus, *rest = numbers
        parts = [int(part) for part in rest]
        fall = PoolWarning(*parts[-3:]) if warned else None
        parts = parts[:-3] if warned else parts
        half = len(parts) // 2
        return cls(int(slot), slack, int(home), int(gpus), tuple(parts[:half]), tuple(parts[half:]), fall)


class Programme(NamedTuple):
    """A solved programme: the allocations it compares, and what is still to be paid in each state."""

    seats: joint.Seats
    values: Floats  # [slots since, levels of all pools, mode, slack]


class SlotOption(NamedTuple):
    """Something to do in this slot, and what it costs on average from now on."""

    usd: float
    wish: Wish
    rule: str


_programmes: LruCache[tuple[object, ...], Programme] = LruCache(64)


class _Turn:
    """One decision: what is believed, what each option costs, and the wishes that follow."""

    def __init__(self, policy: RoamingHorizon, view: View) -> None:
        assert view.places is not None
        self.view, self.places = view, view.places
        self.every = terms_in(view)
        self.sources = Sources(view)
        self._chances: dict[tuple[int, int, bytes], Floats] = {}
        self._take(self._recalled() or self._begun(policy))
        if self._is_stale():
            self._take(self._begun(policy))
        self.programme = _programmes.get(self._key(), self._solved)

    def _is_stale(self) -> bool:
        """Whether something unlikely was seen in the job's own pool, or, after LET_PASS slots, in any."""
        age = self.view.slot - self.memory.slot
        watched = self.levels if age >= LET_PASS else [self.levels[self.own]]
        return age > 0 and any(levels.surprised for levels in watched)

    def _recalled(self) -> SolvedProgramme | None:
        """Return the memory, or None if it is too old or does not fit what the job holds or was warned of."""
        memory, held = SolvedProgramme.read(self.view.memory), self.view.state.spot_gpus
        if (
            memory is None
            or not 0 <= self.view.slot - memory.slot < KEPT
            or self.view.pool not in memory.pools
            or self._is_news(memory.fall)
        ):
            return None
        own = memory.pools.index(self.view.pool)
        kept = (0, memory.narrower[own], int(self.every[self.view.pool].fastest))
        return memory if held in kept else None

    def _is_news(self, known: PoolWarning | None) -> bool:
        """Whether the job has another warning than the known one, or the known one no longer holds."""
        view, now = self.view, self._fall()
        if now is not None or known is None or known.slot <= view.slot or known.pool != view.pool:
            return now is not None and now != known
        return view.state.spot_gpus >= known.gpus

    def _fall(self) -> PoolWarning | None:
        """Return the job's present warning, None if it has none."""
        slots, view = warned_slots(self.view), self.view
        return None if slots is None else PoolWarning(view.pool, view.slot + slots, view.state.spot_gpus)

    def _begun(self, policy: RoamingHorizon) -> SolvedProgramme:
        """Choose the pools and widths to compare, and where the job would rent on demand."""
        view, every = self.view, self.every
        quotes = [pool.quote for pool in view.pools]
        last = home(every, self.places, quotes, view.state, view.now_hours)
        pools = _screened(view, every, quotes, policy.most_pools, {view.pool, last.pool}, self.sources)
        narrower = self._narrower(pools)
        slack = self._slack_hours(every[last.pool], last.gpus, view.state.progress_gpu_hours)
        return SolvedProgramme(view.slot, slack, last.pool, last.gpus, pools, narrower, self._fall())

    def _narrower(self, pools: Sequence[int]) -> tuple[int, ...]:
        """Return a width to distinguish in each pool: what is held or offered, or else half of the fastest.

        As many pools as MOST_SETS allows have one: those first that more often have it than the fastest.
        """
        found: dict[int, int] = {}
        gaps: dict[int, float] = {}
        for pool in pools:
            one = self.every[pool]
            held = self.view.state.spot_gpus if pool == self.view.pool else 0
            if held and warned_slots(self.view) is not None:
                held = held // 2  # what is held will be taken: distinguish what may be left of it from none
            offered = int(one.fit[min(held or self.view.pools[pool].quote.spot_gpus, one.fastest)])
            found[pool] = offered if 0 < offered < one.fastest else widths_of(one, 2)[0]
            if found[pool] == one.fastest:
                continue
            share = [
                PoolBelief(self.view, pool, gpus, self.sources).long_run
                for gpus in (found[pool], int(one.fastest))
            ]
            gaps[pool] = share[0] - share[1] + (1.0 if offered in range(1, int(one.fastest)) else 0.0)
        several = [pool for pool in pools if found[pool] < self.every[pool].fastest]
        most = int(math.log(MOST_SETS / 2.0 ** len(pools)) / math.log(1.5) + 1e-9)
        chosen = sorted(several, key=lambda pool: -gaps[pool])[:most]
        return tuple(found[pool] if pool in chosen else 0 for pool in pools)

    def _take(self, memory: SolvedProgramme) -> None:
        view = self.view
        self.memory, self.pools = memory, memory.pools
        self.terms = [self.every[pool] for pool in self.pools]
        self.quotes = [view.pools[pool].quote for pool in self.pools]
        self.own, self.home = self.pools.index(view.pool), self.pools.index(memory.home)
        widths = [
            (narrow, int(one.fastest)) if narrow else (int(one.fastest),)
            for narrow, one in zip(memory.narrower, self.terms, strict=True)
        ]
        self.levels = [
            PoolLevels(view, pool, some, self.sources, memory.fall)
            for pool, some in zip(self.pools, widths, strict=True)
        ]
        self.seats = seats_of(widths, self.home, memory.home_gpus)

    def _slack_hours(self, terms: Terms, gpus: int, done_gpu_hours: float, later_hours: float = 0.0) -> float:
        """Return the time left less the time that the rest of the work takes on demand."""
        left = work_hours(terms, done_gpu_hours, gpus)
        return terms.deadline_hours - self.view.now_hours - later_hours - left

    # ------------------------------------------------------------------ the programme

    def _key(self) -> tuple[object, ...]:
        """Return the programme's key in the cache: the run, and all that the programme is made of."""
        begin, half = self.memory.slot * self.view.slot_hours, 0.5 * self.view.slot_hours
        pasts = [self.view.past(pool) for pool in self.pools]
        before = begin - half  # what was tried in that slot was not known when it was solved
        seen = [seen_before(self.view.sightings(at), before) for at in self.pools]
        marks = (past.mark(past.slots_before(begin + half)) for past in pasts)
        return (self.view.id, self.view.job, self.memory, *seen, *marks)

    def _solved(self) -> Programme:
        """Solve the programme as of the slot in the memory."""
        slot_hours, slot = self.view.slot_hours, self.memory.slot
        phase = phase_of(self.terms[0], self.view.state.progress_gpu_hours)
        quotes = [self._quote(at) for at in range(len(self.pools))]
        levels = [1 + len(one.widths) for one in self.levels]
        seats = numbers_of(
            self.seats, levels, self.terms, quotes, self.places, self.pools, phase, self.memory.slack_hours,
            self._late_hours(),
        )  # fmt: skip
        left = self.terms[0].deadline_hours - slot * slot_hours
        edges = borders(left, slot_hours)
        begin: Floats = np.multiply(edges[:-1], slot_hours, dtype=np.float64)
        hours: Floats = np.append(np.diff(begin), left - begin[-1])
        change = np.ascontiguousarray(np.stack([one.chain(slot, edges) for one in self.levels], axis=1))
        pools = len(self.pools)
        kept = min(KEPT + 1, len(hours))
        values = np.empty((kept, math.prod(levels), pools + len(self.seats), len(seats.slack_hours)))
        compiled(joint.solve)(seats, hours, left - begin, change, self._owed(seats), values)
        return Programme(seats, values)

    def _quote(self, at: int) -> Quote:
        """Return what a pool quoted when the programme was solved; its present quote if that is unknown."""
        past, slot = self.view.past(self.pools[at]), self.memory.slot
        last = past.slots_before((slot + 0.5) * self.view.slot_hours) - 1
        recorded = last >= 0 and abs(past.begin_hours(last) - slot * self.view.slot_hours) < 1e-6
        return past[last] if recorded else self.quotes[at]

    def _late_hours(self) -> float:
        """Return how late a result may be and still be worth something."""
        job = self.view.job
        return (
            0.0
            if job.hard or job.worthless_after_hours is None
            else job.worthless_after_hours - job.deadline_hours
        )

    def _owed(self, seats: joint.Seats) -> Floats:
        """Return what is still to be paid at the deadline, by slack: work after it, and the value lost."""
        late = np.maximum(0.0, -seats.slack_hours)
        lost = self.view.job.value_usd * np.minimum(1.0, late / max(self._late_hours(), 1e-9))
        return np.asarray(lost + late * seats.usd_per_hour[-1]) if self._late_hours() > 0.0 else late

    # ------------------------------------------------------------------ the decision

    def decide(self) -> Allocation:
        """Return wishes, the best first: spot that is worth trying, then one that is certain to be had."""
        now = [levels.now() for levels in self.levels]
        chosen: list[SlotOption] = []
        while True:
            certain = min(self._certain(now), key=lambda option: option.usd)
            tries = [(self._start(seat, now), seat) for seat in self._on_spot(now)]
            better = [(option, seat) for option, seat in tries if option.usd < certain.usd - 1e-12]
            if not better:
                chosen.append(certain)
                break
            option, seat = min(better, key=lambda pair: pair[0].usd)
            chosen.append(option)
            if self.levels[seat.pool].is_up(now[seat.pool], seat.spot_gpus):
                break
            now[seat.pool] = self.levels[seat.pool].without(now[seat.pool], seat.level)
        first, *rest = chosen
        known = {**signals(self.view), **warning_of(self.view)}
        figures = {**known, **self._figures(first, now), **self._of_move(first.wish)}
        reason = Reason(first.rule, figures)
        wish = first.wish
        return Allocation(
            wish.spot_gpus, wish.on_demand_gpus, wish.pool, reason, self.memory.written(),
            tuple(option.wish for option in rest),
        )  # fmt: skip

    def _figures(self, option: SlotOption, now: Sequence[Floats]) -> dict[str, float]:
        """Return the reason's figures: the cost of an option, and of the best certain one that costs more."""
        others = [other.usd for other in self._certain(now) if other.usd < joint.IMPOSSIBLE_USD / 2]
        return {
            "expected_usd": option.usd,
            "otherwise_usd": min([usd for usd in others if usd > option.usd] or [option.usd]),
        }

    def _of_move(self, wish: Wish) -> dict[str, float]:
        """Return the reason's figures for a move to spot: how much cheaper it is, how long it has lasted."""
        names = [self.view.pools[pool].name for pool in self.pools]
        if not wish.spot_gpus or wish.pool in {None, names[self.own]}:
            return {}
        at = names.index(wish.pool or "")
        here, there = (self.quotes[one].spot_usd_per_gpu_hour for one in (self.own, at))
        lived = self.levels[at].up_hours(wish.spot_gpus)
        return {"spot_cheaper_usd": here - there, **({"spot_lived_hours": lived} if lived else {})}

    def _on_spot(self, now: Sequence[Floats]) -> list[CandidateAllocation]:
        """Return the seats whose spot may be there now, and seats for offers between two of the widths."""
        found = [seat for seat in self.seats[:-1] if now[seat.pool][seat.level - 1] > 1e-9]
        for at, one in enumerate(self.levels):
            offered = min(self.quotes[at].spot_gpus, int(self.terms[at].fastest))
            gpus = int(self.terms[at].fit[offered])
            if gpus and gpus not in one.widths:
                level = sum(width <= gpus for width in one.widths)
                rest = int(self.terms[at].fastest) - gpus
                found += [CandidateAllocation(at, level, gpus, 0), CandidateAllocation(at, level, gpus, rest)]
        held = self.view.state
        return [
            seat
            for seat in found
            if (seat.pool, seat.spot_gpus, seat.on_demand_gpus)
            != (self.own, held.spot_gpus, held.on_demand_gpus)
        ]

    def _certain(self, now: Sequence[Floats]) -> list[SlotOption]:
        """Return the options that are certain to be had: wait, keep what is held, or rent on demand."""
        state, home = self.view.state, self.seats[-1]
        found = [SlotOption(self._paid(CandidateAllocation(self.own, 0, 0, 0), now), Wish(), WAITS)]
        if state.gpus:
            level = sum(width <= state.spot_gpus for width in self.levels[self.own].widths)
            seat = CandidateAllocation(self.own, level, state.spot_gpus, state.on_demand_gpus)
            found.append(SlotOption(self._paid(seat, now), self._wish(seat), STAYS))
        found.append(SlotOption(self._paid(home, now), self._wish(home), ON_DEMAND))
        return found

    def _start(self, seat: CandidateAllocation, now: Sequence[Floats]) -> SlotOption:
        """Return the option of starting in a seat, if its spot is there."""
        state = self.view.state
        moves = seat.pool != self.own and (state.gpus > 0 or state.progress_gpu_hours > 0.0)
        return SlotOption(self._paid(seat, now), self._wish(seat), MOVES if moves else STARTS)

    def _wish(self, seat: CandidateAllocation) -> Wish:
        return Wish(seat.spot_gpus, seat.on_demand_gpus, self.view.pools[self.pools[seat.pool]].name)

    def _paid(self, seat: CandidateAllocation, now: Sequence[Floats]) -> float:
        """Return what being in a seat in this slot costs on average from now on, a move included."""
        view, terms, pool = self.view, self.terms[seat.pool], self.pools[seat.pool]
        spot, on_demand = seat.spot_gpus, seat.on_demand_gpus
        after, passed = pass_time(terms, view.state, view.now_hours, view.hours, pool, spot, on_demand)
        moves = spot + on_demand > 0 and view.state.progress_gpu_hours > 0.0
        fee = float(self.programme.seats.move_usd[self.own, seat.pool]) if moves else 0.0
        usd = usd_per_hour(self.quotes[seat.pool], spot, on_demand)
        if after.finish_hours < math.inf:
            return fee + usd * (view.hours if view.job.billing == "slot" else passed.hours)
        slack = self._slack_hours(
            self.terms[self.home], self.memory.home_gpus, self._kept_gpu_hours(seat, after),
            view.hours + after.pause_hours,
        )  # fmt: skip
        chances = np.stack([self._next(at, now[at], seat) for at in range(len(self.pools))])
        mode = seat.pool if self._goes(seat) else self._mode(seat)
        return fee + usd * view.hours + self._ahead(mode, slack, chances)

    def _goes(self, seat: CandidateAllocation) -> bool:
        """Whether a warning says that a seat's spot is taken at the end of this slot."""
        fall = self.memory.fall
        if fall is None or (fall.pool, fall.slot) != (self.pools[seat.pool], self.view.slot + 1):
            return False
        return seat.spot_gpus >= fall.gpus

    def _kept_gpu_hours(self, seat: CandidateAllocation, after: JobState) -> float:
        """Return the progress after this slot, less what is lost if its spot is warned to go then."""
        fall = self.memory.fall
        if fall is None or not self._goes(seat):
            return after.progress_gpu_hours
        return float(lose(self.terms[seat.pool], after, fall.gpus - 1).progress_gpu_hours)

    def _next(self, at: int, now: Floats, seat: CandidateAllocation) -> Floats:
        """Return the chances of a pool's levels in the next slot while the job is in a seat."""
        level = seat.level if at == seat.pool else 0
        key = (at, level, now.tobytes())
        if key not in self._chances:
            self._chances[key] = self.levels[at].next(now, level)
        return self._chances[key]

    def _mode(self, seat: CandidateAllocation) -> int:
        """Return the mode of the programme for the widest like seat within a seat; idle if there is none."""
        pools = len(self.pools)
        if seat.level == 0:
            is_home = (seat.pool, seat.spot_gpus) == (self.home, 0) and seat.on_demand_gpus
            return pools + len(self.seats) - 1 if is_home else seat.pool
        below = [
            (other.spot_gpus, at)
            for at, other in enumerate(self.seats[:-1])
            if other.pool == seat.pool
            and other.spot_gpus <= seat.spot_gpus
            and (other.on_demand_gpus > 0) == (seat.on_demand_gpus > 0)
        ]
        return pools + max(below)[1] if below else seat.pool

    def _ahead(self, mode: int, slack_hours: float, chances: Floats) -> float:
        """Return what is still to be paid after this slot, on average over what pools will offer."""
        seats, values = self.programme
        since = self.view.slot + 1 - self.memory.slot
        if since >= len(values):  # the deadline comes with this slot
            if slack_hours < seats.slack_hours[0] - 1e-9:
                return joint.IMPOSSIBLE_USD
            return float(np.interp(slack_hours, seats.slack_hours, self._owed(seats)))
        return float(compiled(joint.expected_usd)(seats, values[since], chances, mode, slack_hours))


def _screened(
    view: View,
    terms: Sequence[Terms],
    quotes: Sequence[Quote],
    most: int,
    needed: set[int],
    sources: Sources,
) -> tuple[int, ...]:
    """Return the pools to compare: those needed, then the best by price and chance of spot."""
    if len(terms) <= most:
        return tuple(range(len(terms)))

    def usd_per_work(pool: int) -> float:
        one, price = terms[pool], quotes[pool].spot_usd_per_gpu_hour
        belief = PoolBelief(view, pool, widths_of(one, 2)[0], sources)
        share = 0.5 * (belief.up + belief.long_run)  # the near future is like now, the rest like the average
        return price * float(one.fastest) / float(one.rate[0, one.fastest]) / max(share, 1e-3)

    ranked = sorted((pool for pool in range(len(terms)) if pool not in needed), key=usd_per_work)
    return tuple(sorted([*needed, *ranked[: most - len(needed)]]))
