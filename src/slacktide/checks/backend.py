"""What every back end must satisfy: orders may be repeated, looking changes nothing, letting go ends."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from slacktide.backend.base import Backend, Facts, LaunchSpec, Order, Place, Preemptable
from slacktide.checks.policy import CheckFailed

PATIENCE_S = 30.0
JOB = "check"
ORDER = Order(JOB, 1, "here", 2, 1)


class Clock:
    """A market clock that the checks turn by hand."""

    def __init__(self) -> None:
        self.hours = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.hours


def check_backend(make: Callable[[Place], Backend]) -> None:
    """Run all checks on back ends made afresh; raises CheckFailed with what does not hold."""
    checks = (
        check_repeating, check_looking, check_letting_go, check_taking, check_sweeping, check_until,
        check_fence,
    )  # fmt: skip
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            clock, owner = Clock(), f"check-{uuid.uuid4().hex[:8]}"
            backend = make(Place(folder=Path(folder) / "runs", owner=owner, now_hours=clock))
            backend.enter(LaunchSpec(job=JOB, run="sleep 600", workdir=folder, grace_s=1.0))
            try:
                check(backend, clock)
            finally:
                _end(backend)
                backend.close()


def check_repeating(backend: Backend, clock: Clock) -> None:
    """The same order again changes nothing, and what is ordered comes to be held."""
    facts = _held(backend, ORDER, times=3)
    _must(facts.attempt == 1, f"the attempt that was ordered must be held, got {facts.attempt}")
    _must(facts.pool == "here", f"the pool that was ordered must be told, got {facts.pool!r}")
    _must(facts.failure is None, f"a healthy job must not fail, got {facts.failure}")
    _must(not facts.finished, "a job that runs must not be finished")
    _must(not facts.gone, "what is held must not be gone")


def check_looking(backend: Backend, clock: Clock) -> None:
    """Looking decides nothing: asked twice about what does not change, it answers the same twice."""
    _held(backend, ORDER)
    first, second = _look(backend), _look(backend)
    _must(first._replace(silent_s=0.0) == second._replace(silent_s=0.0), "looking must change nothing")
    both = backend.look([JOB, JOB])
    _must(set(both) == {JOB}, f"a look must answer for the jobs asked about, got {sorted(both)}")


def check_letting_go(backend: Backend, clock: Clock) -> None:
    """An order to end leads to nothing being held, within the grace."""
    _held(backend, ORDER)
    _gone(backend, ORDER._replace(ending=True))


def check_taking(backend: Backend, clock: Clock) -> None:
    """After spot was taken a new order with what is left is held."""
    if isinstance(backend, Preemptable):
        _held(backend, ORDER)
        backend.take(JOB, 1, 0.0)
        _held(backend, ORDER._replace(attempt=2, spot_gpus=1))


def check_sweeping(backend: Backend, clock: Clock) -> None:
    """What an order explains stays, and what none does is ended."""
    _held(backend, ORDER)
    backend.sweep([ORDER])
    _held(backend, ORDER)
    backend.sweep([])
    _gone(backend, ORDER._replace(ending=True))


def check_until(backend: Backend, clock: Clock) -> None:
    """Nothing is held beyond the end of its order, though nobody says so; a later end extends it."""
    _held(backend, ORDER._replace(until_hours=1.0))
    _held(backend, ORDER._replace(until_hours=2.0))
    clock.hours = 1.5
    _must(not _look(backend).gone, "an order whose end was put off must be held on")
    clock.hours = 2.0
    _wait(lambda: _look(backend).gone, "an order must not be held beyond its until_hours")


def check_fence(backend: Backend, clock: Clock) -> None:
    """An order with an older attempt comes too late and changes nothing."""
    newer = ORDER._replace(attempt=2, spot_gpus=1)
    _held(backend, newer)
    backend.hold(ORDER)
    facts = _look(backend)
    _must(
        (facts.attempt, facts.spot_gpus + facts.pending_gpus) == (2, 1),
        f"an older attempt must change nothing, got attempt {facts.attempt}",
    )


def _must(holds: bool, words: str) -> None:
    if not holds:
        raise CheckFailed(words)


def _look(backend: Backend) -> Facts:
    return backend.look([JOB])[JOB]


def _held(backend: Backend, order: Order, times: int = 1) -> Facts:
    """Order, and wait until it is so."""
    for _ in range(times):
        backend.hold(order)
    wanted = order.spot_gpus, order.on_demand_gpus, 0
    _wait(
        lambda: (seen := _look(backend)).attempt == order.attempt and seen[2:5] == wanted,
        f"{order.spot_gpus} + {order.on_demand_gpus} GPUs must be held",
    )
    return _look(backend)


def _gone(backend: Backend, order: Order) -> None:
    backend.hold(order)
    _wait(lambda: _look(backend).gone, "an order to end must lead to nothing being held")


def _wait(condition: Callable[[], bool], words: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        _must(time.monotonic() < until, f"{words} within {PATIENCE_S:.0f} s")
        time.sleep(0.02)


def _end(backend: Backend) -> None:
    _gone(backend, ORDER._replace(attempt=9, ending=True))
