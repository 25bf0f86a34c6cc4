"""How long spot stays or stays away: hazards by the age of a spell, and what is believed of a pool now.

A pool is up (it offers the width in question) or down. How likely a spell ends falls with its age: spells are
heavy-tailed. Each hazard blends a prior, all pools together, and the pool's own history, which weighs more
the longer it gets. An age is represented by a *phase*: each bin of ages is cut into a few phases that a spell
passes one after the other, so that a belief is a short vector however long spells last, and updating it takes
a few sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import compilable

EDGES_HOURS = (0.0, 0.17, 0.34, 0.51, 0.84, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0, math.inf)
"""Between these ages a hazard is one number."""
BINS = len(EDGES_HOURS) - 1
PHASES = 3  # the most phases of a bin
PRIOR_PER_HOUR: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "recent": (
        (2.96, 1.75, 1.30, 0.82, 0.80, 0.42, 0.16, 0.041, 0.042, 0.026, 0.007),
        (1.95, 1.37, 0.39, 0.58, 0.44, 0.098, 0.079, 0.047, 0.084, 0.018, 0.013),
    ),
    "older": (
        (1.30, 1.54, 1.28, 0.91, 0.42, 0.34, 0.31, 0.21, 0.12, 0.014, 0.007),
        (1.32, 1.26, 0.96, 0.86, 0.34, 0.29, 0.19, 0.10, 0.071, 0.032, 0.015),
    ),
}
"""By class of GPUs, the rate per hour at which spells end in each bin of ages: without spot, then with spot.

Counted on public measurements: H100s in six zones of GCP over 9 days, V100s in five zones of AWS over 30.
"""
CLASSES: Mapping[str, str] = {
    **dict.fromkeys(("a100", "a100-80gb", "h100", "h200", "b200", "gb200"), "recent"),
    **dict.fromkeys(("k80", "p100", "t4", "v100", "v100-32gb"), "older"),
}
"""The class of a GPU type; others begin with the mean of all classes."""
PRIOR_EVENTS, POOLED_EVENTS = 3.0, 8.0  # how many observed ends the prior and what all pools show count for
LEAST_HAZARD, MOST_HAZARD = 1e-5, 0.95
DOWN, UP, UNKNOWN = 0, 1, -1


class Ages(NamedTuple):
    """Ages of spells as phases, for slots of one length."""

    bin: Ints  # [phase]: the bin of ages that it belongs to
    advance: Floats  # [phase]: the chance per slot to go on to the next phase
    phase: Ints  # [age in slots]: the phase of a spell of this age; older ones are in the last


@lru_cache(maxsize=16)
def ages(slot_hours: float) -> Ages:
    """Lay out the phases for slots of this length."""
    bins, advance, phase = list[int](), list[float](), [0]
    for at in range(BINS):
        first = math.floor(EDGES_HOURS[at] / slot_hours + 0.5)
        if at == BINS - 1:
            bins.append(at)
            advance.append(0.0)
            phase.append(len(bins) - 1)
            break
        slots = math.floor(EDGES_HOURS[at + 1] / slot_hours + 0.5) - first
        count = min(slots, PHASES)
        for slot in range(slots):
            phase.append(len(bins) + slot * count // slots)
        bins += [at] * count
        advance += [count / max(slots, 1)] * count
    return Ages(np.array(bins, dtype=np.int64), np.array(advance), np.array(phase, dtype=np.int64))


class AgeCounts(NamedTuple):
    """How many slots spells of each age had, and how many of these were the last; [down or up, bin]."""

    seen: Floats
    ended: Floats


def count(up: Bools, slot_hours: float) -> AgeCounts:
    """Count one pool's history."""
    return count_known(np.asarray(up, dtype=np.int64), slot_hours)


def count_known(state: Ints, slot_hours: float) -> AgeCounts:
    """Count what is known of a pool, slot by slot; a spell's age counts from when it was first seen."""
    seen, ended = np.zeros((2, BINS)), np.zeros((2, BINS))
    if len(state) > 1:
        slots = np.arange(len(state))
        last = np.diff(state) != 0
        age = slots - np.maximum.accumulate(np.where(np.append(True, last), slots, 0)) + 0.5
        bins = np.searchsorted(np.array(EDGES_HOURS), age * slot_hours, side="right") - 1
        known = (state[:-1] != UNKNOWN) & (state[1:] != UNKNOWN)
        last &= known
        np.add.at(seen, (state[:-1][known], bins[:-1][known]), 1.0)
        np.add.at(ended, (state[:-1][last], bins[:-1][last]), 1.0)
    return AgeCounts(seen, ended)


def prior(slot_hours: float, gpu: str = "") -> Floats:
    """Return the hazard per slot of each bin before anything was seen of a GPU type; [down or up, bin]."""
    known = CLASSES.get(gpu.casefold())
    per_hour = [PRIOR_PER_HOUR[name] for name in (PRIOR_PER_HOUR if known is None else (known,))]
    return np.asarray(np.minimum(0.5, np.mean(per_hour, axis=0) * slot_hours))


def hazards(own: AgeCounts, pooled: AgeCounts, before: Floats) -> Floats:
    """Blend a pool's own counts with all pools' and with the prior, `before`; [down or up, bin]."""
    common = (pooled.ended + PRIOR_EVENTS) / (pooled.seen + PRIOR_EVENTS / before)
    blended = (own.ended + POOLED_EVENTS) / (own.seen + POOLED_EVENTS / common)
    return np.asarray(np.clip(blended, LEAST_HAZARD, MOST_HAZARD))


@compilable
def step(belief: Floats, hazard: Floats, advance: Floats, after: Floats) -> None:
    """Let a slot pass: fill `after` with what is believed then; all but `advance` are [down or up, phase]."""
    phases = len(advance)
    after[:] = 0.0
    for state in range(2):
        ended = 0.0
        for phase in range(phases):
            end = belief[state, phase] * hazard[state, phase]
            ended += end
            stays = belief[state, phase] - end
            goes_on = stays * advance[phase]
            after[state, phase] += stays - goes_on
            if phase + 1 < phases:
                after[state, phase + 1] += goes_on
        after[1 - state, 0] += ended


@compilable
def follow(belief: Floats, hazard: Floats, advance: Floats, slots: int) -> Floats:
    """Return what is believed some slots later."""
    now, after = belief.copy(), np.empty_like(belief)
    for _ in range(slots):
        step(now, hazard, advance, after)
        now, after = after, now
    return now


@compilable
def project(
    belief: Floats, hazard: Floats, advance: Floats, borders: Ints, stays: Floats, comes: Floats
) -> None:
    """Reduce a belief to a chain of two states over steps that begin at these slots.

    `stays[k]` is the chance to be up at border k + 1 of a pool that is up at border k, `comes[k]` that of one
    that is down. Both follow from the whole belief, which includes ages, and pools that were never seen.
    """
    now, of_up = belief.copy(), belief.copy()
    after = np.empty_like(belief)
    for k in range(len(borders) - 1):
        up = now[UP].sum()
        of_up[:] = now
        of_up[DOWN] = 0.0
        for _ in range(borders[k + 1] - borders[k]):
            step(now, hazard, advance, after)
            now[:] = after
            step(of_up, hazard, advance, after)
            of_up[:] = after
        both, then = of_up[UP].sum(), now[UP].sum()
        stays[k] = both / up if up > 1e-9 else 0.5
        comes[k] = (then - both) / (1.0 - up) if up < 1.0 - 1e-9 else 0.5


def believed(layout: Ages, hazard: Floats, up: bool | None, age_slots: int, slots_ago: int) -> Floats:
    """Return what is believed of a pool that was seen some slots ago in a spell of this age; None: unseen."""
    phases = len(layout.advance)
    belief, by_phase = np.zeros((2, phases)), hazard[:, layout.bin]
    if up is None:
        return resting(layout, hazard)
    belief[int(up), layout.phase[min(age_slots, len(layout.phase) - 1)]] = 1.0
    return follow(belief, by_phase, layout.advance, slots_ago)


def resting(layout: Ages, hazard: Floats) -> Floats:
    """Return what is believed of a pool that was not seen for long: the stationary state of its hazards."""
    by_phase = hazard[:, layout.bin]
    share = np.zeros_like(by_phase)
    for state in range(2):
        mass = 1.0
        for phase, advance in enumerate(layout.advance.tolist()):
            leaves = by_phase[state, phase] + (1.0 - by_phase[state, phase]) * advance
            share[state, phase] = mass / leaves
            mass *= (1.0 - by_phase[state, phase]) * advance / leaves
    return np.asarray(share / share.sum())


def lives(layout: Ages, hazard: Floats) -> Floats:
    """Return how many more slots a spell lasts on average, by its phase; the hazards are by phase."""
    found = np.empty(len(hazard))
    ahead = 0.0
    for phase in range(len(hazard) - 1, -1, -1):
        stays, advance = 1.0 - hazard[phase], layout.advance[phase]
        ahead = (1.0 + stays * advance * ahead) / (1.0 - stays * (1.0 - advance))
        found[phase] = ahead
    return found
