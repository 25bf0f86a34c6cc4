"""What every back end must satisfy: orders may be repeated, looking changes nothing, letting go ends.

One that starts workers must prove it: `backend_workers` lets them print, report, fail, vanish and end.
Only a dry run is exempt: it reports of what it holds that it is not known whether it has finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from slacktide.backends.base import Preemptable
from slacktide.checks.backend_workers import WORKER_CHECKS
from slacktide.checks.base import must
from slacktide.checks.trial import JOB, ORDER, BackendTrial, Make, trial

BackendCheck: TypeAlias = Callable[[BackendTrial], None]


def check_backend(make: Make) -> None:
    """Run all checks on back ends made afresh; raises CheckFailed with what does not hold."""
    for check in ORDER_CHECKS if is_dry(make) else (*ORDER_CHECKS, *WORKER_CHECKS):
        with trial(make) as one:
            check(one)


def is_dry(make: Make) -> bool:
    """Say whether a back end starts nothing, by its own word: it never says whether a job has finished."""
    with trial(make) as one:
        one.enter()
        dry = one.held(ORDER).finished is None
        ended = one.let_go(ORDER)
    must(
        not dry or ended.finished is None,
        "a back end that cannot know that a job finished must never say so",
    )
    return dry


def check_repeating(one: BackendTrial) -> None:
    """The same order again changes nothing, and what is ordered comes to be held."""
    one.enter()
    facts = one.held(ORDER, times=3)
    must(facts.attempt == 1, f"the attempt that was ordered must be held, got {facts.attempt}")
    must(facts.pool == "here", f"the pool that was ordered must be reported, got {facts.pool!r}")
    must(facts.failure is None, f"a healthy job must not fail, got {facts.failure}")
    must(not facts.finished, "a job that runs must not be finished")
    must(not facts.stopped, "a job that runs must not be stopped")
    must(not facts.trouble, f"a healthy job must have no trouble, got {facts.trouble!r}")
    must(not facts.gone, "what is held must not be gone")


def check_looking(one: BackendTrial) -> None:
    """Looking decides nothing: two looks at what does not change give the same answer."""
    one.enter()
    one.held(ORDER)
    first, second = one.look(), one.look()
    must(first._replace(silent_s=0.0) == second._replace(silent_s=0.0), "looking must change nothing")
    both = one.backend.look([JOB, JOB])
    must(set(both) == {JOB}, f"a look must answer for the jobs requested, got {sorted(both)}")


def check_letting_go(one: BackendTrial) -> None:
    """An order to end leads to nothing being held, within the grace."""
    one.enter()
    one.held(ORDER)
    facts = one.let_go(ORDER)
    held = facts.spot_gpus, facts.on_demand_gpus, facts.pending_gpus
    must(held == (0, 0, 0), f"what is gone must not be held, got {held}")


def check_taking(one: BackendTrial) -> None:
    """After spot was taken a new order with what is left is held."""
    if isinstance(one.backend, Preemptable):
        one.enter()
        one.held(ORDER)
        one.backend.take(JOB, 1, 0.0)
        one.held(ORDER._replace(attempt=2, spot_gpus=1))


def check_sweeping(one: BackendTrial) -> None:
    """What an order explains stays, and what none does is ended."""
    one.enter()
    one.held(ORDER)
    one.backend.sweep([ORDER])
    one.held(ORDER)
    one.backend.sweep([])
    one.let_go(ORDER)


def check_until(one: BackendTrial) -> None:
    """Nothing is held beyond the end of its order, without another order; a later end extends it."""
    one.enter()
    one.held(ORDER._replace(until_hours=1.0))
    one.held(ORDER._replace(until_hours=2.0))
    one.clock.hours = 1.5
    must(not one.look().gone, "an order whose end was put off must be held on")
    one.clock.hours = 2.0
    one.until(lambda facts: facts.gone, "an order must not be held beyond its until_hours")


def check_fence(one: BackendTrial) -> None:
    """An order with an older attempt comes too late and changes nothing."""
    one.enter()
    one.held(ORDER._replace(attempt=2, spot_gpus=1))
    one.backend.hold(ORDER)
    facts = one.look()
    must(
        (facts.attempt, facts.spot_gpus + facts.pending_gpus) == (2, 1),
        f"an older attempt must change nothing, got attempt {facts.attempt}",
    )


ORDER_CHECKS: tuple[BackendCheck, ...] = (
    check_repeating, check_looking, check_letting_go, check_taking, check_sweeping, check_until, check_fence,
)  # fmt: skip
BACKEND_CHECKS: tuple[BackendCheck, ...] = (*ORDER_CHECKS, *WORKER_CHECKS)
