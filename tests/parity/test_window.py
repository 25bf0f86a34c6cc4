"""The window programme three ways: labels under a Lagrangian bound = MILP = enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compiled
from slacktide.core.quotes import Quote
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, JobState
from slacktide.physics import ledger
from slacktide.physics.progress import lose, terms
from slacktide.physics.tariff import Meter, tariff_of
from slacktide.solvers.slotted import slotted
from slacktide.solvers.window.programme import FREE, LINE_BINDS, OUT_OF_REACH, plan_window
from tests.oracles import window_milp
from tests.oracles.window_milp import Window
from tests.parts_of_effort import examples

BATCHES = 10
PER_BATCH = examples(40)
MOST_PLANS = 4_000
"""Above this many plans a window is not enumerated."""

SPEEDUPS: tuple[Speedup, ...] = (
    Linear(), Linear(), Linear(0.8, 0.2), Amdahl(0.9), Power(0.7),
    Table(((1.0, 1.0), (2.0, 1.75), (4.0, 2.5))),
)  # fmt: skip
WIDTHS = ((1,), (1, 2), (1, 2, 3), (2, 3), (1, 2, 4), (3,), (1, 2, 3, 4))

Plan = Sequence[tuple[int, int]]


def draw(seed: int) -> Window:
    """Draw a small window; the seeds together cover every feature of the physics."""
    rng = np.random.default_rng(seed)
    slot_hours = float(rng.choice([0.5, 1.0]))
    widths, speedup = WIDTHS[rng.integers(len(WIDTHS))], SPEEDUPS[rng.integers(len(SPEEDUPS))]
    slots = int(rng.integers(2, 11))
    slot = int(rng.integers(0, slots))
    deadline = slot_hours * (slots - (0.0 if rng.random() < 0.5 else float(rng.choice([0.3, 0.75]))))
    restart = slot_hours * float(rng.choice([0.0, 0.1, 0.1, 0.5, 1.0, 1.3, 2.5]))
    job = Job(
        work_gpu_hours=round(speedup(widths[-1]) * deadline * float(rng.uniform(0.1, 1.0)), 2) + 0.01,
        deadline_hours=deadline,
        widths=widths,
        speedup=speedup,
        restart_hours=restart,
        shrink_hours=restart * float(rng.choice([0.0, 0.5, 1.0])),
        billing="slot" if rng.random() < 0.25 else "second",
    )
    quotes = _quotes(rng, int(rng.integers(1, 6)), widths[-1])
    reserve = float(rng.choice([0.3, 0.6, 0.9])) * quotes[0].on_demand_usd_per_gpu_hour
    return Window(job, slot_hours, _state(rng, job, slot_hours, slot, quotes[0]), slot, quotes, reserve)


def _quotes(rng: np.random.Generator, count: int, widest: int) -> tuple[Quote, ...]:
    spot = rng.choice([0.0, 0.3, 0.5, 1.0, 1.3, 2.6], size=count)
    on_demand = np.full(count, 2.0) if rng.random() < 0.7 else rng.choice([0.0, 1.5, 2.0, 3.0], size=count)
    offered = rng.integers(0, widest + 2, size=count) * int(rng.random() < 0.9)
    return tuple(Quote(float(p), float(q), int(a)) for p, q, a in zip(spot, on_demand, offered, strict=True))


def _state(rng: np.random.Generator, job: Job, slot_hours: float, slot: int, quote: Quote) -> JobState:
    width = int(rng.choice((0, *job.widths)))
    spot = int(rng.integers(0, width + 1))
    line = job.line_gpu_hours(slot * slot_hours)
    done = min(
        max(0.0, line + float(rng.normal(0.1, 0.4)) * slot_hours * job.max_gpus), 0.98 * job.work_gpu_hours
    )
    pause = job.restart_hours * float(rng.choice([0.0, 0.0, 0.4, 1.0])) if width else 0.0
    held = JobState(spot, width - spot, pause_hours=pause, progress_gpu_hours=done)
    return lose(terms(job), held, quote.spot_gpus)


def live(window: Window, plan: Plan) -> tuple[float, float]:
    """Live through a plan with nothing but the physics; return progress and cost."""
    bare, state, paid = terms(window.job), window.state, 0.0
    tariff = tariff_of(window.job.billing, window.slot_hours)
    for k, (spot, on_demand) in enumerate(plan):
        left = lose(bare, state, window.quotes[k].spot_gpus)
        # The deadline cuts the slot it lies in; whole slots are paid whole all the same.
        slot = window.slot + k
        begin = slot * window.slot_hours
        state, _, charge, _ = ledger.live(
            bare, tariff, math.inf, left, Meter(), slot, begin, window.hours(k), window.quotes[k], 0, spot,
            on_demand,
        )  # fmt: skip
        paid += charge.usd
        if state.finish_hours < math.inf:
            break
    return state.progress_gpu_hours, paid


def all_plans(window: Window) -> list[Plan] | None:
    """Return every plan the market allows, or None where there are too many."""
    choices = [
        [(0, 0), *((s, n - s) for n in window.job.widths for s in range(min(n, quote.spot_gpus) + 1))]
        for quote in window.quotes[: window.slots]
    ]
    return list(product(*choices)) if math.prod(len(pairs) for pairs in choices) <= MOST_PLANS else None


def enumerated(window: Window, plans: list[Plan]) -> window_milp.Optimum:
    """Return what the best of some plans comes to."""
    ends = [live(window, plan) for plan in plans]
    line = window.line_gpu_hours - 1e-9 * window.job.work_gpu_hours
    in_reach = [end for end in ends if end[0] >= line]
    if in_reach:
        return window_milp.Optimum(True, *max(in_reach, key=lambda e: window.reserve_usd * e[0] - e[1]))
    most = max(progress for progress, _ in ends) - 1e-9
    return window_milp.Optimum(False, most, min(cost for progress, cost in ends if progress >= most))


def solved(window: Window) -> tuple[int, list[tuple[int, int]]]:
    """Solve with the kernel, plain and compiled, which must agree to the last GPU."""
    rows: Floats = np.array([quote[:3] for quote in window.quotes], dtype=np.float64)
    answers = []
    for kernel in (plan_window, compiled(plan_window)):
        plan = np.zeros((len(rows), 2))
        bare = slotted(window.job, window.slot_hours)
        case = kernel(bare, window.state, window.slot, rows, window.reserve_usd, plan)
        answers.append((int(case), [(int(s), int(o)) for s, o in plan]))
    assert answers[0] == answers[1]
    case, holdings = answers[0]
    assert all(pair == (0, 0) for pair in holdings[window.slots :])
    return case, holdings[: window.slots]


def assert_as_good(window: Window, best: window_milp.Optimum, tolerance: float) -> int:
    """Assert that the kernel's plan comes to the optimum; return what decided it."""
    case, holdings = solved(window)
    progress, cost = live(window, holdings)
    assert best.reachable == (case != OUT_OF_REACH), window
    if best.reachable:
        assert progress >= window.line_gpu_hours - 1e-8, window
        mine = window.reserve_usd * progress - cost
        theirs = window.reserve_usd * best.progress_gpu_hours - best.cost_usd
        assert mine == pytest.approx(theirs, abs=tolerance), window
    else:
        assert progress == pytest.approx(best.progress_gpu_hours, abs=tolerance), window
        assert cost == pytest.approx(best.cost_usd, abs=20 * tolerance), window
    return case


@pytest.mark.parametrize("batch", range(BATCHES))
def test_kernel_finds_what_enumeration_finds(batch: int) -> None:
    seen = set()
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        window = draw(seed)
        plans = all_plans(window)
        if plans is not None:
            seen.add(assert_as_good(window, enumerated(window, plans), 2e-6))
    assert seen == {FREE, LINE_BINDS, OUT_OF_REACH}


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_kernel_finds_what_highs_finds(batch: int) -> None:
    for seed in range(10_000 + batch * PER_BATCH, 10_000 + (batch + 1) * PER_BATCH):
        window = draw(seed)
        assert_as_good(window, window_milp.solve(window), 2e-5)


def test_highs_finds_what_enumeration_finds() -> None:
    for seed in range(20_000, 20_000 + examples(60)):
        window = draw(seed)
        plans = all_plans(window)
        if plans is not None:
            best, milp = enumerated(window, plans), window_milp.solve(window)
            assert milp.reachable == best.reachable, window
            worth = window.reserve_usd if best.reachable else 0.0
            mine, theirs = (worth * end.progress_gpu_hours - end.cost_usd for end in (best, milp))
            assert theirs == pytest.approx(mine, abs=1e-4), window


def planned(
    job: Job, quotes: Sequence[Quote], reserve: float, done: float, slot: int
) -> list[tuple[int, int]]:
    """Plan slots of an hour for a job that holds nothing, compiled."""
    rows: Floats = np.array([quote[:3] for quote in quotes], dtype=np.float64)
    plan = np.zeros((len(rows), 2))
    state = JobState(progress_gpu_hours=done)
    compiled(plan_window)(slotted(job, 1.0), state, slot, rows, reserve, plan)
    return [(int(spot), int(on_demand)) for spot, on_demand in plan]


def usual(
    quotes: Sequence[Quote], *, reserve: float = 1.2, done: float = 0.0, slot: int = 0
) -> list[tuple[int, int]]:
    """Plan for a job of 1 to 4 GPUs, 40 GPU-hours in 20 hours, that holds nothing."""
    job = Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=(1, 2, 3, 4), restart_hours=0.1)
    return planned(job, quotes, reserve, done, slot)


def test_cheap_spot_is_banked_beyond_the_line() -> None:
    assert usual([Quote(0.5, 2.0, 4)] * 3) == [(4, 0)] * 3


def test_dear_spot_is_not_banked_ahead_of_the_line() -> None:
    assert usual([Quote(1.5, 2.0, 4)] * 3, done=10.0) == [(0, 0)] * 3


def test_forecast_spot_is_waited_for() -> None:
    assert usual([Quote(0.5, 2.0, 0), Quote(0.5, 2.0, 4), Quote(0.5, 2.0, 4)]) == [(0, 0), (4, 0), (4, 0)]


def test_what_cannot_be_caught_up_is_tried_with_all() -> None:
    assert usual([Quote(0.5, 2.0, 1)] * 2, done=0.0, slot=15) == [(1, 3), (1, 3)]


def test_of_equal_plans_on_demand_comes_late() -> None:
    """Two of three slots reach the line: the first may wait for spot that nobody forecast."""
    job = Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=(2,))
    assert planned(job, [Quote(0.0, 2.0, 0)] * 3, 1.0, 2.0, 0) == [(0, 0), (0, 2), (0, 2)]


def test_a_window_past_the_deadline_is_empty() -> None:
    assert usual([Quote(0.5, 2.0, 4)] * 2, slot=20) == [(0, 0), (0, 0)]
