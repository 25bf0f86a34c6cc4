"""The machine's own clock: seconds since it was booted, sleep included, and which boot that was.

It cannot be set, so it says how much time has passed between two moments of one boot, whatever happened to
the wall clock in between. Times of another boot can only be compared by the wall clock.
"""

from __future__ import annotations

import time
from functools import cache

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock that counts sleep under its own name; elsewhere the monotonic one may count it."""


def seconds() -> float:
    """Return the seconds since the machine was booted."""
    return time.clock_gettime(_CLOCK)


@cache
def boot_id() -> str:
    """Return the name of this boot; empty where the system does not provide it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
