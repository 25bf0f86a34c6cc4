"""Laws of stretches, of what they cost and of their audit, for any job, any moments and any losses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.checks.cases import random_case
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.tariff import Meter, Tariff

SLOT_HOURS = 0.5
SAME_USD = 1e-9


class Life(NamedTuple):
    """A row of moments: until when, with which wish, and what the market leaves of spot at its beginning."""

    terms: physics.Terms
    tariff: Tariff
    max_cost_usd: float
    quotes: tuple[Quote, ...]
    moments: tuple[tuple[float, int, int, int], ...]
    """(until hours, spot, on demand, spot left), ascending."""


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Draw a job, a market of a few slots, and what is wished and lost at random moments."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    case = random_case(rng)
    slots = int(rng.integers(2, 9))
    quotes = tuple(
        Quote(float(rng.uniform(0, 3)), float(rng.uniform(0.5, 6)), int(rng.integers(0, 9)))
        for _ in range(slots)
    )
    ends = np.unique(rng.uniform(0.0, slots * SLOT_HOURS, int(rng.integers(1, 12))))
    borders = np.arange(1, slots + 1) * SLOT_HOURS
    moments = tuple(
        (float(until), int(rng.integers(0, 9)), int(rng.integers(0, 9)), int(rng.integers(0, 9)))
        for until in np.unique(np.concatenate((ends, borders)))
    )
    limit = float(rng.uniform(0.5, 20.0)) if rng.random() < 0.4 else math.inf
    return Life(physics.terms(case.job), Tariff(bool(rng.random() < 0.5), SLOT_HOURS), limit, quotes, moments)


def lived(life: Life, extra: tuple[float, ...] = ()) -> tuple[list[Priced], JobState]:
    """Live through a life, its stretches cut at further moments too; return all stretches and the end."""
    state, meter, now, stretches = JobState(), Meter(), 0.0, list[Priced]()
    for until, spot, on_demand, left in life.moments:
        slot = min(int(now / SLOT_HOURS + 1e-9), len(life.quotes) - 1)
        quote = life.quotes[slot]
        state = physics.lose(life.terms, state, left)
        held = physics.cut(life.terms, quote, min(spot, left), on_demand)
        for stop in (*(at for at in extra if now < at < until), until):
            if state.ended:
                return stretches, state
            before = state
            state, meter, charge, passed = ledger.live(
                life.terms,
                life.tariff,
                life.max_cost_usd,
                state,
                meter,
                slot,
                now,
                stop - now,
                quote,
                0,
                *held,
            )
            stretches.append(Priced(stretch_of(slot, now, quote, held, passed, before, state), charge))
            now = stop
    return stretches, state


def stretch_of(
    slot: int,
    now: float,
    quote: Quote,
    held: tuple[int, int],
    passed: physics.Passed,
    before: JobState,
    after: JobState,
) -> Stretch:
    return Stretch(
        payer="job",
        use="work",
        slot=slot,
        from_hours=now,
        to_hours=now + passed.hours,
        held_hours=passed.hours if sum(held) else 0.0,
        pool="pool",
        spot_gpus=held[0],
        on_demand_gpus=held[1],
        quote=quote,
        pause_hours=passed.pause_hours,
        productive_hours=passed.productive_hours,
        gained_gpu_hours=after.progress_gpu_hours - before.progress_gpu_hours,
    )


@given(lives(), st.lists(st.floats(0.0, 5.0), max_size=8))
@settings(max_examples=400)
def test_a_stretch_may_be_cut_anywhere(life: Life, cuts: list[float]) -> None:
    whole, one = lived(life)
    parts, other = lived(life, tuple(sorted(cuts)))
    assert one.cost_usd == pytest.approx(other.cost_usd, abs=SAME_USD)
    assert one.exhausted == other.exhausted
    assert one.finish_hours == pytest.approx(other.finish_hours, abs=1e-9)
    for name in ("progress_gpu_hours", "checkpointed_gpu_hours", "pause_hours", "since_checkpoint_hours"):
        if name in ("checkpointed_gpu_hours", "since_checkpoint_hours") and not checkpoints_agree(one, other):
            continue
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-7), name
    assert (one.spot_gpus, one.on_demand_gpus) == (other.spot_gpus, other.on_demand_gpus)
    assert ledger.bill(whole).spot_gpu_hours == pytest.approx(ledger.bill(parts).spot_gpu_hours, abs=1e-9)


def checkpoints_agree(one: JobState, other: JobState) -> bool:
    """Whether both lives stand on the same side of a checkpoint that falls on the very last moment."""
    return abs(one.since_checkpoint_hours - other.since_checkpoint_hours) < 1e-6


@given(lives())
@settings(max_examples=400)
def test_whole_slots_cost_the_most_held_at_any_moment(life: Life) -> None:
    stretches, state = lived(life._replace(tariff=Tariff(True, SLOT_HOURS)))
    most: dict[int, tuple[int, int]] = {}
    for stretch, _ in stretches:
        if stretch.held_hours > 0.0:
            spot, on_demand = most.get(stretch.slot, (0, 0))
            most[stretch.slot] = max(spot, stretch.spot_gpus), max(on_demand, stretch.on_demand_gpus)
    closed = sum(
        SLOT_HOURS
        * (
            life.quotes[slot].spot_usd_per_gpu_hour * spot
            + life.quotes[slot].on_demand_usd_per_gpu_hour * on_demand
        )
        for slot, (spot, on_demand) in most.items()
    )
    running = ledger.bill(stretches).cost_usd
    assert running == pytest.approx(closed, abs=SAME_USD)
    assert state.cost_usd == pytest.approx(closed, abs=SAME_USD)


@given(lives())
@settings(max_examples=200)
def test_the_audit_of_an_honest_life_is_clean(life: Life) -> None:
    stretches, state = lived(life)
    audit = ledger.audit(stretches, lambda payer: life.tariff)
    assert audit.clean, audit
    assert audit.cost_usd == pytest.approx(state.cost_usd, abs=SAME_USD)


@given(lives(), st.integers(0, 10**6))
@settings(max_examples=100)
def test_the_audit_finds_a_charge_that_is_wrong_and_a_stretch_that_is_paid_twice(life: Life, at: int) -> None:
    stretches, _ = lived(life)
    number = at % len(stretches)
    stretch, charge = stretches[number]
    wrong = [*stretches]
    wrong[number] = Priced(stretch, charge._replace(usd=charge.usd + 0.01))
    assert ledger.audit(wrong, lambda payer: life.tariff).wrong
    if stretch.to_hours - stretch.from_hours > 1e-3:
        twice = [*stretches[: number + 1], stretches[number], *stretches[number + 1 :]]
        assert ledger.audit(twice, lambda payer: life.tariff).gaps


@given(lives())
@settings(max_examples=200)
def test_money_never_passes_its_limit_and_no_work_is_lost_when_it_ends(life: Life) -> None:
    stretches, state = lived(life)
    assert state.cost_usd <= life.max_cost_usd + SAME_USD
    if state.exhausted:
        assert state.gpus == 0
        assert state.checkpointed_gpu_hours == state.progress_gpu_hours
        assert state.finish_hours == math.inf
    gained = sum(stretch.gained_gpu_hours for stretch, _ in stretches)
    assert gained >= state.progress_gpu_hours - 1e-6
