"""Estimates how likely each pool has spot, now and in coming slots, from its record and what was seen since.

Hazards, the chances that a spell ends at an age, are counted from a pool's record and, while that is short,
from all pools. A belief starts from the last recorded slot and is updated by what was seen since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.quotes import Sighting
from slacktide.market.base import LruCache
from slacktide.market.forecast import spells
from slacktide.market.tape import Past
from slacktide.policies.view import View

REFIT_HOURS = 24.0  # how often hazards are counted again
EXPECTED = 0.6  # a sighting is a surprise if its chance was lower than this

MOST_LEVELS = 3  # at most this many levels of a pool are distinguished, "no spot" included

_blended: LruCache[tuple[object, ...], Floats] = LruCache(512)
_counts: LruCache[tuple[int, int, int, int], spells.AgeCounts] = LruCache(512)


class Followed(NamedTuple):
    """The belief in a slot, [state, phase of age], and whether the last sighting before it was unlikely."""

    belief: Floats
    slot: int
    surprised: bool


_followed: LruCache[tuple[object, ...], list[tuple[tuple[Sighting, ...], Followed]]] = LruCache(128)


class PoolWarning(NamedTuple):
    """A warning that a pool keeps the spot that a job holds there until a slot, and then has less."""

    pool: int
    slot: int  # of the job
    gpus: int  # what it held


class Named:
    """A long cache key whose hash is computed only once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: object) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._parts == other._parts


class Sources:
    """The records and sightings of all pools up to the last refit, from which hazards are counted."""

    def __init__(self, view: View) -> None:
        until = _last_refit(view.slot, max(1, round(REFIT_HOURS / view.slot_hours)))
        self.until_hours = (until + 0.5) * view.slot_hours
        self.pasts = [view.past(at) for at in range(len(view.pools))]
        self.tried = [
            seen_before(view.sightings(at), self.until_hours - view.slot_hours)
            for at in range(len(view.pools))
        ]
        marks = [past.mark(past.slots_before(self.until_hours)) for past in self.pasts]
        self.name = Named(*marks, *self.tried)


def seen_before(seen: Sequence[Sighting], hours: float) -> tuple[Sighting, ...]:
    """Return the sightings before a moment; `seen` must be in the order of time."""
    return tuple(seen[: bisect_left(seen, hours, key=lambda sighting: sighting.at_hours)])


class PoolBelief:
    """What is believed of one pool: whether it has this many spot GPUs, now and in the next slot."""

    def __init__(self, view: View, pool: int, gpus: int, sources: Sources) -> None:
        self.pool, self.gpus = pool, gpus
        self._view = view
        self._layout = spells.ages(round(view.slot_hours, 12))
        self._hazards = _hazards(view, pool, gpus, sources)
        self._by_phase = np.ascontiguousarray(self._hazards[:, self._layout.bin])
        self.surprised = False
        """Whether the last sighting was unlikely."""
        self._now = self.at(view.slot)

    @property
    def up(self) -> float:
        """The chance that the pool has the GPUs now."""
        return float(self._now[spells.UP].sum())

    @property
    def stays(self) -> float:
        """The chance that it has them in the next slot if it has them now."""
        return 1.0 - self._ends(spells.UP)

    @property
    def comes(self) -> float:
        """The chance that it has them in the next slot if it does not have them now."""
        return self._ends(spells.DOWN)

    @property
    def long_run(self) -> float:
        """The share of the time in which it has them in the long run."""
        return float(spells.resting(self._layout, self._hazards)[spells.UP].sum())

    @property
    def life_hours(self) -> float:
        """Hours for which it will still have them on average, if it has them now."""
        lives = spells.lives(self._layout, self._by_phase[spells.UP])
        share = float(self._now[spells.UP].sum())
        slots = float((self._now[spells.UP] * lives).sum()) / share if share > 1e-12 else float(lives[0])
        return slots * self._view.slot_hours

    def _ends(self, state: int) -> float:
        share = float(self._now[state].sum())
        if share < 1e-12:
            return float(self._by_phase[state, 0])
        return float((self._now[state] * self._by_phase[state]).sum()) / share

    def chain(self, slot: int, borders: Ints) -> tuple[Floats, Floats]:
        """Return the chances that the GPUs stay and come, by step between borders, as believed in a slot."""
        return self._projected(self.at(slot), borders)

    def chain_down(self, since: int, borders: Ints) -> tuple[Floats, Floats]:
        """Return the same if the GPUs are known to have gone `since` slots before the first border."""
        belief = np.zeros_like(self._now)
        belief[spells.DOWN, 0] = 1.0
        return self._projected(self._stepped(belief, since), borders)

    def _projected(self, belief: Floats, borders: Ints) -> tuple[Floats, Floats]:
        stays, comes = np.empty(len(borders) - 1), np.empty(len(borders) - 1)
        compiled(spells.project)(belief, self._by_phase, self._layout.advance, borders, stays, comes)
        return stays, comes

    def at(self, slot: int) -> Floats:
        """Return the belief in a slot of the job, not after the present one, and set `surprised` for it."""
        seen = list(self._view.sightings(self.pool))
        if slot < self._view.slot:
            seen = [one for one in seen if self._slot_of(one) <= slot]
        followed = self._followed(slot, seen)
        self.surprised = followed.surprised and (not seen or self._slot_of(seen[-1]) >= slot - 1)
        return followed.belief

    def _slot_of(self, seen: Sighting) -> int:
        return round(seen.at_hours / self._view.slot_hours)

    def _followed(self, slot: int, seen: list[Sighting]) -> Followed:
        """Return the belief in a slot after these sightings; it continues the cached one where possible."""
        view = self._view
        past = view.past(self.pool)
        recorded = past.slots_before((slot + 0.5) * view.slot_hours)
        key = (*past.mark(recorded), self.gpus, self.pool, self._hazards.tobytes())
        before = _followed.get(key, lambda: [((), self._recorded(past, recorded))])
        done, last = before[0]
        new = seen[len(done) :]
        # A back-test passes the same objects each time; an engine makes equal ones.
        same = not done or (len(seen) >= len(done) and seen[len(done) - 1] is done[-1] and seen[0] is done[0])
        same = same or list(done) == seen[: len(done)]
        same = same and last.slot <= (self._slot_of(new[0]) if new else slot)
        if not same:  # the cached sightings are another run's
            done, last = (), self._recorded(past, recorded)
        for one in seen[len(done) :]:
            last = self._after(last, one)
        last = Followed(self._stepped(last.belief, slot - last.slot), max(slot, last.slot), last.surprised)
        before[0] = (tuple(seen), last)
        return last

    def _recorded(self, past: Past, recorded: int) -> Followed:
        """Return the belief after this many recorded slots; that of the long run if there are none."""
        if not recorded:
            return Followed(spells.resting(self._layout, self._hazards), 0, False)
        up = past.spot_gpus[:recorded] >= self.gpus
        belief = spells.believed(self._layout, self._hazards, bool(up[-1]), _age(up), 0)
        begun = round(past.begin_hours(recorded - 1) / self._view.slot_hours)
        return Followed(belief, begun, self._flipped(up))

    def _after(self, last: Followed, seen: Sighting) -> Followed:
        seen_at = self._slot_of(seen)
        belief = self._stepped(last.belief, seen_at - last.slot)
        begun = max(last.slot, seen_at)
        state = spells.UP if seen.at_least_gpus >= self.gpus else spells.DOWN
        if state == spells.DOWN and seen.at_most_gpus >= self.gpus:
            return Followed(belief, begun, False)
        return Followed(_given(belief, state), begun, float(belief[state].sum()) < EXPECTED)

    def _flipped(self, up: Bools) -> bool:
        """Whether the last recorded slot was unlikely after the one before."""
        if len(up) < 2 or up[-1] == up[-2]:
            return False
        age = self._layout.phase[min(_age(up[:-1]), len(self._layout.phase) - 1)]
        return float(self._by_phase[int(up[-2]), age]) < EXPECTED

    def _stepped(self, belief: Floats, slots: int) -> Floats:
        if slots <= 0:
            return belief
        found: Floats = compiled(spells.follow)(belief, self._by_phase, self._layout.advance, slots)
        return found


class PoolLevels:
    """What is believed of one pool at several widths: which of them it has, now and in the next slot.

    `now` is an array of chances: that it has the first width, the second, and so on. A pool that has warned
    of a `fall` keeps what is held until then, and then certainly has less.
    """

    def __init__(
        self, view: View, pool: int, widths: Sequence[int], sources: Sources, fall: PoolWarning | None = None
    ) -> None:
        self.widths = tuple(widths)
        self._fall = fall if fall is not None and fall.pool == pool else None
        self._view, self._pool = view, pool
        self._offered = view.pools[pool].quote.spot_gpus
        by_width = {gpus: PoolBelief(view, pool, gpus, sources) for gpus in dict.fromkeys(widths)}
        self._beliefs = [by_width[gpus] for gpus in widths]
        self._stays = np.array([one.stays for one in self._beliefs])
        self._comes = np.array([one.comes for one in self._beliefs])
        self._held = None if self._fall is None else PoolBelief(view, pool, self._fall.gpus, sources)

    @property
    def surprised(self) -> bool:
        """Whether the last sighting was unlikely for any of the widths."""
        return any(belief.surprised for belief in self._beliefs)

    def up_hours(self, gpus: int) -> float:
        """Return for how many hours it has had this many GPUs; 0 if the present slot is not recorded."""
        past = self._view.past(self._pool)
        up = past.spot_gpus >= gpus
        return _age(up) * past.slot_hours if is_fed(self._view, self._pool) and up[-1] else 0.0

    def now(self) -> Floats:
        """Return the chance that it has each width now."""
        return _falling(np.array([one.up for one in self._beliefs]))

    def is_up(self, now: Floats, gpus: int) -> bool:
        """Whether it certainly has this many GPUs, by its offer or by the chances of the next wider width."""
        at = bisect_left(self.widths, gpus)
        return (at < len(now) and bool(now[at] > 1.0 - 1e-9)) or self._offered >= gpus

    def without(self, now: Floats, level: int) -> Floats:
        """Return the chance of each width after the pool turned out not to have the width of a level."""
        missing = now[level - 1]
        found: Floats = (now - missing) / max(1.0 - missing, 1e-9)
        found[level - 1 :] = 0.0
        np.clip(found, 0.0, 1.0, out=found)
        return found

    def next(self, now: Floats, level: int) -> Floats:
        """Return the chance of each level in the next slot, of no spot first, if it has `level` now."""
        up = now.copy()
        up[:level] = 1.0
        found = np.zeros(MOST_LEVELS)
        then = _falling(up * self._stays + (1.0 - up) * self._comes)
        if self._fall is not None and self._held is not None:
            then = self._warned(then, self._fall, self._fall.slot - self._view.slot - 1, self._held.stays)
        found[: len(up) + 1] = _levels(then)
        return found

    def _warned(self, at_least: Floats, fall: PoolWarning, slots: int, kept: float) -> Floats:
        """Return the chance of each width `slots` slots before the fall: 0 is at it, a negative number after.

        `kept` is the chance that the GPUs held would have been there at that moment without a warning.
        """
        if slots < 0:
            return at_least
        widths, found = np.array(self.widths), at_least.copy()
        if slots > 0:
            found[..., widths <= fall.gpus] = 1.0
            return found
        lost = widths >= fall.gpus
        # The chance of having a narrower width but not the one held, given that the one held goes.
        found[:] = (at_least - kept) / (1.0 - kept) if kept < 1.0 - 1e-9 else 0.0
        found[..., lost] = 0.0
        return np.asarray(np.clip(found, 0.0, 1.0))

    def chain(self, slot: int, borders: Ints) -> Floats:
        """Return [step, level, next level]: the chances of each change of level, as believed in a slot."""
        chains = {id(one): one.chain(slot, borders) for one in self._beliefs}
        stays = np.stack([chains[id(one)][0] for one in self._beliefs], axis=1)
        comes = np.stack([chains[id(one)][1] for one in self._beliefs], axis=1)
        count = len(self.widths)
        steps = [_falling(np.where(np.arange(count) < level, stays, comes)) for level in range(count + 1)]
        if self._fall is not None:
            self._put_in_fall(self._fall, slot, borders, steps)
        rows = [_levels(step) for step in steps]
        found = np.zeros((len(borders) - 1, MOST_LEVELS, MOST_LEVELS))
        found[:, : count + 1, : count + 1] = np.stack(rows, axis=1)
        return found

    def _put_in_fall(self, fall: PoolWarning, slot: int, borders: Ints, steps: Sequence[Floats]) -> None:
        """Change the chances, [step, width] for each level, to those of a pool that has warned of a fall."""
        step = int(np.searchsorted(borders, fall.slot - slot)) - 1  # the one in which it falls
        if not 0 <= step < len(borders) - 1:
            return
        assert self._held is not None
        kept = float(self._held.chain(slot, borders)[0][step])
        for at_least in steps:
            at_least[:step] = self._warned(at_least[:step], fall, 1, 1.0)
            at_least[step] = self._warned(at_least[step], fall, 0, kept)
        since, rest = int(borders[step + 1]) - (fall.slot - slot), borders[step + 1 :]
        if len(rest) < 2:
            return
        for at, one in enumerate(self._beliefs):
            if self.widths[at] >= fall.gpus:
                stays, comes = one.chain_down(since, rest)
                for level, at_least in enumerate(steps):
                    at_least[step + 1 :, at] = stays if at < level else comes
        for at_least in steps:
            at_least[step + 1 :] = _falling(at_least[step + 1 :])


def is_fed(view: View, pool: int) -> bool:
    """Whether a pool's present offer is recorded, so that trying it would tell nothing new."""
    past = view.past(pool)
    return len(past) > 0 and past.begin_hours(len(past) - 1) > view.now_hours - 0.5 * view.slot_hours


def _falling(chances: Floats) -> Floats:
    """Raise chances of ascending widths so that each is at least that of any wider one."""
    found: Floats = np.maximum.accumulate(chances[..., ::-1], axis=-1)[..., ::-1]
    return found


def _levels(at_least: Floats) -> Floats:
    """Return the chance of being at exactly each level, no spot first, from those of being at least there."""
    edge = np.ones((*at_least.shape[:-1], 1))
    both = np.concatenate([edge, at_least, np.zeros_like(edge)], axis=-1)
    found: Floats = both[..., :-1] - both[..., 1:]
    return found


def _given(belief: Floats, state: int) -> Floats:
    """Return a belief after the state (`spells.UP` or `spells.DOWN`) was seen."""
    found = belief.copy()
    found[1 - state] = 0.0
    total = found.sum()
    if total < 1e-12:  # the state was believed impossible: take it for a spell that has just begun
        found[:] = 0.0
        found[state, 0] = total = 1.0
    found /= total
    return found


def _age(up: Bools) -> int:
    """Return how many slots the last spell has lasted."""
    other = np.flatnonzero(up != up[-1])
    return int(len(up) - (other[-1] + 1 if len(other) else 0))


def _hazards(view: View, pool: int, gpus: int, sources: Sources) -> Floats:
    """Return a pool's hazards, [state, bin of age], counted up to the last refit."""
    gpu = view.places.gpus[pool] if view.places is not None and view.places.gpus else ""

    def counted() -> Floats:
        counts = [
            _with_tries(past, tried, gpus, sources.until_hours, view.slot_hours)
            for past, tried in zip(sources.pasts, sources.tried, strict=True)
        ]
        pooled = spells.AgeCounts(
            np.sum([one.seen for one in counts], axis=0), np.sum([one.ended for one in counts], axis=0)
        )
        return spells.hazards(counts[pool], pooled, spells.prior(view.slot_hours, gpu))

    return _blended.get((sources.name, pool, gpus, gpu), counted)


def _last_refit(slot: int, every: int) -> int:
    """Return the last refit's slot: each multiple of `every`, at first an eighth, a quarter, half of it."""
    early = [every // share for share in (2, 4, 8) if slot >= every // share]
    return slot - slot % every if slot >= every else (early[0] if early else 0)


def _with_tries(
    past: Past, tried: Sequence[Sighting], gpus: int, until_hours: float, slot_hours: float
) -> spells.AgeCounts:
    """Return the spells counted in a pool's record and in what was seen of it since."""
    recorded = _counted(past, gpus, until_hours)
    if not tried:
        return recorded
    states = np.full(round(tried[-1].at_hours / slot_hours) + 1, spells.UNKNOWN)
    for one in tried:
        if one.at_least_gpus >= gpus:
            states[round(one.at_hours / slot_hours)] = spells.UP
        elif one.at_most_gpus < gpus:
            states[round(one.at_hours / slot_hours)] = spells.DOWN
    later = spells.count_known(states, slot_hours)
    return spells.AgeCounts(recorded.seen + later.seen, recorded.ended + later.ended)


def _counted(past: Past, gpus: int, until_hours: float) -> spells.AgeCounts:
    slots = past.slots_before(until_hours)
    key = (*past.mark(slots), gpus)
    return _counts.get(key, lambda: spells.count(past.spot_gpus[:slots] >= gpus, past.slot_hours))
