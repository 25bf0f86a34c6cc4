"""Shadow prices: allocates a fleet by prices of waiting and spot, and refuses deadlines it cannot promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.prices.budget_reserve import (
    FULL,
    NO_MONEY,
    ON_DEMAND,
    RESCUE,
    SHORT,
    SPOT,
    WAITS,
    Holdings,
    keep_to_budget,
    reserves,
)
from slacktide.allocators.prices.cost_tables import MarketRates, TableBook
from slacktide.allocators.prices.deadline_guarantees import can_be_rescued, is_hard
from slacktide.allocators.prices.on_demand_quota import (
    Windows,
    first_gap,
    keep_to_quota,
    most_needed,
    rescue_needs,
    rescue_windows,
)
from slacktide.allocators.prices.pacing import Pacing, Promised
from slacktide.allocators.prices.site_rules import moment_of, site_of
from slacktide.allocators.prices.spot_auction import Tuning, WayCosts, clear, find_ways, gain_usd
from slacktide.allocators.prices.spot_statistics import SpotStatistics, loss_rate
from slacktide.allocators.site.job_tables import PoolOffers, SiteMoment, state_of, terms_of, work_of
from slacktide.allocators.view import BUDGET_SHORT, FleetView, OldMemory, SiteView, Standing, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Reason, Refusal
from slacktide.core.units import format_duration, format_usd
from slacktide.physics.progress import finish_in

FORM = 2  # the version of what `remember` returns
TABLE_HOURS = 2.0  # how often the tables of what jobs will cost are made again
RULES = {
    SPOT: "spot",
    ON_DEMAND: "on-demand",
    RESCUE: "deadline-rescue",
    WAITS: "waits",
    NO_MONEY: "no-money",
    SHORT: BUDGET_SHORT,
    FULL: "quota-full",
}


@allocators.register
@dataclass(frozen=True, slots=True)
class ShadowPrices:
    """Give all jobs of a fleet what is worth its price: of money, of scarce spot, of time until deadlines.

    An hour of waiting is priced so that the budget just lasts for its period. Decisions count a rent for
    scarce spot, which nobody pays. Admitted hard deadlines are met by on-demand GPUs alone if need be, and
    money for that is kept in reserve, so the budget is never exceeded; what cannot be promised is refused.
    """

    hour_usd: float | None = None  # what an hour of waiting is worth; None: as the budget allows
    reserve: bool = True  # whether the budget is never exceeded; otherwise it is only a target
    tenure_hours: float = 0.25  # how long a rent that differs from the mean is assumed to last
    patience_share: float = 0.1
    """A job rents on demand after this share of the hours of waiting that the extra cost is worth."""
    needs_market: ClassVar[bool] = True
    needs_sizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("tenure_hours", "patience_share"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be > 0, got {getattr(self, name):g}")
        if self.hour_usd is not None and not 0 < self.hour_usd < math.inf:
            raise InputError(f"hour_usd must be > 0, got {self.hour_usd:g}")

    def begin(self, fleet: Fleet | None) -> PricesRun:
        """Return the allocator of one run, which learns from then on."""
        return PricesRun(self, Pacing(Promised.of(fleet)))


@dataclass(slots=True)
class PricesRun:
    """The allocator of one run: decides by prices, and learns them."""

    given: ShadowPrices
    pacing: Pacing = field(default_factory=Pacing)
    beliefs: SpotStatistics = field(default_factory=SpotStatistics)
    slot: int = -1
    next_table_slot: int = 0
    hour_usd: float = math.nan
    market: MarketRates | None = None  # what the tables were made from; the next field: the mean rents then
    usual_rent_usd: list[float] = field(default_factory=list)
    book: TableBook | None = None
    standing: Standing = field(default_factory=Standing)

    # ---------------------------------------------------------------- decisions

    def decide(self, view: FleetView) -> Wanted:
        site, moment = _site(view), _moment(view)
        prices = moment.prices
        fresh = site.slot > self.slot
        if fresh:
            self._learn(view, prices)
        tuning = self._tuning(site, prices)
        widths, count = tuning.tables.widths, len(site.jobs.kind)
        ways = WayCosts.empty(count, len(prices.spot_usd), len(widths))
        compiled(find_ways)(moment, tuning, ways)
        pools, picked = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        rent = np.zeros(len(prices.spot_usd))
        compiled(clear)(ways, widths, prices, tuning.rent_usd, rent, pools, picked)
        held = _held(site, widths, ways, pools, picked)
        compiled(keep_to_quota)(site.jobs, site.on_demand_gpus, ways, held)
        left_usd = site.money.left_usd if self.given.reserve else math.inf
        kept = compiled(keep_to_budget)(
            moment, left_usd, site.money.until_hours - view.now_hours, ways,
            _gains(ways, widths, pools, picked), held,
        )  # fmt: skip
        if fresh:
            before = self.beliefs.last_rent_usd
            self.beliefs.last_rent_usd = np.where(prices.spot_gpus > 0, rent, before).tolist()
        self.standing = Standing(kept, self.hour_usd, tuple(rent.tolist()))
        explained = _Explanation(self, view, moment, tuning, ways, held, rent)
        return Wanted(held.on_demand_gpus, held.spot_gpus, pool=held.pool, why=explained.reason)

    def _learn(self, view: FleetView, prices: PoolOffers) -> None:
        """Update what is known of waits, rents and prices, at the first decision of a slot."""
        site = _site(view)
        self.slot = site.slot
        self.beliefs.look(view, prices)
        spot_usd, on_demand_usd = min(self.beliefs.spot_usd), float(prices.on_demand_usd.min())
        paced = self.pacing.hour_usd(view, spot_usd, on_demand_usd)
        self.hour_usd = paced if self.given.hour_usd is None else self.given.hour_usd

    # ---------------------------------------------------------------- what jobs will cost

    def _tuning(self, site: SiteView, prices: PoolOffers) -> Tuning:
        """Return the tables of what jobs will cost, made again every TABLE_HOURS, and each job's row."""
        if self.market is None or self.slot >= self.next_table_slot:
            self.market, self.usual_rent_usd = self._market(site, prices), list(self.beliefs.rent_usd)
            self.next_table_slot = self.slot + max(1, round(TABLE_HOURS / site.slot_hours))
            self.book = None
        if self.book is None:
            self.book = TableBook(self.market, site.slot_hours)
        due = np.isfinite(site.jobs.deadline_hours)
        # Rows go by the pace in a job's file: to these tables another pace is more or less work.
        rows = self.book.rows(site.kinds, site.jobs.said_kind, work_of(site.kinds, site.jobs), due)
        return Tuning(
            self.book.tables, rows, self.market, np.array(self.usual_rent_usd), self.given.tenure_hours,
            self.given.patience_share,
        )  # fmt: skip

    def _market(self, site: SiteView, prices: PoolOffers) -> MarketRates:
        beliefs = self.beliefs
        return MarketRates(
            offer_rate=beliefs.open.rate,
            deadline_offer_rate=beliefs.due.rate,
            loss_rate=loss_rate(site),
            spot_usd=min(usd + rent for usd, rent in zip(beliefs.spot_usd, beliefs.rent_usd, strict=True)),
            on_demand_usd=float(prices.on_demand_usd.min()),
            hour_usd=self.hour_usd,
        )

    # ---------------------------------------------------------------- promises

    def admit(self, view: FleetView) -> Refusal | None:
        """Refuse a hard deadline that on-demand GPUs could not meet, or not with the money that is left.

        Also one with which all rescues together might need more on-demand GPUs than the fleet may hold.
        """
        site, moment = _site(view), _moment(view)
        jobs, job = site.jobs, len(site.jobs.kind) - 1
        if not compiled(is_hard)(jobs, job):
            return None
        state = compiled(state_of)(jobs, job)
        if not compiled(can_be_rescued)(site.kinds, jobs, job, state, view.now_hours):
            return self._too_soon(view)
        if site.on_demand_gpus < UNLIMITED_GPUS and (full := self._too_many(site, moment)) is not None:
            return full
        if not self.given.reserve:
            return None
        usd = compiled(reserves)(moment)
        free = site.money.left_usd - float(usd[:-1].sum())
        if float(usd[-1]) <= free:
            return None
        return self._too_expensive(view, moment.prices, float(usd[-1]), free)

    def _too_many(self, site: SiteView, moment: SiteMoment) -> Refusal | None:
        """Refuse a job whose rescue may exceed the on-demand quota, with the soonest deadline that fits."""
        jobs, quota, job = site.jobs, site.on_demand_gpus, len(site.jobs.kind) - 1
        windows = compiled(rescue_windows)(moment)
        gpus, start, end = (int(windows.gpus[job]), *(float(one[job]) for one in windows[:2]))
        if gpus > quota:
            why = f"this job may need {gpus} on-demand GPUs, should spot be gone; the fleet may hold {quota}"
            return Refusal(why, gpus=quota)
        others = Windows._make(column[:-1] for column in windows)
        needed = compiled(most_needed)(others, start, end)
        if needed + gpus <= quota:
            return None
        hours = compiled(rescue_needs)(site.kinds, jobs, job)[0] + site.slot_hours
        later = compiled(first_gap)(others, start, hours, gpus, quota) + hours
        return Refusal(
            f"this job may need {gpus} on-demand GPUs, should spot be gone; up to {needed} of the {quota} "
            "that the fleet may hold are kept for other deadlines then",
            deadline_hours=later - float(jobs.submitted_hours[job]),
        )

    def _too_soon(self, view: FleetView) -> Refusal:
        site = _site(view)
        job = len(site.jobs.kind) - 1
        finish = min(float(one) for one in _finishes(site, view.now_hours).values())
        soonest = finish - float(site.jobs.submitted_hours[job])
        due = float(site.jobs.deadline_hours[job] - site.jobs.submitted_hours[job])
        return Refusal(
            f"this job needs {format_duration(soonest)} on demand, its deadline is in {format_duration(due)}",
            deadline_hours=soonest,
        )

    def _too_expensive(self, view: FleetView, prices: PoolOffers, usd: float, free: float) -> Refusal:
        """Refuse a job, with the budget it would need and the widest width that free money could rescue."""
        site = _site(view)
        job = len(site.jobs.kind) - 1
        limit, now = float(site.jobs.deadline_hours[job]), view.now_hours
        narrower = [
            gpus
            for (pool, gpus), finish in _finishes(site, now).items()
            if finish <= limit and prices.on_demand_usd[pool] * gpus * (finish - now) <= free
        ]
        return Refusal(
            f"this job may need {format_usd(usd)}, should spot be gone; {format_usd(max(free, 0.0))} of the "
            "budget are neither spent nor reserved",
            budget_usd=site.money.budget_usd + usd - free,
            gpus=max(narrower, default=None),
        )

    # ---------------------------------------------------------------- memory

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values."""
        return {
            "form": FORM,
            "pacing": self.pacing.remember(),
            "beliefs": self.beliefs.remember(),
            "slot": self.slot,
            "next_table_slot": self.next_table_slot,
            "hour_usd": None if math.isnan(self.hour_usd) else self.hour_usd,
            "market": None if self.market is None else list(self.market),
            "usual_rent_usd": self.usual_rent_usd,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else; raises OldMemory for what another version wrote."""
        if memory.get("form") != FORM:
            raise OldMemory(
                f"what shadow-prices wrote down must be of form {FORM}, got {memory.get('form', 1)}, which "
                "another version wrote; it begins to learn anew"
            )
        self.pacing = self.pacing.recalled(memory["pacing"])
        self.beliefs = SpotStatistics.recalled(memory["beliefs"])
        self.slot, self.next_table_slot = memory["slot"], memory["next_table_slot"]
        self.hour_usd = math.nan if memory["hour_usd"] is None else memory["hour_usd"]
        self.market = None if memory["market"] is None else MarketRates(*memory["market"])
        self.usual_rent_usd = list(memory["usual_rent_usd"])
        self.book = None


@dataclass(frozen=True, slots=True)
class _Explanation:
    """Makes the reasons of a decision, only for jobs whose reasons are reported."""

    run: PricesRun
    view: FleetView
    moment: SiteMoment
    tuning: Tuning
    ways: WayCosts
    held: Holdings
    rent_usd: Floats

    def reason(self, place: int) -> Reason:
        """Return the rule that decided about a job, and its figures."""
        site, ways, held = _site(self.view), self.ways, self.held
        pool, spot = int(held.pool[place]), int(held.spot_gpus[place])
        money = site.money
        signals = {"hour_usd": self.run.hour_usd}
        if math.isfinite(money.budget_usd):
            signals["spent_share"] = money.spent_usd / money.budget_usd
        if math.isfinite(money.until_hours) and money.until_hours > money.since_hours:
            length = money.until_hours - money.since_hours
            signals["period_share"] = (self.view.now_hours - money.since_hours) / length
        if held.why[place] == SHORT:
            rescue_usd = float(compiled(reserves)(self.moment)[place])
            signals |= {"rescue_usd": rescue_usd, "left_usd": money.left_usd}
        if self.rent_usd[pool] > 0.0:
            signals["scarcity_usd"] = float(self.rent_usd[pool])
        if spot > 0:
            signals |= self._narrower(place, pool, spot)
        elif held.on_demand_gpus[place] == 0 and np.isfinite(ways.patience_hours[place]):
            signals["offer_hours"] = 1.0 / self.run.beliefs.open.rate
            signals["patience_hours"] = float(ways.patience_hours[place])
        return Reason(RULES[int(held.why[place])], signals)

    def _narrower(self, place: int, pool: int, spot: int) -> dict[str, float]:
        """Return how much later and cheaper the job would end on the next narrower width."""
        kinds, jobs, tables = self.moment.kinds, self.moment.jobs, self.tuning.tables
        rates = tables.rate[self.tuning.row[place]]
        at = int(np.searchsorted(tables.widths, spot))
        below = [way for way in range(at) if rates[way] > 0.0]
        if not below or rates[at] <= 0.0:
            return {}
        other, work = below[-1], float(work_of(kinds, jobs)[place] - jobs.progress_gpu_hours[place])
        gpus = int(tables.widths[other])
        price = float(self.moment.prices.spot_usd[pool])
        slower = work / rates[other] - work / rates[at]
        saves = price * (spot * work / rates[at] - gpus * work / rates[other])
        return {"narrower_gpus": float(gpus), "later_hours": float(slower), "saved_usd": float(saves)}


def _site(view: FleetView) -> SiteView:
    return site_of(view, "shadow-prices")


def _moment(view: FleetView) -> SiteMoment:
    return moment_of(view, "shadow-prices")


def _held(site: SiteView, widths: Ints, ways: WayCosts, pools: Ints, picked: Ints) -> Holdings:
    """Return what jobs are to hold by the ways that they picked; -1 is the way without spot."""
    on_spot = picked >= 0
    spot = np.where(on_spot, widths[picked], 0)
    on_demand = np.where(on_spot, 0, ways.without_gpus)
    pool = np.where(on_spot, pools, np.where(on_demand > 0, ways.without_pool, site.jobs.pool))
    why = np.where(on_spot, SPOT, np.where(on_demand > 0, np.where(ways.forced, RESCUE, ON_DEMAND), WAITS))
    return Holdings(
        *(np.ascontiguousarray(column, dtype=np.int64) for column in (pool, spot, on_demand, why))
    )


def _gains(ways: WayCosts, widths: Ints, pools: Ints, picked: Ints) -> Floats:
    """Return what each job gains per GPU-hour of the spot it picked; the lowest gain gives way first."""
    return np.array(
        [
            gain_usd(ways, widths, job, int(pools[job]), int(picked[job])) if picked[job] >= 0 else 0.0
            for job in range(len(picked))
        ]
    )


def _finishes(site: SiteView, now_hours: float) -> dict[tuple[int, int], float]:
    """Return when the last job of the site would be done on demand, by pool and width."""
    job, kinds = len(site.jobs.kind) - 1, site.kinds
    state, found = state_of(site.jobs, job), dict[tuple[int, int], float]()
    for pool in range(kinds.fit.shape[1]):
        if kinds.fastest[site.jobs.kind[job], pool]:
            terms = terms_of(kinds, site.jobs, job, pool)
            for gpus in np.unique(terms.fit[terms.fit > 0]).tolist():
                found[pool, gpus] = finish_in(terms, state, now_hours, pool, gpus, 0)
    return found
