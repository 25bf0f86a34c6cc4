"""Expected utility against plain enumeration, and against the clairvoyant where nothing is random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from slacktide.core.quotes import Quote
from slacktide.core.speedup import Amdahl, Linear
from slacktide.core.types import Job, JobState
from slacktide.market.base import Pool
from slacktide.physics import progress as physics
from slacktide.physics.pace import KNOWN
from slacktide.policies.base import Sight
from slacktide.policies.stochastic_horizon import DecisionTable, look_up
from slacktide.solvers import expected
from slacktide.solvers.clairvoyant.clairvoyant import clairvoyant
from slacktide.solvers.slotted import Slotted, live_slot, slotted

ON_DEMAND_USD = 4.0


@dataclass(frozen=True)
class Instance:
    """A tiny job on a tiny Markov market."""

    job: Job
    chain: expected.Chain
    start: int

    @property
    def terms(self) -> Slotted:
        return slotted(self.job, 0.5)

    def quote(self, state: int) -> Quote:
        return Quote(float(self.chain.usd[state]), ON_DEMAND_USD, int(self.chain.gpus[state]))

    def next_states(self, slot: int, state: int) -> list[tuple[int, float]]:
        block = self.chain.block[slot]
        edges = range(self.chain.first[block, state], self.chain.last[block, state])
        return [(int(self.chain.to[edge]), float(self.chain.share[edge])) for edge in edges]


def random_chain(rng: np.random.Generator, states: int, slots: int, gpus: int) -> expected.Chain:
    blocks = 2
    share = rng.dirichlet(np.ones(states), size=(blocks, states))
    first = np.arange(blocks * states).reshape(blocks, states) * states
    return expected.Chain(
        gpus=rng.integers(0, gpus + 1, states),
        usd=rng.uniform(0.5, 3.0, states),
        first=first,
        last=first + states,
        to=np.tile(np.arange(states), blocks * states),
        share=share.reshape(-1),
        block=rng.integers(0, blocks, slots + 1),
    )


def random_instance(seed: int, *, hard: bool) -> Instance:
    rng = np.random.default_rng(seed)
    slots, gpus = 4, int(rng.integers(1, 3))
    widths = tuple(range(1, gpus + 1)) if rng.random() < 0.7 else (gpus,)
    restart = float(rng.choice([0.0, 0.125, 0.25, 0.625]))
    fastest = Linear()(gpus)
    work = fastest * max(0.25, float(rng.choice([0.5, 0.75, 1.0])) * (0.5 * slots - restart))
    job = Job(
        work_gpu_hours=work,
        deadline_hours=0.5 * slots,
        widths=widths,
        restart_hours=restart,
        shrink_hours=restart * float(rng.choice([0.0, 1.0])),
        value_usd=0.0 if hard else float(rng.uniform(2, 20)),
        worthless_after_hours=None if hard else 0.5 * slots * float(rng.choice([1.25, 2.0])),
        billing="slot" if rng.random() < 0.2 else "second",
    )
    return Instance(job, random_chain(rng, 3, slots, gpus), int(rng.integers(3)))


def tables_of(instance: Instance, cells: int) -> list[DecisionTable]:
    """Return what to do all along in each state of the market."""
    terms, job = instance.terms, instance.job
    shape = expected.lattice(terms)
    slack = expected.slack_grid(terms, hard=job.hard, cells=cells)
    worthless = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    worth = expected.Worth(job.value_usd, worthless, job.hard, ON_DEMAND_USD)
    slots = terms.deadline_slots
    decisions = expected.solve(terms, shape, instance.chain, worth, slack, now=0, slots=slots)
    states = [np.full(slots, state) for state in range(len(instance.chain.gpus))]
    return [
        DecisionTable(
            0, decisions.along(state), shape.spot, shape.on_demand, shape.cell, shape.unit,
            shape.pauses.ahead_hours, slack.step, slack.most,
        )
        for state in states
    ]  # fmt: skip


def utility(instance: Instance, state: JobState) -> float:
    if instance.job.hard and not instance.job.on_time(state.finish_hours):
        return -1e6 - state.cost_usd
    return instance.job.value_at(state.finish_hours) - state.cost_usd


def finish_late(instance: Instance, state: JobState, slot: int) -> float:
    """Follow the termination configuration to the end."""
    quote = Quote(0.0, ON_DEMAND_USD, 0)
    terms = instance.terms
    state = physics.lose(terms.terms, state, 0)
    while not state.ended:
        state = live_slot(terms, state, slot, quote, 0, terms.fastest).state
        slot += 1
    return utility(instance, state)


def best_expected(instance: Instance) -> float:
    """Enumerate every decision in every state of the market."""
    terms = instance.terms
    widest = instance.job.max_gpus
    choices = [(a, b) for a in range(widest + 1) for b in range(widest + 1 - a)]

    @cache
    def value(slot: int, market: int, state: JobState) -> float:
        if state.ended:
            return utility(instance, state)
        if slot == terms.deadline_slots:
            return finish_late(instance, state, slot)
        quote = instance.quote(market)
        left = physics.lose(terms.terms, state, quote.spot_gpus)
        outcomes = {
            live_slot(terms, left, slot, quote, spot, on_demand).state
            for spot, on_demand in choices
            if spot <= quote.spot_gpus and spot + on_demand in (0, *instance.job.widths)
        }
        return max(
            sum(share * value(slot + 1, then, after) for then, share in instance.next_states(slot, market))
            for after in outcomes
        )

    return value(0, instance.start, JobState())


def followed_expected(instance: Instance, tables: list[DecisionTable]) -> float:
    """Follow the table's decisions through every state of the market."""
    terms = instance.terms

    def value(slot: int, market: int, state: JobState) -> float:
        if state.ended:
            return utility(instance, state)
        if slot == terms.deadline_slots:
            return finish_late(instance, state, slot)
        quote = instance.quote(market)
        left = physics.lose(terms.terms, state, quote.spot_gpus)
        now, following = slot * terms.slot_hours, (slot + 1) * terms.slot_hours
        sight = Sight(
            terms.terms, terms.tariff, slot, now, following, terms.slot_hours, left, quote, 0, KNOWN
        )
        choice = look_up(tables[market], sight)
        after = live_slot(terms, left, slot, quote, choice.spot_gpus, choice.on_demand_gpus).state
        return sum(share * value(slot + 1, then, after) for then, share in instance.next_states(slot, market))

    return value(0, instance.start, JobState())


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_as_good_as_enumeration(seed: int, hard: bool) -> None:
    instance = random_instance(seed, hard=hard)
    best = best_expected(instance)
    cells = round(8 * 2 * instance.terms.deadline_slots)  # a cell is a multiple of every step of progress
    assert followed_expected(instance, tables_of(instance, cells)) == pytest.approx(best, abs=1e-6)


def agreeing(
    instance: Instance, slot: int, state: int, fall: expected.SpotWarning
) -> list[tuple[int, float]]:
    """Return where the market may go by the chain, where a fall is known."""
    gpus = instance.chain.gpus
    found = instance.next_states(slot, state)
    if slot + 1 <= fall.slots:
        found = [one for one in found if (gpus[one[0]] < fall.gpus) == (slot + 1 == fall.slots)]
    total = sum(share for _, share in found)
    return [(then, share / total) for then, share in found]


def values_of_first(
    instance: Instance, fall: expected.SpotWarning, held: JobState
) -> dict[tuple[int, int], float]:
    """Enumerate what each first decision is worth, all later ones the best, where a fall is known."""
    terms, widest = instance.terms, instance.job.max_gpus
    choices = [(a, b) for a in range(widest + 1) for b in range(widest + 1 - a)]

    def open_to(market: int) -> list[tuple[int, int]]:
        offered, widths = instance.quote(market).spot_gpus, (0, *instance.job.widths)
        return [(a, b) for a, b in choices if a <= offered and a + b in widths]

    def after(slot: int, market: int, left: JobState, choice: tuple[int, int]) -> float:
        lived = live_slot(terms, left, slot, instance.quote(market), *choice).state
        there = agreeing(instance, slot, market, fall)
        return sum(share * value(slot + 1, then, lived) for then, share in there)

    @cache
    def value(slot: int, market: int, state: JobState) -> float:
        if state.ended:
            return utility(instance, state)
        if slot == terms.deadline_slots:
            return finish_late(instance, state, slot)
        left = physics.lose(terms.terms, state, instance.quote(market).spot_gpus)
        return max(after(slot, market, left, choice) for choice in open_to(market))

    return {choice: after(0, fall.state, held, choice) for choice in open_to(fall.state)}


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_with_a_warning_decisions_are_as_good_as_enumeration(seed: int, ahead: int, hard: bool) -> None:
    instance = random_instance(seed, hard=hard)
    most = instance.job.max_gpus
    instance.chain.gpus[:] = (0, most - 1, most)  # so that it can fall, and stay
    fall = expected.SpotWarning(most, ahead, 2)
    held = JobState(spot_gpus=most, pause_hours=0.0)
    terms, job = instance.terms, instance.job
    shape = expected.lattice(terms)
    slack = expected.slack_grid(terms, hard=hard, cells=round(8 * 2 * terms.deadline_slots))
    worthless = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    worth = expected.Worth(job.value_usd, worthless, hard, ON_DEMAND_USD)
    fresh = np.zeros(3, np.int64)
    actions = expected.solve_warned(terms, shape, instance.chain, worth, slack, fall, fresh, now=0)
    table = DecisionTable(
        0, actions, shape.spot, shape.on_demand, shape.cell, shape.unit, shape.pauses.ahead_hours, slack.step,
        slack.most,
    )  # fmt: skip
    sight = Sight(terms.terms, terms.tariff, 0, 0.0, 0.5, 0.5, held, instance.quote(fall.state), 0, KNOWN)
    choice = look_up(table, sight)
    worths = values_of_first(instance, fall, held)
    assert worths[choice.spot_gpus, choice.on_demand_gpus] == pytest.approx(max(worths.values()), abs=1e-6)


def test_a_market_falls_though_its_model_takes_that_for_impossible() -> None:
    instance = random_instance(1, hard=True)
    chain = instance.chain._replace(gpus=np.array([0, 2, 2]), share=np.tile([0.0, 0.5, 0.5], 6))
    falls = expected._given(chain, chain.gpus < 2, np.zeros(3, np.int64))
    assert falls.to.tolist() == [0] * 6
    assert falls.share.tolist() == [1.0] * 6
    assert (falls.last - falls.first == 1).all()


def certain(pool: Pool) -> expected.Chain:
    """A chain without chance: one state a slot, each leading to the next."""
    slots = len(pool)
    first = np.arange(slots)[None, :]
    return expected.Chain(
        gpus=np.array(pool.spot_gpus),
        usd=np.array(pool.spot_usd_per_gpu_hour),
        first=first,
        last=first + 1,
        to=np.minimum(np.arange(slots) + 1, slots - 1),
        share=np.ones(slots),
        block=np.zeros(slots + 1, np.int64),
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
def test_without_chance_it_is_the_clairvoyant(seed: int, hard: bool) -> None:
    rng = np.random.default_rng(seed)
    slots = 16
    gpus = np.repeat(rng.integers(0, 5, slots // 2), 2)
    pool = Pool("p", 0.5, rng.uniform(0.8, 1.6, slots), np.full(slots, ON_DEMAND_USD), gpus)
    job = Job(
        work_gpu_hours=float(rng.uniform(8, 24)),
        deadline_hours=8.0,
        widths=(1, 2, 3, 4),
        speedup=Amdahl(0.97) if seed % 2 else Linear(),
        restart_hours=0.1,
        value_usd=0.0 if hard else 70.0,
        worthless_after_hours=None if hard else 12.0,
    )
    instance = Instance(job, certain(pool), 0)
    followed = followed_expected(instance, tables_of(instance, 600))
    best = clairvoyant(job, pool).utility_usd
    assert followed <= best + 1e-6
    assert followed >= best - 0.01 * max(abs(best), 20.0)


def test_compiled_and_plain_decide_alike() -> None:
    instance = random_instance(3, hard=True)
    terms = instance.terms
    shape = expected.lattice(terms)
    slack = expected.slack_grid(terms, hard=True, cells=64)
    worth = expected.Worth(0.0, instance.job.deadline_hours, True, ON_DEMAND_USD)
    fast = expected.solve(terms, shape, instance.chain, worth, slack, now=0, slots=4)
    states, lefts = len(instance.chain.gpus), len(shape.pauses.left_hours)
    plain = np.zeros((4 * states, *fast.along(np.zeros(1, np.int64)).shape[1:]), np.uint8)
    rows = np.arange(4 * states).reshape(4, states)
    values = np.empty((states, len(shape.spot), lefts, slack.cells))
    until = terms.deadline_slots
    expected.induce(terms, shape, instance.chain, worth, slack, 0, until, values, rows, plain)
    for state in range(states):
        assert (fast.along(np.full(4, state)) == plain[rows[:, state]]).all()


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_wanted_alone_is_decided_as_among_all(seed: int, hard: bool) -> None:
    instance = random_instance(seed, hard=hard)
    terms, job = instance.terms, instance.job
    shape = expected.lattice(terms)
    slack = expected.slack_grid(terms, hard=hard, cells=64)
    worthless = job.deadline_hours if job.worthless_after_hours is None else job.worthless_after_hours
    worth = expected.Worth(job.value_usd, worthless, hard, ON_DEMAND_USD)
    given = terms, shape, instance.chain, worth, slack
    slots, states = terms.deadline_slots, len(instance.chain.gpus)
    path = np.random.default_rng(seed).integers(0, states, slots)
    wanted = np.zeros((slots, states), bool)
    wanted[np.arange(slots), path] = True
    every = expected.solve(*given, now=0, slots=slots)
    some = expected.solve(*given, now=0, slots=slots, wanted=wanted)
    assert (some.along(path) == every.along(path)).all()


def test_slots_solved_a_few_at_a_time_are_decided_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_instance(5, hard=False)
    whole = tables_of(instance, 64)
    monkeypatch.setattr(expected, "BARE_BYTES", 1)
    for one, other in zip(whole, tables_of(instance, 64), strict=True):
        assert (one.actions == other.actions).all()


def test_wide_jobs_are_planned_in_blocks() -> None:
    job = Job(work_gpu_hours=50, deadline_hours=4, widths=tuple(range(1, 65)))
    shape = expected.lattice(slotted(job, 0.5))
    assert shape.unit == 4
    assert len(shape.spot) == 153
    assert math.isclose(shape.spot.max(), 64)


def test_the_blocks_of_a_wide_job_grow_with_its_slots() -> None:
    units = [
        expected.lattice(slotted(Job(work_gpu_hours=50, deadline_hours=hours, widths=(1, 64)), 0.5)).unit
        for hours in (4, 24, 96)
    ]
    assert units == sorted(units)
    assert units[0] < units[-1] <= 64 / expected.FEWEST_UNITS
