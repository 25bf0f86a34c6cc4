"""Exact simulation of a fleet's jobs on one market, from event to event; `run.run_fleet` drives it.

At every border of the market's slots pools take back the spot that they no longer offer; then the allocator
decides about all jobs, as it does when a job comes or ends. An allocator that makes promises first decides
whether to admit a job. Wishes are cut to what is available, so spot is never sold twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, PoolOffers, work_of
from slacktide.allocators.view import (
    Admitting,
    Allocator,
    Decision,
    FleetView,
    Money,
    Pricing,
    SiteView,
    Standing,
    Wanted,
)
from slacktide.budget.allowance import Spending
from slacktide.budget.stream import numbers_in_class
from slacktide.core.arrays import Ints, empty_columns
from slacktide.core.compiled import compiled
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Reason, Refusal
from slacktide.market.tape import PoolView
from slacktide.results.fleet import FleetRun, HeldStretches, SlotRecords
from slacktide.simulation.fleet import market_kernel as kernel
from slacktide.simulation.fleet.market_kernel import Orders, Sums
from slacktide.simulation.fleet.market_views import LazySpot, MarketRows, Pasts, columns_of, orders_of
from slacktide.simulation.fleet.scene import FleetScene

PATIENCE_SLOTS = 200_000
"""After this many slots beyond the last arrival a run is given up: some jobs are never served."""
IDLE_SLOTS = 2_000  # so is one in which nothing was held for this many slots after the last arrival


class MarketWorld:
    """The state of one run of a fleet on a market: its jobs, what they hold, and what they cost."""

    def __init__(
        self, scene: FleetScene, allocator: Allocator, *, plain: bool, keep: bool, stop_hours: float
    ) -> None:
        self.scene, self.allocator, self.keep = scene, allocator, keep
        self._plain, self._stop_hours = plain, stop_hours
        count = len(scene.members)
        self.kinds, self.jobs = scene.kinds, scene.job_tables()
        self.orders = Orders(self.jobs.pool.copy(), *np.zeros((2, count), dtype=np.int64))
        self.sums = Sums.empty(count)
        self.pasts = Pasts(scene)
        self.offer: PoolOffers
        self.spending = Spending()
        self.active: list[int] = []
        self.refused: dict[int, Refusal] = {}
        self.records: list[tuple[float, ...]] = []
        self.stretches: list[tuple[Any, ...]] = []
        self.reasons: list[tuple[float, int, Reason]] = []
        self.now_hours, self.slot, self.came, self.idle_slots = 0.0, -1, 0, 0
        self.most_spent_share = 0.0
        self._number = numbers_in_class(self.jobs.kind)

    def moments(self) -> Iterator[int]:
        while self._goes_on():
            self._begin_slot()
            ends = (self.slot + 1) * self.scene.slot_hours
            self._arrive()
            if self.active:
                yield self.came - len(self.active)
            self._note()
            while self.now_hours < ends - TIME_TOLERANCE_HOURS:
                renewal = self._renewal()
                ended = self._pass(min(ends, self._next_arrival(), renewal))
                if self.now_hours >= ends - TIME_TOLERANCE_HOURS:
                    break  # jobs that come now arrive after the market has changed
                happened = self._arrive() or ended or self.now_hours >= renewal - TIME_TOLERANCE_HOURS
                if happened and self.active:
                    yield self.came - len(self.active)

    def _goes_on(self) -> bool:
        """Whether to simulate another slot: jobs will come, or those present may yet be served."""
        if self.now_hours >= self._stop_hours or (self.came == len(self.scene.members) and not self.active):
            return False
        if self.came < len(self.scene.members):
            return True
        holds = any(self.orders.spot_gpus[self.active]) or any(self.orders.on_demand_gpus[self.active])
        # An allocator may wait for spot on purpose, so a run is given up only after very many empty slots.
        self.idle_slots = 0 if holds else self.idle_slots + 1
        late = self.slot - self.scene.hours / self.scene.slot_hours
        return self.idle_slots <= IDLE_SLOTS and late <= PATIENCE_SLOTS

    def _begin_slot(self) -> None:
        """Go to the next slot of the market; spot that it no longer offers is taken back."""
        self.slot += 1
        self.now_hours = self.slot * self.scene.slot_hours
        self.offer = self.scene.offers(self.slot)
        self.pasts.append(self.offer)
        if self.active:
            self._fn("take_back")(self._active(), self.kinds, self.jobs, self.orders, self.sums, self.offer)

    def _next_arrival(self) -> float:
        members = self.scene.members
        return members[self.came].submitted_hours if self.came < len(members) else math.inf

    def _renewal(self) -> float:
        return self.scene.allowance.period(self.now_hours).until_hours

    def _pass(self, until_hours: float) -> bool:
        """Let time pass until the next job ends, or until `until_hours`; return whether a job ended."""
        if not self.active:
            self.now_hours = until_hours
            return False
        active = self._active()
        ends = self._fn("next_end")(active, self.kinds, self.jobs, self.orders, self.now_hours, until_hours)
        # An end this close to the border counts as at the border; deadlines have the same tolerance.
        until = until_hours if ends >= until_hours - TIME_TOLERANCE_HOURS else ends
        before = self._before(active)
        spent, ended = self._fn("pass_time")(
            active, self.kinds, self.jobs, self.orders, self.sums, self.offer, self.slot,
            self.scene.slot_hours, self.now_hours, until - self.now_hours,
        )  # fmt: skip
        self._spend(until, spent)
        self._kept(active, before)
        self.now_hours = until
        if ended:
            done = (self.sums.finish_hours < np.inf) | (self.sums.stopped > 0)
            self.active = [job for job in self.active if not done[job]]
        return bool(ended)

    def _spend(self, until_hours: float, usd: float) -> None:
        """Record what was spent; a stretch belongs to the period in which it began."""
        period = self.scene.allowance.period(self.now_hours)
        self.spending.add(min(until_hours, period.until_hours), usd)
        if period.budget_usd < math.inf:
            spent = self.spending.since(period.since_hours)
            self.most_spent_share = max(self.most_spent_share, spent / period.budget_usd)

    def _arrive(self) -> bool:
        present = len(self.active)
        while self._next_arrival() <= self.now_hours + TIME_TOLERANCE_HOURS:
            job, self.came = self.came, self.came + 1
            refusal = None
            if isinstance(self.allocator, Admitting):
                refusal = self.allocator.admit(self._view([*self.active, job]))
            if refusal is None:
                self.active.append(job)
            else:
                self.refused[job] = refusal
        return len(self.active) > present

    def view(self) -> FleetView:
        return self._view(self.active)

    def read(self, decision: Decision, view: FleetView) -> Orders:
        wanted = orders_of(decision, view)
        if self.keep:
            self._explain(decision, wanted)
        return wanted

    def hold(self, wanted: Orders) -> None:
        self._fn("settle")(
            self._active(), self.kinds, self.jobs, self.orders, wanted, self.offer,
            self.scene.on_demand_gpus, self.now_hours,
        )  # fmt: skip

    def _view(self, active: Sequence[int]) -> FleetView:
        scene = self.scene
        ids = np.array(active, dtype=np.int64)
        jobs = JobTables._make(column[ids] for column in self.jobs)
        quotes = zip(*(column.tolist() for column in self.offer), strict=True)
        site = SiteView(
            slot=self.slot,
            slot_hours=scene.slot_hours,
            next_hours=(self.slot + 1) * scene.slot_hours,
            pools=tuple(
                PoolView(pool.name, Quote(*row)) for pool, row in zip(scene.pools, quotes, strict=True)
            ),
            kinds=scene.kinds,
            jobs=jobs,
            money=self._money(),
            known=self.pasts,
            on_demand_gpus=scene.on_demand_gpus,
        )
        shown = MarketRows(scene, site, ids, self.now_hours, self.pasts)
        gpus = int(jobs.gpus.sum())
        return FleetView(
            now_hours=self.now_hours,
            fleet=scene.fleet,
            jobs=columns_of(scene.kinds, jobs, ids, self._number[ids]),
            due=range(len(ids)),
            ready_gpus=gpus,
            rented_gpus=gpus,
            spent_gpu_hours=0.0,
            spot=LazySpot(shown.claims),
            shown=shown,
            site=site,
        )

    def _money(self) -> Money:
        period = self.scene.allowance.period(self.now_hours)
        return Money(
            budget_usd=period.budget_usd,
            spent_usd=self.spending.since(period.since_hours),
            usd_per_hour=self.scene.allowance.usd_per_hour,
            since_hours=period.since_hours,
            until_hours=period.until_hours,
            ever_usd=self.spending.total_usd,
        )

    def _note(self) -> None:
        standing = self.allocator.standing if isinstance(self.allocator, Pricing) else Standing()
        orders, active = self.orders, self.active
        spot, on_demand = orders.spot_gpus[active], orders.on_demand_gpus[active]
        period = self.scene.allowance.period(self.now_hours)
        self.records.append(
            (
                self.now_hours,
                self.spending.since(period.since_hours),
                standing.reserved_usd,
                standing.usd_per_job_hour,
                int((spot + on_demand == 0).sum()),
                len(active),
                int(spot.sum()),
                int(on_demand.sum()),
                int(self.offer.spot_gpus.sum()),
            )
        )

    def _before(self, active: Ints) -> tuple[Any, ...]:
        if not self.keep:
            return ()
        orders, sums = self.orders, self.sums
        columns = (orders.pool, orders.spot_gpus, orders.on_demand_gpus, self.jobs.cost_usd)
        return (
            *(column[active] for column in columns),
            sums.pause_gpu_hours[active],
            sums.held_hours[active],
        )

    def _kept(self, active: Ints, before: tuple[Any, ...]) -> None:
        if not before:
            return
        pool, spot, on_demand, cost, pause, held = before
        hours = self.sums.held_hours[active] - held
        gpus = np.maximum(spot + on_demand, 1)
        rows = hours > 0
        count = len(active)
        columns = (
            active, np.full(count, self.slot), np.full(count, self.now_hours), self.now_hours + hours, pool,
            spot, on_demand, self.jobs.cost_usd[active] - cost,
            (self.sums.pause_gpu_hours[active] - pause) / gpus,
        )  # fmt: skip
        self.stretches.append(tuple(column[rows] for column in columns))

    def _explain(self, decision: object, wanted: Orders) -> None:
        if not (isinstance(decision, Wanted) and decision.why):
            return
        jobs = self.jobs
        for place, job in enumerate(self.active):
            new = wanted.pool[place], wanted.spot_gpus[place], wanted.on_demand_gpus[place]
            if new != (jobs.pool[job], jobs.spot_gpus[job], jobs.on_demand_gpus[job]):
                self.reasons.append((self.now_hours, job, decision.why(place)))

    def _fn(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(kernel, name)
        return function if self._plain else compiled(function)

    def _active(self) -> Ints:
        return np.array(self.active, dtype=np.int64)

    def result(self, name: str) -> FleetRun:
        jobs, sums = self.jobs, self.sums
        records = empty_columns(SlotRecords, len(self.records))
        for column, kept in zip(records, zip(*self.records, strict=True), strict=False):
            column[:] = kept
        return FleetRun(
            policy=name,
            submitted_hours=jobs.submitted_hours,
            deadline_hours=jobs.deadline_hours,
            hard=np.isfinite(jobs.deadline_hours) & (jobs.worthless_hours <= jobs.deadline_hours),
            kind=jobs.kind,
            work_gpu_hours=work_of(self.kinds, jobs),
            finish_hours=sums.finish_hours,
            cost_usd=jobs.cost_usd,
            on_demand_usd=sums.on_demand_usd,
            spot_gpu_hours=sums.spot_gpu_hours,
            on_demand_gpu_hours=sums.on_demand_gpu_hours,
            pause_gpu_hours=sums.pause_gpu_hours,
            losses=sums.losses,
            starts=sums.starts,
            refused=self.refused,
            moments=records,
            most_spent_share=self.most_spent_share,
            held=self._held(),
            reasons=self.reasons,
        )

    def _held(self) -> HeldStretches | None:
        if not self.keep:
            return None
        if not self.stretches:
            return empty_columns(HeldStretches, 0)
        return HeldStretches(*(np.concatenate(column) for column in zip(*self.stretches, strict=True)))
