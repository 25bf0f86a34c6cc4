"""Limits per caller: requests per second, and streams or uploads at a time."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from slacktide.core.errors import SlacktideError

CALLERS = 10_000  # callers that are remembered; the one whose last request is the oldest is forgotten first


class TooMuchError(SlacktideError):
    """A caller exceeded its share."""

    exit_code = 4
    http_status = 429
    retry_after_s = 1


class _Bucket(NamedTuple):
    left: float
    at_s: float


class Rate:
    """A token bucket for each caller: `per_s` requests per second on average, up to `burst` at once."""

    def __init__(self, per_s: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._monotonic = per_s, burst, monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> bool:
        """Count a request; return whether it is within the caller's share."""
        now = self._monotonic()
        left = self._left(caller, now)
        self._buckets[caller] = _Bucket(left - 1.0 if left >= 1.0 else left, now)
        self._buckets.move_to_end(caller)
        while len(self._buckets) > CALLERS:
            self._buckets.popitem(last=False)
        return left >= 1.0

    def is_spent(self, caller: str) -> bool:
        """Whether a caller has none left, without counting."""
        return self._left(caller, self._monotonic()) < 1.0

    def _left(self, caller: str, now: float) -> float:
        known = self._buckets.get(caller)
        if known is None:
            return self._burst
        return min(self._burst, known.left + (now - known.at_s) * self._per_s)


class Slots:
    """Limits how many may be open at a time, for all callers together and for each one."""

    def __init__(self, most: int, each: int, what: str) -> None:
        self._most, self._each, self._what = most, each, what
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """How many are taken."""
        return self._held.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Take one while the block runs; raises TooMuchError where none is left."""
        if self.held >= self._most or self._held[caller] >= self._each:
            raise TooMuchError(
                f"{self._what} must be at most {self._each} for each caller and {self._most} in all, got "
                "more; close one first"
            )
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]
