"""What every back end must satisfy: orders may be repeated, looking changes nothing, letting go ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from slacktide import physics
from slacktide.backend.base import Backend, Order
from slacktide.checks.policy import CheckFailed
from slacktide.jobfile.reading import JobFile, parse_job
from slacktide.types import JobState, Quote

PATIENCE_S = 30.0
QUOTE = Quote(1.0, 3.0, 4)
JOB = """\
name: check
run: sleep 600
resources: {accelerators: "GPU:1..4"}
work: 40 gpu-hours
deadline: 24h
checkpoint: {grace: 1s}
"""


def check_backend(make: Callable[[], Backend]) -> None:
    """Run all checks on back ends made afresh; raises CheckFailed with what does not hold."""
    for check in (check_repeating, check_looking, check_letting_go, check_taking, check_sweeping):
        backend = make()
        try:
            check(backend)
        finally:
            _end(backend)


def check_repeating(backend: Backend) -> None:
    """The same order again changes nothing, and what is held costs by GPUs, price and hours."""
    order = _enter(backend)
    for _ in range(3):
        backend.hold(order)
        backend.tick()
    seen = backend.look(order, 0.25)
    spot_usd, on_demand_usd = 0.25 * 2 * QUOTE.spot_usd_per_gpu_hour, 0.25 * QUOTE.on_demand_usd_per_gpu_hour
    _must(abs(seen.spot_usd - spot_usd) < 1e-9, f"spot must cost {spot_usd}, got {seen.spot_usd}")
    told = f"on demand must cost {on_demand_usd}, got {seen.on_demand_usd}"
    _must(abs(seen.on_demand_usd - on_demand_usd) < 1e-9, told)
    _must((seen.state.spot_gpus, seen.state.on_demand_gpus) == (2, 1), "an order that goes on must be held")
    _must(seen.failure is None, f"a healthy job must not fail, got {seen.failure}")


def check_looking(backend: Backend) -> None:
    """Looking changes nothing: twice the same question, twice the same answer."""
    order = _enter(backend)
    backend.hold(order)
    backend.tick()
    first, second = backend.look(order, 0.2), backend.look(order, 0.2)
    _must(first._replace(silent_s=0.0) == second._replace(silent_s=0.0), "looking must change nothing")


def check_letting_go(backend: Backend) -> None:
    """An order to end leads to nothing being held, within the grace."""
    order = _enter(backend)
    backend.hold(order)
    backend.tick()
    _gone(backend, order._replace(ending=True))


def check_taking(backend: Backend) -> None:
    """After spot was taken a new order with what is left is held."""
    order = _enter(backend)
    backend.hold(order)
    backend.tick()
    backend.take(order.job, 1)
    less = order._replace(attempt=order.attempt + 1, spot_gpus=1)
    backend.hold(less)
    backend.tick()
    seen = backend.look(less, 0.3)
    _must(seen.state.spot_gpus == 1, f"what is left must be held, got {seen.state.spot_gpus} spot GPUs")


def check_sweeping(backend: Backend) -> None:
    """What no order explains is ended."""
    order = _enter(backend)
    backend.hold(order)
    backend.tick()
    backend.sweep([])
    _gone(backend, order._replace(ending=True))


def _must(holds: bool, words: str) -> None:
    if not holds:
        raise CheckFailed(words)


def _enter(backend: Backend) -> Order:
    file: JobFile = parse_job(JOB)
    backend.enter("check", physics.terms(file.job, 0.5), file)
    return Order("check", 1, 0, 0.0, QUOTE, JobState(), 2, 1)


def _gone(backend: Backend, order: Order) -> None:
    backend.hold(order)
    until = time.monotonic() + PATIENCE_S
    while not backend.look(order, 0.4).gone:
        _must(time.monotonic() < until, f"an order to end must be over within {PATIENCE_S:.0f} s")
        backend.tick()
        time.sleep(0.02)


def _end(backend: Backend) -> None:
    _gone(backend, Order("check", 9, 0, 0.0, QUOTE, JobState(), 0, 0, ending=True))
