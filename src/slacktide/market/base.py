"""Markets: one or more pools (zone x GPU type), each a regular series of quotes."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.core.quotes import UNLIMITED_GPUS, Quote

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """A cache of the last used values. Keys should name pasts (`Past.mark`) instead of holding them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key; `make` makes it if it is not in the cache."""
        if key not in self._values:
            self._values[key] = make()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]


EPOCH = datetime(2025, 1, 1, tzinfo=UTC)
"""When a market without times of its own is assumed to begin."""


_UNLIMITED = np.array([UNLIMITED_GPUS])
_UNLIMITED.flags.writeable = False


def new_key() -> int:
    """Return a name for a series that no other series has, in this process or another."""
    return secrets.randbits(62)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The spot and on-demand market of one zone and GPU type, slot by slot.

    Prices are USD per GPU-hour. The market is constant inside a slot. Arrays are read-only and
    of one length; prices are finite and not negative, counts not negative.
    """

    name: str
    slot_hours: float
    spot_usd_per_gpu_hour: Floats
    on_demand_usd_per_gpu_hour: Floats
    spot_gpus: Ints
    start: datetime = EPOCH
    gpu: str = ""
    """The GPU type, such as H100; empty where the source does not say."""
    on_demand_gpus: Ints | None = None
    """On-demand GPUs available, slot by slot; None: unlimited at all times."""
    notice_hours: float = 0.0
    """How long before it takes spot back the pool warns the job that holds it; 0: it does not."""
    key: int = field(init=False, repr=False, default_factory=new_key)
    """Names the series, so that caches of what was learned from it need not hold it."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slot_hours) and self.slot_hours > 0):
            raise InputError(f"pool {shown(self.name)}: slot_hours must be > 0, got {self.slot_hours}")
        if not (math.isfinite(self.notice_hours) and self.notice_hours >= 0):
            raise InputError(f"pool {shown(self.name)}: notice_hours must be >= 0, got {self.notice_hours}")
        if self.start.tzinfo is None:
            raise InputError(f"pool {shown(self.name)}: start must have a time zone, got {self.start}")
        _own(self, "spot_usd_per_gpu_hour", np.float64)
        _own(self, "on_demand_usd_per_gpu_hour", np.float64)
        _own(self, "spot_gpus", np.int64)
        if self.on_demand_gpus is not None:
            _own(self, "on_demand_gpus", np.int64)
            if bool((self.on_demand_gpus >= UNLIMITED_GPUS).all()):
                object.__setattr__(self, "on_demand_gpus", None)  # a stock is kept only if it is ever limited
        self._check_end()
        lengths = {len(self.spot_gpus), len(self.spot_usd_per_gpu_hour), len(self.on_demand_usd_per_gpu_hour)}
        lengths |= set() if self.on_demand_gpus is None else {len(self.on_demand_gpus)}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"pool {shown(self.name)}: the series must be of one length >= 1, got {sorted(lengths)}"
            )

    def _check_end(self) -> None:
        try:
            self.start + timedelta(hours=len(self.spot_gpus) * self.slot_hours)
        except OverflowError:
            raise InputError(
                f"pool {shown(self.name)}: the series must end before the year 10000, got "
                f"{len(self.spot_gpus)} slots of {self.slot_hours:g} h from {self.start:%Y-%m-%d} on; "
                "check the times and the slot length"
            ) from None

    def __reduce__(self) -> tuple[type[Pool], tuple[object, ...]]:
        """Unpickle by the constructor, because a plain copy's arrays could be written to."""
        series = (self.spot_usd_per_gpu_hour, self.on_demand_usd_per_gpu_hour, self.spot_gpus)
        more = (self.start, self.gpu, self.on_demand_gpus, self.notice_hours)
        return Pool, (self.name, self.slot_hours, *series, *more)

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self.spot_gpus)

    @property
    def hours(self) -> float:
        """How long the series is."""
        return len(self) * self.slot_hours

    @property
    def first_hour_of_day(self) -> float:
        """The time of day at which the first slot begins, in hours UTC."""
        start = self.start
        return start.hour + start.minute / 60 + (start.second + start.microsecond * 1e-6) / 3600

    @property
    def end(self) -> datetime:
        """When the last slot ends."""
        return self.start + timedelta(hours=self.hours)

    def time(self, slot: int) -> datetime:
        """Return when a slot begins."""
        return self.start + timedelta(hours=slot * self.slot_hours)

    @property
    def stock_gpus(self) -> Ints:
        """On-demand GPUs available, slot by slot; a single number for all slots if they are unlimited."""
        return _UNLIMITED if self.on_demand_gpus is None else self.on_demand_gpus

    def stock(self, first: int, last: int) -> Ints:
        """Return the on-demand GPUs available in the slots from `first` to `last`, `last` excluded."""
        if self.on_demand_gpus is None:
            return np.full(max(0, min(last, len(self)) - first), UNLIMITED_GPUS)
        return self.on_demand_gpus[first:last]

    def quote(self, slot: int) -> Quote:
        """Return what the market offers in a slot; after the end only on demand, at its last price.

        The stock is unknown then, and assumed to be unlimited.
        """
        if slot < len(self):
            return Quote(
                float(self.spot_usd_per_gpu_hour[slot]),
                float(self.on_demand_usd_per_gpu_hour[slot]),
                int(self.spot_gpus[slot]),
                UNLIMITED_GPUS if self.on_demand_gpus is None else int(self.on_demand_gpus[slot]),
            )
        last = len(self) - 1
        return Quote(float(self.spot_usd_per_gpu_hour[last]), float(self.on_demand_usd_per_gpu_hour[last]), 0)

    def window(self, first: int, last: int) -> Pool:
        """Return the slots from `first` to `last`, `last` excluded."""
        if not 0 <= first < last <= len(self):
            raise InputError(
                f"pool {shown(self.name)}: a window must lie in 0..{len(self)}, got {first}..{last}"
            )
        return replace(
            self,
            spot_usd_per_gpu_hour=self.spot_usd_per_gpu_hour[first:last],
            on_demand_usd_per_gpu_hour=self.on_demand_usd_per_gpu_hour[first:last],
            spot_gpus=self.spot_gpus[first:last],
            start=self.time(first),
            on_demand_gpus=None if self.on_demand_gpus is None else self.on_demand_gpus[first:last],
        )


@dataclass(frozen=True, slots=True)
class Moves:
    """What copying a checkpoint between pools costs, and how fast it is; `pools.places` uses it.

    The defaults are about what large clouds charge for traffic between their own regions. Raises InputError
    for an impossible number.
    """

    within_region_usd_per_gb: float = 0.0
    between_regions_usd_per_gb: float = 0.02
    between_continents_usd_per_gb: float = 0.08
    gbit_per_s: float = 5.0
    """How fast a checkpoint travels to another region; may be infinite."""
    pairs: tuple[tuple[str, str, float], ...] = ()
    """Two regions and the USD per GB between them, in either direction; these override the general rules."""

    def __post_init__(self) -> None:
        rules = ("within_region_usd_per_gb", "between_regions_usd_per_gb", "between_continents_usd_per_gb")
        costs = [(name, name, getattr(self, name)) for name in rules]
        costs += [(f"the cost of a move between {a} and {b}", "pairs", usd) for a, b, usd in self.pairs]
        for what, given, usd in costs:
            if not (math.isfinite(usd) and usd >= 0):
                raise InputError(f"{what} must be >= 0 and finite, got {usd:g}", field=given)
        if not self.gbit_per_s > 0:
            raise InputError(f"gbit_per_s must be > 0, got {self.gbit_per_s:g}", field="gbit_per_s")


@dataclass(frozen=True, slots=True, eq=False)
class Market(Mapping[str, Pool]):
    """The pools a job could run in, by name, and what was assumed when they were read."""

    pools: tuple[Pool, ...]
    source: str = "market"
    assumptions: tuple[str, ...] = ()
    """Sentences about what the source did not say and was assumed."""
    moves: Moves = field(default_factory=Moves)
    """What carrying a checkpoint from one pool to another costs."""
    uncounted: tuple[str, ...] = ()
    """Pools whose spot GPUs no source counts: their counts are assumed."""

    def __post_init__(self) -> None:
        if not self.pools:
            raise InputError(f"{self.source}: a market must have at least one pool, got none")
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            raise InputError(f"{self.source}: the names of pools must be unique, got {sorted(names)}")

    def __getitem__(self, name: str) -> Pool:
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (pool.name for pool in self.pools)

    def __len__(self) -> int:
        return len(self.pools)

    def pool(self, name: str) -> Pool:
        """Return a pool by name; raises UnknownNameError with "did you mean"."""
        if name not in self:
            raise UnknownNameError("pool", name, self, place=f"{self.source}: ")
        return self[name]


def assuming(market: Market, sentence: str) -> Market:
    """Return a market with one more assumption, unless it has that already or the sentence is empty."""
    if sentence in ("", *market.assumptions):
        return market
    return replace(market, assumptions=(*market.assumptions, sentence))


def with_notice(market: Market, notice_hours: float) -> Market:
    """Return a market whose pools warn this long before they take spot back, unless they have a notice."""
    if not notice_hours:
        return market
    pools = (replace(pool, notice_hours=pool.notice_hours or notice_hours) for pool in market.pools)
    return replace(market, pools=tuple(pools))


def _own(pool: Pool, name: str, dtype: type[np.generic]) -> None:
    """Replace a series of the pool by a read-only array of this type; raises InputError for a bad number."""
    given = np.asarray(getattr(pool, name))
    array = np.array(given, dtype=dtype)
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(bad):
        raise InputError(
            f"pool {shown(pool.name)}: {name} must be finite and >= 0, got {given[bad[0]]} in slot {bad[0]}"
        )
    array.flags.writeable = False
    object.__setattr__(pool, name, array)


SAME_BORDER = 1e-3
"""Borders of slots that are closer than this share of a slot are the same: a feed's step is a median."""


_kept: LruCache[tuple[tuple[int, ...], Moves, datetime | None], str] = LruCache(16)


def digest(market: Market, until: datetime | None = None) -> str:
    """Return the SHA-256 of all quotes of a market, with the names, beginnings, slot lengths and
    notices of its pools, and with what moves cost where the market says it.

    `until` leaves out slots that begin at that time or later, pools that have no others, and the slot length:
    so a feed that grows at its end, and whose slot length is measured, keeps its digest.
    """
    names = tuple(pool.key for pool in market.pools)
    return _kept.get((names, market.moves, until), lambda: _digest(market, until))


def _digest(market: Market, until: datetime | None) -> str:
    hashed = hashlib.sha256()
    for pool in sorted(market.pools, key=lambda pool: pool.name):
        slots = len(pool)
        if until is not None:
            ahead = (until - pool.start).total_seconds() / 3600.0 / pool.slot_hours
            slots = max(0, min(slots, math.ceil(ahead - SAME_BORDER)))
        if slots:
            for part in _parts(pool, slots, None if until is not None else pool.slot_hours):
                hashed.update(part)
    if market.moves != Moves():  # the default is left out, as in digests from before there were moves
        hashed.update(repr(market.moves).encode())
    return hashed.hexdigest()


def _parts(pool: Pool, slots: int, slot_hours: float | None) -> Iterator[bytes]:
    """Yield the bytes of a pool that are hashed; the length of each part follows from those before it."""
    # No notice is left out, as in digests from before there were notices.
    notice = [pool.notice_hours] if pool.notice_hours else []
    head = json.dumps([pool.name, slots, slot_hours, pool.start.timestamp(), *notice])
    yield f"{len(head)} {head}".encode()
    yield np.ascontiguousarray(pool.spot_usd_per_gpu_hour[:slots], "<f8").tobytes()
    yield np.ascontiguousarray(pool.on_demand_usd_per_gpu_hour[:slots], "<f8").tobytes()
    yield np.ascontiguousarray(pool.spot_gpus[:slots], "<i8").tobytes()
    stock = pool.stock(0, slots)
    if bool((stock < UNLIMITED_GPUS).any()):  # an unlimited stock is left out, as in older digests
        yield np.ascontiguousarray(stock, "<i8").tobytes()
