"""A Markov model of the spot market, counted from history.

A state is (level of usable spot, age of the spell at this level, level of the price). How likely a spell
ends depends on its age, because spells are heavy-tailed (a spot machine that has lived an hour is likely to
live on, a fresh one is not), and on the time of day. Each figure blends three sources: a prior that says
"the hazard falls with age", all pools together, and this pool's own history, which weighs more the longer it
gets. So a new pool starts from what the others show, and the model works without any history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.market.forecast.base import clock, hour_of_day
from slacktide.market.tape import Past

BINS_TWO_LEVELS = (1, 2, 3, 5, 9, 19, 49, 145)
"""First ages, in slots, of the bins when spot is only there or not."""
BINS_MANY_LEVELS = (1, 4, 19)
BLOCKS = 6  # parts of the day that have hazards of their own
PRIOR_HAZARD_SHARE, PRIOR_HAZARD_HOURS = 0.5, 0.3
"""The prior hazard at age a hours is share / (a + hours) per hour."""
PRIOR_EVENTS, POOLED_EVENTS, BLOCK_EVENTS, JUMP_EVENTS = 3.0, 8.0, 30.0, 5.0
"""How many observed events the prior, the pooled figures, the day's mean and pooled jumps count for."""
LIKENESS_RANGE = (0.5, POOLED_EVENTS)
"""The limits of `likeness`: pools always teach each other something, but never more than a plan assumes."""
PRICE_SPREAD = 0.2  # prices closer than this share are one level


@dataclass(frozen=True, slots=True)
class StateCuts:
    """How availability and ages are cut into states."""

    usable: tuple[int, ...]  # spot GPUs that can be used at each level, ascending from 0
    bins: tuple[int, ...]

    @classmethod
    def of(cls, usable: tuple[int, ...]) -> StateCuts:
        """Choose the bins of age for these levels: fine where there are few levels."""
        return cls(usable, BINS_TWO_LEVELS if len(usable) <= 2 else BINS_MANY_LEVELS)

    def level(self, spot_gpus: Ints) -> Ints:
        """Return the level of each count of obtainable GPUs."""
        return np.asarray(np.searchsorted(np.array(self.usable), spot_gpus, side="right") - 1)

    def bin(self, ages: Ints) -> Ints:
        """Return the bin of each age in slots, counted from 1."""
        return np.asarray(np.searchsorted(np.array(self.bins), ages, side="right") - 1)


class SpellCounts(NamedTuple):
    """How often spells of each kind were seen and ended, and to which level they went."""

    seen: Floats  # [level, bin, block]: slots spent
    ended: Floats
    jumps: Floats  # [from level, to level]


class Model(NamedTuple):
    """The learned market: hazards, jumps, prices."""

    hazard: Floats  # [level, bin, block]: chance that a spell ends with this slot
    jumps: Floats  # [from level, to level]: where it goes then
    prices: Floats  # levels of the spot price, ascending
    price_moves: Floats  # [from price level, to price level]: chance per slot
    seen_slots: int  # the slots of the pool's own history that it was learned from


def ages(levels: Ints) -> Ints:
    """Return for each slot how many slots the spell has lasted, this one included."""
    slots = np.arange(len(levels))
    fresh = np.append(True, np.diff(levels) != 0)[: len(levels)]
    return np.asarray(slots - np.maximum.accumulate(np.where(fresh, slots, 0)) + 1)


def block_of(hours_of_day: Floats) -> Ints:
    """Return the part of the day of each hour."""
    return np.asarray((hours_of_day * (BLOCKS / 24.0)).astype(np.int64) % BLOCKS)


def count(
    levels: StateCuts, spot_gpus: Ints, hours_of_day: Floats, weights: Floats | float = 1.0
) -> SpellCounts:
    """Count one pool's history, each slot by its weight."""
    size = len(levels.usable)
    seen = np.zeros((size, len(levels.bins), BLOCKS))
    ended, jumps = seen.copy(), np.zeros((size, size))
    level = levels.level(spot_gpus)
    if len(level) > 1:
        now, then = level[:-1], level[1:]
        left = now != then
        where = (now, levels.bin(ages(level))[:-1], block_of(hours_of_day)[:-1])
        weight = np.broadcast_to(weights, len(level))[:-1]
        np.add.at(seen, where, weight)
        np.add.at(ended, tuple(axis[left] for axis in where), weight[left])
        np.add.at(jumps, (now[left], then[left]), weight[left])
    return SpellCounts(seen, ended, jumps)


def together(counts: list[SpellCounts]) -> SpellCounts:
    """Add up the counts of several pools."""
    return SpellCounts(*(np.sum(parts, axis=0) for parts in zip(*counts, strict=True)))


def likeness(counts: list[SpellCounts]) -> float:
    """Return how many events of a pool's own the figures of all pools should count for.

    If pools were alike, the ends of spells in each would scatter around the number expected from all of them
    no more than by chance. What they scatter beyond that shows how different pools are: if their hazards vary
    around the common ones as a gamma distribution of shape k, the variance is expected + expected² / k.
    """
    all_of_them = together(counts)
    common = all_of_them.ended.sum(2) / np.maximum(all_of_them.seen.sum(2), 1.0)
    expected = np.array([(pool.seen.sum(2) * common).sum(1) for pool in counts])
    ended = np.array([pool.ended.sum((1, 2)) for pool in counts])
    beyond = float(((ended - expected) ** 2 - expected).sum())
    most = float((expected**2).sum())
    return float(np.clip(most / beyond, *LIKENESS_RANGE)) if beyond > 0 else LIKENESS_RANGE[1]


class History(NamedTuple):
    """The past of a pool and of others with slots of its length, from which models are learned."""

    levels: StateCuts
    pools: list[tuple[Ints, Floats]]
    """For each pool, the own one first: the spot GPUs offered, and the hours of the day."""
    prices: Floats  # spot prices of the own pool in the week before
    usd: float  # its present spot price
    slot_hours: float

    @classmethod
    def of(cls, levels: StateCuts, own: Past, others: Sequence[Past], at: int) -> History:
        """Return what came before slot `at` of the own pool, with the price in that slot."""
        now, week = own.begin_hours(at), math.ceil(168 / own.slot_hours)
        alike = [other for other in others if abs(other.slot_hours / own.slot_hours - 1.0) < 1e-6]
        until = [(own, at), *((other, other.slots_before(now)) for other in alike)]
        pools = [
            (past.spot_gpus[:slots], clock(hour_of_day(past), slots, past.slot_hours))
            for past, slots in until
        ]
        prices = own.spot_usd_per_gpu_hour[max(0, at - week) : at]
        return cls(levels, pools, prices, own[at].spot_usd_per_gpu_hour, own.slot_hours)

    def counts(self) -> list[SpellCounts]:
        """Count each pool's history."""
        return [count(self.levels, gpus, hours) for gpus, hours in self.pools]

    def model(self, counts: list[SpellCounts], pooled_events: float = POOLED_EVENTS) -> Model:
        """Blend a pool's own counts, which come first, with those of all pools and the prior."""
        own, pooled = counts[0], together(counts)
        hazard, factor = _hazards(self.levels, own, pooled, self.slot_hours, pooled_events)
        centres = price_levels(self.prices, self.usd)
        return Model(
            np.clip(hazard[:, :, None] * factor[:, None, :], 1e-5, 0.95),
            _jumps(own, pooled),
            centres,
            _price_moves(self.prices, centres),
            int(own.seen.sum()),
        )


def _hazards(
    levels: StateCuts, own: SpellCounts, pooled: SpellCounts, slot_hours: float, pooled_events: float
) -> tuple[Floats, Floats]:
    """Return the chance to end by level and bin, and how each part of the day changes it."""
    age_hours = (np.array(levels.bins) - 0.5) * slot_hours
    prior = np.minimum(0.5, PRIOR_HAZARD_SHARE * slot_hours / (age_hours + PRIOR_HAZARD_HOURS))
    common = (pooled.ended.sum(2) + PRIOR_EVENTS) / (pooled.seen.sum(2) + PRIOR_EVENTS / prior)
    hazard = (own.ended.sum(2) + pooled_events) / (own.seen.sum(2) + pooled_events / common)
    usual = (pooled.seen * common[:, :, None]).sum(1)
    factor = (pooled.ended.sum(1) + BLOCK_EVENTS) / (usual + BLOCK_EVENTS)
    return hazard, factor


def _jumps(own: SpellCounts, pooled: SpellCounts) -> Floats:
    size = len(own.jumps)
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    near = np.where(apart > 0, 1.0 / np.maximum(apart, 1), 0.0)
    common = pooled.jumps + PRIOR_EVENTS * near / np.maximum(near.sum(1, keepdims=True), 1e-12)
    common /= np.maximum(common.sum(1, keepdims=True), 1e-12)
    mixed = own.jumps + JUMP_EVENTS * common
    return np.asarray(mixed / np.maximum(mixed.sum(1, keepdims=True), 1e-12))


def price_levels(prices: Floats, now_usd: float) -> Floats:
    """Return the present spot price and, if prices have been far from it, where they usually were then.

    Two levels at the most: each multiplies the states, and prices move slowly.
    """
    usual = np.quantile(prices, (0.15, 0.85)) if len(prices) else np.array([now_usd])
    other = float(usual[np.abs(usual - now_usd).argmax()])
    if abs(other - now_usd) <= PRICE_SPREAD * max(now_usd, 1e-9):
        return np.array([now_usd])
    return np.array(sorted((now_usd, other)))


def price_level(centres: Floats, usd: Floats | float) -> Ints:
    """Return the nearest level of each price."""
    return np.asarray(np.abs(np.subtract.outer(np.asarray(usd), centres)).argmin(-1))


def _price_moves(prices: Floats, centres: Floats) -> Floats:
    """Count moves between price levels; staying is the prior, since prices move slowly."""
    size = len(centres)
    moves = np.full((size, size), 0.5) + np.eye(size) * 100.0
    if size > 1 and len(prices) > 1:
        level = price_level(centres, prices)
        np.add.at(moves, (level[:-1], level[1:]), 1.0)
    return np.asarray(moves / moves.sum(1, keepdims=True))


def state_of(levels: StateCuts, model: Model, level: Ints, age_bin: Ints, price: Ints) -> Ints:
    """Number the states: level, then age, then price."""
    return np.asarray((level * len(levels.bins) + age_bin) * len(model.prices) + price)


def transitions(levels: StateCuts, model: Model) -> tuple[Ints, Ints, Ints, Floats]:
    """Return transitions: first, last by [part of the day, state]; the next state and chance of each."""
    bins, prices = len(levels.bins), len(model.prices)
    widths = np.diff(np.array(levels.bins)).astype(np.float64)
    states = len(levels.usable) * bins * prices
    first, last = np.zeros((BLOCKS, states), np.int64), np.zeros((BLOCKS, states), np.int64)
    to: list[int] = []
    share: list[float] = []
    for block in range(BLOCKS):
        for state in range(states):
            first[block, state] = len(to)
            level, age, price = state // (bins * prices), state // prices % bins, state % prices
            older = 1.0 / widths[age] if age < bins - 1 else 0.0
            edges = _edges(model, level, age, block, bins, older)
            for place, chance in edges:
                for next_price in range(prices):
                    to.append(place * prices + next_price)
                    share.append(chance * model.price_moves[price, next_price])
            last[block, state] = len(to)
    return first, last, np.array(to, np.int64), np.array(share)


def _edges(
    model: Model, level: int, age: int, block: int, bins: int, older: float
) -> list[tuple[int, float]]:
    """Return (level and age, chance) of what may come next; unlikely jumps are left out."""
    end = float(model.hazard[level, age, block])
    edges = [(level * bins + age, (1.0 - end) * (1.0 - older)), (level * bins + age + 1, (1.0 - end) * older)]
    edges += [(other * bins, end * float(chance)) for other, chance in enumerate(model.jumps[level])]
    edges = [(place, chance) for place, chance in edges if chance > 1e-4]
    total = sum(chance for _, chance in edges)
    return [(place, chance / total) for place, chance in edges]


def simulate(levels: StateCuts, model: Model, past: Ints, blocks: Ints, *, paths: int, seed: int) -> Ints:
    """Draw paths of the level, [path, slot], that continue the past; the first slot is the present one."""
    rng = np.random.default_rng(seed)
    slots = len(blocks)
    level = np.empty((paths, slots), np.int64)
    level[:, 0] = past[-1]
    age = np.full(paths, ages(past)[-1])
    go = np.cumsum(model.jumps, axis=1)
    for slot in range(1, slots):
        present = level[:, slot - 1]
        ends = rng.random(paths) < model.hazard[present, levels.bin(age), blocks[slot - 1]]
        jump = np.minimum((rng.random(paths)[:, None] > go[present]).sum(1), len(levels.usable) - 1)
        level[:, slot] = np.where(ends, jump, present)
        age = np.where(ends, 1, age + 1)
    return level
