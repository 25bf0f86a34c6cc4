"""The joint programme over pools and the chains it reads: known answers, and a plain recursion."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compiled
from slacktide.market.forecast import spells
from slacktide.solvers.pools import joint

STAYS, COMES = (0.8, 0.6), (0.3, 0.5)
USD, ON_DEMAND = (1.0, 1.4), 4.0
MOVE = np.array([[0.0, 0.2], [0.3, 0.0]])
STEP, CELL, RESTART, STEPS, POINTS = 0.5, 0.25, 0.25, 5, 8


def gang(speed: float = 1.0, move_hours: float = 0.0, lost_hours: float = 0.0) -> joint.Seats:
    pauses = np.array(sorted({RESTART, RESTART + move_hours}))
    moves = np.where(np.eye(2) > 0, RESTART, RESTART + move_hours)
    return joint.Seats(
        levels=np.array([2, 2]),
        pool=np.array([0, 1, 0]),
        level=np.array([1, 1, 0]),
        usd_per_hour=np.array([*USD, ON_DEMAND]),
        speed=np.array([1.0, speed, 1.0]),
        lost_hours=np.array([lost_hours, lost_hours, 0.0]),
        move_usd=MOVE,
        pause=np.searchsorted(pauses, moves),
        pause_hours=pauses,
        slack_hours=np.linspace(0.0, (POINTS - 1) * CELL, POINTS),
        below_usd_per_hour=np.inf,
    )


def solved(one: joint.Seats) -> Floats:
    kept: Floats = np.empty((1, 4, 5, POINTS))
    left: Floats = STEP * np.arange(STEPS, 0.0, -1.0)
    change = [[[1 - comes, comes], [1 - stays, stays]] for stays, comes in zip(STAYS, COMES, strict=True)]
    compiled(joint.solve)(
        one, np.full(STEPS, STEP), left, np.tile(change, (STEPS, 1, 1, 1)), np.zeros(POINTS), kept
    )
    found: Floats = kept[0]
    return found


def test_known_answers() -> None:
    values = solved(gang())
    assert values[3, 0, 4] == pytest.approx(2.814911, abs=1e-6)
    assert values[0, 0, 4] == pytest.approx(5.254724, abs=1e-6)
    assert values[1, 2, 2] == pytest.approx(3.635170, abs=1e-6)
    assert values[2, 1, 3] == pytest.approx(5.160104, abs=1e-6)
    assert values[0, 4, 1] == pytest.approx(8.694447, abs=1e-6)


@pytest.mark.parametrize(
    ("speed", "move_hours", "lost_hours"),
    [
        (1.0, 0.0, 0.0),
        (0.5, 0.0, 0.0),
        (1.0, 0.25, 0.0),
        (0.5, 0.25, 0.0),
        (1.0, 0.0, 0.25),
        (0.5, 0.25, 0.5),
    ],
)
def test_a_plain_recursion_finds_the_same(speed: float, move_hours: float, lost_hours: float) -> None:
    """Without the sums in place, and with every state asked for by itself."""
    speeds = (1.0, speed, 1.0)
    usd = (*USD, ON_DEMAND)

    def ahead(step: int, up: int, mode: int, position: float) -> float:
        if position < 0:
            return joint.IMPOSSIBLE_USD
        point = int(position)
        if position > point:
            near, far = ahead(step, up, mode, point), ahead(step, up, mode, point + 1)
            return near + (position - point) * (far - near)
        total = 0.0
        for following in range(4):
            chance = 1.0
            for pool in range(2):
                then = STAYS[pool] if up >> pool & 1 else COMES[pool]
                chance *= then if following >> pool & 1 else 1.0 - then
            total += chance * least(step + 1, following, mode, min(point, POINTS - 1))
        return total

    @cache
    def least(step: int, up: int, mode: int, point: int) -> float:
        if step == STEPS:
            return 0.0
        work = max(STEP * (STEPS - step) - point * CELL, 0.0)
        if 2 <= mode < 4 and not up >> (mode - 2) & 1:
            kept = point - round(lost_hours / CELL)
            return least(step, up, mode - 2, kept) if kept >= 0 else joint.IMPOSSIBLE_USD
        place = mode if mode < 2 else (mode - 2 if mode < 4 else 0)
        found = [ahead(step, up, place, point - STEP / CELL)]

        def into(pool: int, pause: float, fee: float) -> float:
            held = pause + work / speeds[pool]
            if held <= STEP + 1e-9:
                return fee + usd[pool] * held
            lost = STEP - max(0.0, STEP - pause) * speeds[pool] + max(0.0, pause - STEP)
            return fee + usd[pool] * STEP + ahead(step, up, 2 + pool, point - lost / CELL)

        if mode >= 2:
            found.append(into(mode - 2, 0.0, 0.0))
        for pool in range(3):
            if pool == 2 or up >> pool & 1:
                target = pool if pool < 2 else 0
                pause = RESTART + (move_hours if target != place else 0.0)
                found.append(into(pool, pause, float(MOVE[place, target])))
        return min(*found, joint.IMPOSSIBLE_USD)

    values = solved(gang(speed, move_hours, lost_hours))
    for up in range(4):
        for mode in range(5):
            for point in range(POINTS):
                expected = least(0, up, mode, point)
                if expected < 1e5:
                    assert values[up, mode, point] == pytest.approx(expected, abs=1e-9), (up, mode, point)


def test_levels_are_weighed_as_a_plain_recursion_does() -> None:
    """Two pools of three and two levels: a narrow seat, one with the rest on demand, and the full ones."""
    half, rest = 0.5, 1.6
    usd, speed = np.array([0.5, half + rest, 1.0, 1.4, ON_DEMAND]), np.array([0.5, 1.0, 1.0, 1.0, 1.0])
    pool, level = np.array([0, 0, 0, 1, 0]), np.array([1, 1, 2, 1, 0])
    seats = gang()._replace(levels=np.array([3, 2]), pool=pool, level=level, usd_per_hour=usd, speed=speed)
    seats = seats._replace(lost_hours=np.zeros(5))
    change = np.zeros((2, 3, 3))
    change[0] = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]
    change[1, :2, :2] = [[0.5, 0.5], [0.4, 0.6]]
    kept: Floats = np.empty((1, 6, 7, POINTS))
    compiled(joint.solve)(
        seats, np.full(STEPS, STEP), STEP * np.arange(STEPS, 0.0, -1.0), np.tile(change, (STEPS, 1, 1, 1)),
        np.zeros(POINTS), kept,
    )  # fmt: skip

    def ahead(step: int, at: int, mode: int, position: float) -> float:
        if position < -1e-9:
            return joint.IMPOSSIBLE_USD
        total = 0.0
        for then in range(6):
            chance = change[0, at % 3, then % 3] * change[1, at // 3, then // 3]
            total += chance * least(step + 1, then, mode, min(round(position), POINTS - 1))
        return float(total)

    @cache
    def least(step: int, at: int, mode: int, point: int) -> float:
        if step == STEPS:
            return 0.0
        work, there = max(STEP * (STEPS - step) - point * CELL, 0.0), (at % 3, at // 3)
        place = mode if mode < 2 else int(pool[mode - 2])
        found = [ahead(step, at, place, point - STEP / CELL)]
        for seat in range(5):
            if there[pool[seat]] < level[seat]:
                continue
            ways = [(RESTART, float(MOVE[place, pool[seat]]))] + [(0.0, 0.0)] * (mode == 2 + seat)
            for pause, fee in ways:
                held = pause + work / speed[seat]
                lost = STEP - (STEP - pause) * speed[seat]
                if held <= STEP + 1e-9:
                    found.append(fee + usd[seat] * held)
                elif float(lost / CELL).is_integer():
                    found.append(fee + usd[seat] * STEP + ahead(step, at, 2 + seat, point - lost / CELL))
                else:
                    low, high = (
                        ahead(step, at, 2 + seat, at_)
                        for at_ in (np.floor(point - lost / CELL), np.floor(point - lost / CELL) + 1.0)
                    )
                    found.append(fee + usd[seat] * STEP + (low + high) / 2.0)
        return min(*found, joint.IMPOSSIBLE_USD)

    for at in range(6):
        for mode in range(7):
            for point in range(POINTS):
                expected = least(0, at, mode, point)
                if expected < 1e5:
                    assert kept[0, at, mode, point] == pytest.approx(expected, abs=1e-9), (at, mode, point)


def test_chains_of_a_belief() -> None:
    hazard = np.array([[0.1], [0.2]])
    belief = np.array([[0.0], [1.0]])
    stays, comes = np.empty(3), np.empty(3)
    spells.project(belief, hazard, np.zeros(1), np.array([0, 1, 2, 5]), stays, comes)
    assert stays == pytest.approx([0.8, 0.8, 0.562])
    assert comes[1:] == pytest.approx([0.1, 0.219])


def test_a_belief_is_that_of_every_age_by_itself() -> None:
    """Phases stand for ages: known ages step on as they are, and a rest is where steps lead."""
    layout = spells.ages(1 / 6)
    assert (np.diff(layout.phase) >= 0).all()
    assert len(layout.bin) == layout.phase[-1] + 1
    hazard = spells.prior(1 / 6)
    rest = spells.resting(layout, hazard)
    after = np.empty_like(rest)
    spells.step(rest, hazard[:, layout.bin], layout.advance, after)
    assert after == pytest.approx(rest, abs=1e-12)
    far = spells.believed(layout, hazard, True, 1, 60_000)
    assert far == pytest.approx(rest, abs=1e-3)


def test_a_class_of_gpus_begins_with_its_own_figures_and_others_with_the_mean() -> None:
    recent, older = spells.prior(0.1, "H100"), spells.prior(0.1, "v100")
    assert recent.shape == older.shape == (2, spells.BINS)
    assert (spells.prior(0.1, "A100-80GB") == recent).all()
    assert not (recent == older).all()
    assert spells.prior(0.1, "TPU") == pytest.approx((recent + older) / 2)
    assert spells.prior(2.0).max() == 0.5
    assert (recent[:, :3] > recent[:, -3:]).all(), "who has lasted is likely to last"


def test_counts_are_of_spells_by_their_age() -> None:
    up = np.array([0, 1, 1, 1, 0, 0, 1], dtype=bool)
    seen, ended = spells.count(up, 1.0)
    assert seen.sum() == len(up) - 1
    assert ended.sum() == 3
    assert ended[spells.UP].sum() == 1
    blended = spells.hazards(spells.AgeCounts(seen, ended), spells.AgeCounts(seen, ended), spells.prior(1.0))
    assert ((blended > 0) & (blended < 1)).all()
