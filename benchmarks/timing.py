"""How the benchmarks take time: the best of a few tries, because machines are noisy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def best(work: Callable[[], Result], *, tries: int = 3) -> tuple[float, Result]:
    """Return the shortest time in seconds of a few tries, and the last result."""
    shortest = float("inf")
    for _ in range(tries):
        began = time.perf_counter()
        result = work()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest, result
