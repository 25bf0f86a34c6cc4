"""Stochastic horizon: fits a Markov model of the market and maximises expected utility up to the deadline."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import inlined
from slacktide.core.errors import InputError
from slacktide.core.types import Allocation, Job, Reason
from slacktide.market.base import LruCache, Pool
from slacktide.market.forecast import markov
from slacktide.market.forecast.base import clock, hour_of_day
from slacktide.market.tape import Mark, Past, first_hours
from slacktide.physics.progress import work_hours
from slacktide.policies.base import (
    Context,
    RuleChoice,
    Sight,
    policies,
    sight,
    signals,
    warned_slots,
    warning_of,
)
from slacktide.policies.view import View
from slacktide.solvers import expected
from slacktide.solvers.slotted import Slotted, deadline_slots, slotted

LONGEST_AGE = 256  # slots to look back for the age of a spell; older than the oldest bin
LEAST_WORK = 0.7
"""If the work is uncertain, tables are made for this share of it, about a standard deviation less. A job with
even less work has so much slack that more would change no decision."""
SPREAD_CELLS, SPREAD_FINER = 1.25, 1.5
"""How many times as many cells such a table has, and how many times more it may have to make pauses whole
numbers of cells: on a real H100 market 5 cells to a slot instead of 3 paid the same, within 0.1 %, and on
eight synthetic ones within the error of 1 %."""
FEWEST_CELLS = 10
NEVER_HOURS = 1e6  # hours between refits of a policy that no longer learns
IDLE, SPOT, ON_DEMAND, BOTH = range(4)


class DecisionTable(NamedTuple):
    """The decisions for a stretch of slots whose market is known, ready to be looked up."""

    first: int  # the job's slot in which the stretch begins
    actions: expected.Actions
    spot: Ints
    on_demand: Ints
    cell: Ints
    unit: int
    pause: Floats
    step: float
    most: float


@inlined
def look_up(table: DecisionTable, sight: Sight) -> RuleChoice:
    """Return the decision for what is held, the pause ahead, the slack and the market's state."""
    terms, state = sight.terms, sight.state
    left = work_hours(terms, state.progress_gpu_hours, terms.fastest)
    slack = terms.deadline_hours - sight.now_hours - left
    down = math.ceil((table.most - slack) / table.step - 1e-6)
    down = min(max(down, 0), table.actions.shape[3] - 1)
    pause = 0
    for at in range(len(table.pause)):
        if abs(table.pause[at] - state.pause_hours) < abs(table.pause[pause] - state.pause_hours):
            pause = at
    held = table.cell[state.spot_gpus // table.unit, state.on_demand_gpus // table.unit]
    best = table.actions[sight.slot - table.first, held, pause, down]
    spot, on_demand = table.spot[best], table.on_demand[best]
    if terms.fit[spot + on_demand] != spot + on_demand:
        # No plan is in time from here, so the table names what the market left, maybe not an allowed width.
        spot, on_demand = 0, terms.fastest
    why = (
        BOTH if spot > 0 and on_demand > 0 else (SPOT if spot > 0 else (ON_DEMAND if on_demand > 0 else IDLE))
    )
    return RuleChoice(spot, on_demand, why)


@policies.register
@dataclass(frozen=True, slots=True)
class StochasticHorizon:
    """Decide what is best on average over the markets that history makes likely, up to the deadline.

    A Markov model of availability (level, age of the spell, time of day) and price is counted from the
    past of this pool and its neighbours, and the expected utility to the deadline is maximised exactly.
    Want it wherever there is some history; without any it starts from a prior. After a warning that spot
    will be taken, it counts only futures in which it is.
    """

    heeds_warnings: ClassVar[bool] = True

    refit_hours: float = 24.0  # how often the model learns from what has happened since
    cells: int = 120  # how finely slack is divided

    def __post_init__(self) -> None:
        if not (math.isfinite(self.refit_hours) and self.refit_hours > 0):
            raise InputError(f"refit_hours must be > 0, got {self.refit_hours:g}")
        if not FEWEST_CELLS <= self.cells <= 10_000:
            raise InputError(f"cells must be in {FEWEST_CELLS}..10000, got {self.cells}")

    def decide(self, view: View) -> Allocation:
        own = view.past()
        others = [view.past(at) for at in range(len(view.pools)) if at != view.pool]
        # A job submitted in the middle of a slot has one slot more, which uses the decisions of the last.
        slot = min(view.slot, deadline_slots(view.job, view.slot_hours) - 1)
        first = slot - slot % _refit_slots(self, view.slot_hours)
        refit = len(own) - 1 - slot + first  # the pool's slot in which it learned last
        learned = _learned(view.job, own, others, refit)
        if warned_slots(view) is not None:
            return _warned(self, view, learned, slot)
        hour = round(hour_of_day(own, refit), 9)
        table, decisions = _decisions(self, view.job, own.slot_hours, first, hour, learned)
        taken = decisions.along(np.array([_market(learned, own)]), slot - first)
        return _chosen(table._replace(first=view.slot, actions=taken), view, learned.model.seen_slots)

    def reasons(self) -> tuple[str, ...]:
        return ("waiting-pays", "spot-pays", "on-demand-pays", "both-pay")

    def prepared(self, job: Job, pool: Pool, start: int, neighbours: tuple[Pool, ...]) -> Prepared:
        """Return this policy for one start of a back-test, with the tables of all refits already computed."""
        (made,) = _prepared(self, job, [pool], start, neighbours)
        return made

    def prepared_together(
        self, job: Job, futures: Sequence[Pool], start: int, neighbours: tuple[Pool, ...]
    ) -> list[Prepared]:
        """Return this policy for each of some futures that share their past, solved once for all of them.

        It learns nothing after the start, because what it learned would differ from future to future.
        """
        return _prepared(replace(self, refit_hours=NEVER_HOURS), job, futures, start, neighbours)

    def effort(self, job: Job, slot_hours: float) -> float:
        """Return how many values are computed for one start, in all refits, assuming two price levels."""
        bare = slotted(job, slot_hours)
        shape, slack = _shape(self, job, bare)
        levels = levels_of(job, slot_hours)
        of_slot = 2 * len(levels.usable) * len(levels.bins) * len(shape.spot) * len(shape.pauses.ahead_hours)
        refits = range(0, bare.deadline_slots, _refit_slots(self, slot_hours))
        return float(sum(bare.deadline_slots - first for first in refits) * of_slot * slack.cells)

    def coarser(self) -> StochasticHorizon:
        """Return this policy with half as many cells of slack."""
        return replace(self, cells=max(FEWEST_CELLS, self.cells // 2))


class Prepared:
    """A stochastic-horizon policy whose decisions for one start are all computed already."""

    heeds_warnings: ClassVar[bool] = True

    def __init__(
        self, policy: StochasticHorizon, table: DecisionTable, learned: Sequence[FittedModel]
    ) -> None:
        self._policy, self._table, self._learned = policy, table, learned

    def decide(self, view: View) -> Allocation:
        learned = self._learned[view.slot // _refit_slots(self._policy, view.slot_hours)]
        if warned_slots(view) is not None:
            return _warned(self._policy, view, learned, view.slot)
        return _chosen(self._table, view, learned.model.seen_slots)

    def rule(self, context: Context) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
        return look_up, self._table

    def reasons(self) -> tuple[str, ...]:
        return StochasticHorizon().reasons()


def _chosen(table: DecisionTable, view: View, seen_slots: int) -> Allocation:
    choice = look_up(table, sight(view))
    word = StochasticHorizon().reasons()[choice.why]
    reason = Reason(word, {**signals(view), **warning_of(view), "own_history_slots": seen_slots})
    return Allocation(int(choice.spot_gpus), int(choice.on_demand_gpus), reason=reason)


def _warned(policy: StochasticHorizon, view: View, learned: FittedModel, slot: int) -> Allocation:
    """Decide in a slot in which the job was warned that spot it holds will be taken."""
    slots = warned_slots(view)
    assert slots is not None
    hour = round(hour_of_day(view.past(), len(view.past()) - 1), 9)
    fall = expected.SpotWarning(view.state.spot_gpus, slots, _market(learned, view.past()))
    table = _table_warned(policy, view.job, view.slot_hours, slot, hour, learned, fall)
    return _chosen(table._replace(first=view.slot), view, learned.model.seen_slots)


@lru_cache(maxsize=256)
def _table_warned(
    policy: StochasticHorizon,
    job: Job,
    slot_hours: float,
    slot: int,
    hour: float,
    learned: FittedModel,
    fall: expected.SpotWarning,
) -> DecisionTable:
    """Solve for one slot of the job, which begins at this hour of the day, where spot will fall."""
    posed = _posed(policy, job, slot_hours, slot, hour, learned)
    fresh = np.arange(learned.states) % len(learned.model.prices)
    actions = expected.solve_warned(*posed.parts, fall, fresh, now=slot)
    return posed.table._replace(actions=actions)


def _planned(job: Job) -> Job:
    """Return the job that tables are made for: with less work if the job's work is uncertain.

    A table knows work only by the slack that it leaves, so a job of any pace can be looked up in it.
    """
    if job.work_spread == 0.0:
        return job
    phases = tuple(replace(phase, work_gpu_hours=LEAST_WORK * phase.work_gpu_hours) for phase in job.phases)
    return replace(job, work_gpu_hours=LEAST_WORK * job.work_gpu_hours, phases=phases)


def _shape(policy: StochasticHorizon, job: Job, bare: Slotted) -> tuple[expected.Lattice, expected.Slack]:
    if job.work_spread == 0.0:
        return expected.lattice(bare), expected.slack_grid(bare, hard=job.hard, cells=policy.cells)
    cells = round(SPREAD_CELLS * policy.cells)
    grid = expected.slack_grid(bare, hard=job.hard, cells=cells, finer=SPREAD_FINER)
    return expected.lattice(bare), grid


def levels_of(job: Job, slot_hours: float) -> markov.StateCuts:
    """Return the levels of availability that make a difference to a job: how much spot it could use."""
    shape = expected.lattice(slotted(job, slot_hours))
    return markov.StateCuts.of(tuple(int(gpus) for gpus in np.unique(shape.spot)))


def _refit_slots(policy: StochasticHorizon, slot_hours: float) -> int:
    return max(1, math.ceil(min(policy.refit_hours, NEVER_HOURS) / slot_hours))


class FittedModel:
    """A fitted model; two with the same numbers are equal, whatever history they were fitted to."""

    def __init__(self, levels: markov.StateCuts, model: markov.Model, on_demand_usd: float) -> None:
        self.levels, self.model, self.on_demand_usd = levels, model, on_demand_usd
        numbers = b"".join(np.asarray(part).tobytes() for part in model)
        self._digest = hashlib.blake2b(numbers).digest(), levels, on_demand_usd

    @property
    def states(self) -> int:
        """How many states the market may be in."""
        return len(self.levels.usable) * len(self.levels.bins) * len(self.model.prices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FittedModel) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


_models: LruCache[tuple[Job, Mark, tuple[Mark, ...]], FittedModel] = LruCache(256)


def _learned(job: Job, own: Past, others: Sequence[Past], at: int) -> FittedModel:
    """Return the model fitted to the pasts as they were in slot `at` of `own`; cached by those pasts."""
    now = own.begin_hours(at)
    marks = tuple(other.mark(other.slots_before(now)) for other in others)
    return _models.get((job, own.mark(at + 1), marks), lambda: _learn(job, own, others, at))


def _learn(job: Job, own: Past, others: Sequence[Past], at: int) -> FittedModel:
    levels = levels_of(job, own.slot_hours)
    history = markov.History.of(levels, own, others, at)
    return FittedModel(levels, history.model(history.counts()), own[at].on_demand_usd_per_gpu_hour)


@lru_cache(maxsize=24)
def _decisions(
    policy: StochasticHorizon, job: Job, slot_hours: float, first: int, hour: float, learned: FittedModel
) -> tuple[DecisionTable, expected.Decisions]:
    """Solve from the job's slot `first` on, which begins at this hour of the day, until the next refit."""
    return _solve(policy, job, slot_hours, first, hour, learned, wanted=None)


def _solve(
    policy: StochasticHorizon,
    job: Job,
    slot_hours: float,
    first: int,
    hour: float,
    learned: FittedModel,
    wanted: Bools | None,
) -> tuple[DecisionTable, expected.Decisions]:
    posed = _posed(policy, job, slot_hours, first, hour, learned)
    slots = min(_refit_slots(policy, slot_hours), posed.parts[0].deadline_slots - first)
    decisions = expected.solve(*posed.parts, now=first, slots=slots, wanted=wanted)
    return posed.table, decisions


class Posed(NamedTuple):
    """The problem from a slot on, and the table to look up its decisions in, still without decisions."""

    parts: tuple[Slotted, expected.Lattice, expected.Chain, expected.Worth, expected.Slack]
    table: DecisionTable


def _posed(
    policy: StochasticHorizon, job: Job, slot_hours: float, first: int, hour: float, learned: FittedModel
) -> Posed:
    bare = slotted(_planned(job), slot_hours)
    shape, slack = _shape(policy, job, bare)
    hours = clock(hour, bare.deadline_slots - first, slot_hours)
    chain = _chain(learned.levels, learned.model, hours)
    worthless = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    # Integers here would make numba compile the solver a second time.
    worth = expected.Worth(float(job.value_usd), float(worthless), job.hard, float(learned.on_demand_usd))
    none = np.zeros((0, len(shape.spot), len(shape.pauses.ahead_hours), slack.cells), np.uint8)
    table = DecisionTable(
        first, none, shape.spot, shape.on_demand, shape.cell, shape.unit,
        shape.pauses.ahead_hours, slack.step, slack.most,
    )  # fmt: skip
    return Posed((bare, shape, chain, worth, slack), table)


def _prepared(
    policy: StochasticHorizon, job: Job, pools: Sequence[Pool], start: int, neighbours: Sequence[Pool]
) -> list[Prepared]:
    """Compute all decisions for pools that have the same past at every refit.

    Their whole series are known here, so only decisions in states that some pool takes are computed.
    """
    slot_hours = pools[0].slot_hours
    slots, refit = deadline_slots(job, slot_hours), _refit_slots(policy, slot_hours)
    owns = [Past.of(pool, first_hours(pool, pools[0], start)) for pool in pools]
    others = [Past.of(other, first_hours(other, pools[0], start)) for other in neighbours]
    parts, models = [], []
    for first in range(0, slots, refit):
        learned = _learned(job, owns[0], others, start + first)
        count = min(refit, slots - first)
        states = np.array([_states_ahead(learned, own, start + first, count) for own in owns])
        wanted = np.zeros((count, learned.states), bool)
        wanted[np.arange(count), states] = True
        hour = round(hour_of_day(owns[0], start + first), 9)
        table, decisions = _solve(policy, job, slot_hours, first, hour, learned, wanted)
        parts.append([table._replace(actions=decisions.along(path)) for path in states])
        models.append(learned)
    return [Prepared(policy, _joined(tables), models) for tables in zip(*parts, strict=True)]


def _chain(levels: markov.StateCuts, model: markov.Model, hours: Floats) -> expected.Chain:
    gpus = np.repeat(np.array(levels.usable, np.int64), len(levels.bins) * len(model.prices))
    usd = np.tile(model.prices, len(levels.usable) * len(levels.bins))
    return expected.Chain(gpus, usd, *markov.transitions(levels, model), markov.block_of(hours))


def _states(learned: FittedModel, spot_gpus: Ints, usd: Floats) -> Ints:
    """Return the market's state in each of these slots; spells are taken to begin with the first of them."""
    levels, model = learned.levels, learned.model
    level = levels.level(spot_gpus)
    price = markov.price_level(model.prices, usd)
    return markov.state_of(levels, model, level, levels.bin(markov.ages(level)), price)


def _market(learned: FittedModel, own: Past) -> int:
    """Return the market's state in the present slot, the last one of the past."""
    seen = slice(-LONGEST_AGE - 1, None)
    return int(_states(learned, own.spot_gpus[seen], own.spot_usd_per_gpu_hour[seen])[-1])


def _states_ahead(learned: FittedModel, own: Past, at: int, slots: int) -> Ints:
    """Return the market's states from slot `at` on; `own` must reach that far."""
    seen = slice(max(0, at - LONGEST_AGE), at + slots)
    return _states(learned, own.spot_gpus[seen], own.spot_usd_per_gpu_hour[seen])[at - seen.start :]


def _joined(parts: Sequence[DecisionTable]) -> DecisionTable:
    """Join the decision tables of all refits into one."""
    if len(parts) == 1:
        return parts[0]
    return parts[0]._replace(actions=np.concatenate([part.actions for part in parts]))
