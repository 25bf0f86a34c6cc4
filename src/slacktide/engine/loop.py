"""The live loop round the engine: read the clock, step, show, wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine

POLL_S = 0.05


def live(
    engine: Engine,
    clock: Clock,
    *,
    show: Callable[[float], None] = lambda now_hours: None,
    stopping: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> None:
    """Run until every job has ended, or, once `stopping` says so, until everything is let go."""
    while True:
        if stopping():
            engine.release()
        now = clock.hours()
        engine.step(now)
        show(now)
        if engine.idle:
            return
        sleep(poll_s)
