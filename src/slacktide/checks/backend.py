"""The contract of a back end, as checks that anyone can run on their own.

Repeating an order or looking changes nothing, and an order to end ends everything. A back end that starts
workers must show that they run, and report their output and how they end. The checks use only what workers
print, report and exit with, so they work for any kind of machine. A worker that kills its whole process group
stands for a lost machine: no process is left to report how it ended. A dry run, which reports `finished` as
None, is exempt from the checks of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from slacktide.backends.base import BackendStatus, Preemptable
from slacktide.checks.base import must
from slacktide.checks.trial import FOREVER, JOB, ORDER, SECRET, BackendTrial, Make, backend_trial
from slacktide.core.types import Order

BackendCheck: TypeAlias = Callable[[BackendTrial], None]

RANKS = range(ORDER.gpus)
STAYS = f"trap 'echo stopping; exit 0' TERM; echo ready; while :; do {FOREVER} & wait; done"
"""A command that runs until it gets SIGTERM, and then prints `stopping`."""
DONE = '{"done": 1}'
PARTLY = '{"done": 0.25, "checkpointed": 0.125, "metrics": {"loss": 1.5}}'
SPOT = ORDER._replace(spot_gpus=2, on_demand_gpus=0)
ON_DEMAND = ORDER._replace(attempt=2, spot_gpus=0, on_demand_gpus=2)


def check_backend(make: Make) -> None:
    """Run every check on a new back end; raises CheckFailed at the first broken promise."""
    for check in ORDER_CHECKS if is_dry(make) else (*ORDER_CHECKS, *WORKER_CHECKS):
        with backend_trial(make) as trial:
            check(trial)


def is_dry(make: Make) -> bool:
    """Whether a back end starts no workers: it then reports `finished` as None, also after the end."""
    with backend_trial(make) as trial:
        trial.enter()
        dry = trial.held(ORDER).finished is None
        ended = trial.let_go(ORDER)
    must(
        not dry or ended.finished is None,
        "a back end that cannot know that a job finished must never say so",
    )
    return dry


def check_repeating(trial: BackendTrial) -> None:
    """What is ordered comes to be held, and repeating the order changes nothing."""
    trial.enter()
    facts = trial.held(ORDER, times=3)
    must(facts.attempt == 1, f"the attempt that was ordered must be held, got {facts.attempt}")
    must(facts.pool == "here", f"the pool that was ordered must be reported, got {facts.pool!r}")
    must(facts.failure is None, f"a healthy job must not fail, got {facts.failure}")
    must(not facts.finished, "a job that runs must not be finished")
    must(not facts.stopped, "a job that runs must not be stopped")
    must(not facts.trouble, f"a healthy job must have no trouble, got {facts.trouble!r}")
    must(not facts.gone, "what is held must not be gone")


def check_looking(trial: BackendTrial) -> None:
    """Looking has no effect: two looks give the same answer."""
    trial.enter()
    trial.held(ORDER)
    first, second = trial.look(), trial.look()
    must(first._replace(silent_s=0.0) == second._replace(silent_s=0.0), "looking must change nothing")
    both = trial.backend.look([JOB, JOB])
    must(set(both) == {JOB}, f"a look must answer for the jobs requested, got {sorted(both)}")


def check_letting_go(trial: BackendTrial) -> None:
    """After an order to end nothing is held."""
    trial.enter()
    trial.held(ORDER)
    facts = trial.let_go(ORDER)
    held = facts.spot_gpus, facts.on_demand_gpus, facts.pending_gpus
    must(held == (0, 0, 0), f"what is gone must not be held, got {held}")


def check_taking(trial: BackendTrial) -> None:
    """After a spot GPU was taken, a new order for those that are left is held."""
    if isinstance(trial.backend, Preemptable):
        trial.enter()
        trial.held(ORDER)
        trial.backend.take(JOB, 1, 0.0)
        trial.held(ORDER._replace(attempt=2, spot_gpus=1))


def check_sweeping(trial: BackendTrial) -> None:
    """A sweep keeps workers that belong to one of its orders, and ends all others."""
    trial.enter()
    trial.held(ORDER)
    trial.backend.sweep([ORDER])
    trial.held(ORDER)
    trial.backend.sweep([])
    trial.let_go(ORDER)


def check_until(trial: BackendTrial) -> None:
    """Nothing is held beyond the `until_hours` of its order, which a new order may extend."""
    trial.enter()
    trial.held(ORDER._replace(until_hours=1.0))
    trial.held(ORDER._replace(until_hours=2.0))
    trial.hours = 1.5
    must(not trial.look().gone, "an order whose end was put off must be held on")
    trial.hours = 2.0
    trial.until(lambda facts: facts.gone, "an order must not be held beyond its until_hours")


def check_fence(trial: BackendTrial) -> None:
    """An order with an older attempt than the current one changes nothing."""
    trial.enter()
    trial.held(ORDER._replace(attempt=2, spot_gpus=1))
    trial.backend.hold(ORDER)
    facts = trial.look()
    must(
        (facts.attempt, facts.spot_gpus + facts.pending_gpus) == (2, 1),
        f"an older attempt must change nothing, got attempt {facts.attempt}",
    )


def check_running(trial: BackendTrial) -> None:
    """Every worker runs with its rank, variables and secrets, and what it prints can be read."""
    (secret, value), colour = next(iter(SECRET.items())), "deep red"
    says = f'echo "$RANK of $WORLD_SIZE, $CHECK_COLOUR"; [ "${secret}" = {value} ] && echo knows'
    trial.enter(f"{says}; echo end >&2", env={"CHECK_COLOUR": colour})
    trial.backend.hold(ORDER)
    trial.until(lambda facts: facts.gone, "workers whose command ends must be reported as gone")
    for rank in RANKS:
        printed = trial.printed(rank)
        must(f"{rank} of 3, {colour}" in printed, f"a worker must know its rank and variables, got {printed}")
        must("knows" in printed, "a worker must have its secrets")
        must("end" in printed, "what a worker prints on its standard error must be in its log too")
        lines = list(trial.log(rank).read(0))
        rest = list(trial.log(rank).read(len(lines[0])))
        must(rest == lines[1:], "a log must be readable from the beginning of any line")


def check_exit_code(trial: BackendTrial) -> None:
    """A worker that exits with an error is reported as a failure, with rank and code, while others run."""
    trial.enter(f'[ "$RANK" = 1 ] && exit 3; {FOREVER}')
    trial.backend.hold(ORDER)
    facts = trial.until(
        lambda facts: facts.failure or facts.gone, "a worker that ends badly must be reported"
    )
    failure = facts.failure
    must(failure is not None and failure[:2] == (1, 3), f"rank 1 must have failed with 3, got {failure}")
    must(not facts.finished, "what has failed must not be finished")
    must(not facts.stopped and not _lost(facts), "a failure must be neither a stop nor a loss")


def check_success(trial: BackendTrial) -> None:
    """If all workers exit with 0 and report all work done, the job is finished, and is not run again."""
    trial.enter(f"echo begun; {_report(DONE)}")
    trial.backend.hold(ORDER)
    facts = trial.until(lambda facts: facts.gone, "workers whose command ends must be reported as gone")
    for _ in range(3):
        must(facts.finished, "a job that ended with 0 and reported 1 done must be finished, at every look")
        must(not (facts.failure or facts.stopped or _lost(facts)), "a success must be nothing else")
        until_hours = facts.until_hours
        must(-1.0 < until_hours <= trial.hours, f"the time of its end must be reported, got {until_hours}")
        trial.backend.hold(ORDER)
        facts = trial.look()
    for rank in RANKS:
        must(trial.printed(rank).count("begun") == 1, "the same order again must not run a job again")


def check_next_attempt(trial: BackendTrial) -> None:
    """The success of one attempt is not reported for the next one."""
    trial.enter(f'echo begun; [ "$SLACKTIDE_ATTEMPT" = 1 ] && exit 0; {FOREVER}')
    trial.backend.hold(ORDER)
    trial.until(lambda facts: facts.gone and facts.finished, "a job that ended with 0 must be finished")
    facts = trial.held(ORDER._replace(attempt=2))
    must(not facts.finished, "the success of an attempt must not be reported for the next one")
    must(facts.until_hours == math.inf, "what lives must not have ended")
    must(facts.newest_attempt == 2, f"the highest attempt begun must be reported, got {facts.newest_attempt}")


def check_progress(trial: BackendTrial) -> None:
    """Progress that a job reports is passed on; if it is below 1 at the end, an exit with 0 is a failure."""
    trial.enter(_report(PARTLY))
    trial.backend.hold(ORDER)
    facts = trial.until(
        lambda facts: facts.gone and (facts.failure or facts.finished), "an end must be reported"
    )
    progress = facts.progress
    must(progress is not None, "what a job reports must be passed on")
    assert progress is not None
    shares = progress.done_share, progress.checkpointed_share
    must(shares == (0.25, 0.125), f"the shares that a job reports must be passed on, got {shares}")
    must(dict(facts.metrics) == {"loss": 1.5}, f"the metrics must be passed on, got {dict(facts.metrics)}")
    must(
        not facts.finished, "a job that last reported 0.25 done must not be finished, though it ended with 0"
    )
    must(facts.failure is not None, "a job that ended with 0 before its work was done must have failed")


def check_stopping(trial: BackendTrial) -> None:
    """An order to end sends SIGTERM to the command; its exit, even with 0, is then reported as a stop."""
    _work(trial)
    _must_be_stopped(trial.let_go(ORDER))
    for rank in RANKS:
        must("stopping" in trial.printed(rank), "SIGTERM must reach the command before it is killed")


def check_stopped_from_outside(trial: BackendTrial) -> None:
    """A worker that someone else stopped with SIGTERM is reported as stopped, not as finished or failed."""
    trial.enter(f'[ "$RANK" = 0 ] || {FOREVER}; trap "exit 0" TERM; kill -TERM 0; {FOREVER}')
    trial.backend.hold(ORDER)
    words = "a worker that was requested to stop, by anyone, must be reported as stopped"
    facts = trial.until(lambda facts: facts.stopped or facts.finished or facts.failure, words)
    _must_be_stopped(facts)
    _must_be_stopped(trial.let_go(ORDER))


def check_losing(trial: BackendTrial) -> None:
    """A worker killed with its whole process group is a lost spot or on-demand GPU, not a failure."""
    trial.enter(f'echo ready; [ "$RANK" = 1 ] && kill -9 0; {FOREVER}')
    _must_lose(trial, SPOT, (1, 0))
    _must_lose(trial, ON_DEMAND, (0, 1))


def check_adopting(trial: BackendTrial) -> None:
    """A new controller finds running workers, continues with them without a restart, and can end them."""
    _work(trial)
    _continue(trial, [ORDER])
    facts = trial.held(ORDER, times=2)
    must(not facts.stopped and not facts.finished, "adopted workers must continue")
    must(facts.newest_attempt == 1, f"the highest attempt begun must be reported, got {facts.newest_attempt}")
    _must_be_stopped(trial.let_go(ORDER))
    for rank in RANKS:
        printed = trial.printed(rank)
        must(printed.count("ready") == 1, "adopted workers must not be started again")
        must("stopping" in printed, "adopted workers must be ended as others are")


def check_ended_unseen(trial: BackendTrial) -> None:
    """A new controller learns how workers ended while no controller was running."""
    trial.enter("echo ready; [ $RANK = 1 ] && exit 3; exit 0")
    trial.backend.hold(ORDER)
    trial.until_printed("ready", RANKS)
    _continue(trial, [ORDER], FOREVER)
    trial.backend.hold(ORDER)
    facts = trial.until(lambda facts: facts.gone, "workers that ended must be reported as gone")
    failure = facts.failure
    must(failure is not None and failure[:2] == (1, 3), f"rank 1 must have failed with 3, got {failure}")


def check_stopped_attempt(trial: BackendTrial) -> None:
    """A new controller does not continue an attempt that was requested to stop, whatever its orders are."""
    _work(trial)
    trial.let_go(ORDER)
    _continue(trial, [ORDER])
    trial.backend.hold(ORDER)
    facts = trial.until(lambda facts: facts.gone, "an attempt that was requested to stop must stay ended")
    _must_be_stopped(facts)
    must(facts.pending_gpus == 0, "an attempt that was requested to stop must not be awaited")
    trial.held(ORDER._replace(attempt=2))
    must(trial.printed(0).count("ready") == 1, "an attempt that was stopped must not be started again")


def check_used_number(trial: BackendTrial) -> None:
    """The number of an attempt is not used twice, even if the journal was restored from an old copy."""
    trial.enter(STAYS)
    trial.held(ORDER)
    trial.held(ORDER._replace(attempt=2))
    _continue(trial, [])
    trial.backend.hold(ORDER._replace(attempt=2))
    facts = trial.until(lambda facts: facts.gone, "what no order explains must be ended")
    _must_be_stopped(facts)
    must(facts.newest_attempt == 2, f"the highest attempt begun must be reported, got {facts.newest_attempt}")
    trial.held(ORDER._replace(attempt=3))


def check_unentered(trial: BackendTrial) -> None:
    """Workers of a job that was not entered are adopted and can be ended; only a start needs `enter`."""
    _work(trial)
    trial.renew()
    trial.backend.sweep([ORDER])
    facts = trial.held(ORDER)
    must(not facts.stopped, "workers of a job that could not be entered must continue")
    must(trial.backend.stop_hours(JOB) >= 0.0, "it must be known how long a stop takes, also of such a job")
    trial.let_go(ORDER)
    trial.backend.hold(ORDER._replace(attempt=2))
    trial.until(lambda facts: facts.trouble, "a job that cannot be started must say why in its trouble")


def _work(trial: BackendTrial) -> None:
    """Start workers that run until they are stopped, and wait until all of them handle SIGTERM."""
    trial.enter(STAYS)
    trial.held(ORDER)
    # A worker that is held may not have set its trap yet: SIGTERM would end it without any output.
    trial.until_printed("ready", RANKS)


def _continue(trial: BackendTrial, orders: list[Order], run: str = STAYS) -> None:
    """Continue as a new controller whose journal has these orders."""
    trial.renew()
    trial.enter(run)
    trial.backend.sweep(orders)


def _report(line: str) -> str:
    """Return a command with which rank 0 appends a line to the job's progress file."""
    return f"""[ "$RANK" != 0 ] || printf '%s\\n' '{line}' >> "$SLACKTIDE_PROGRESS"
"""


def _must_lose(trial: BackendTrial, order: Order, wanted: tuple[int, int]) -> None:
    """Lose one worker of an order: this many spot and on-demand GPUs must be reported as lost."""
    trial.backend.hold(order)
    facts = trial.until(
        lambda facts: facts.attempt == order.attempt and (_lost(facts) or facts.failure),
        "a worker that vanishes must be reported as a loss",
    )
    must(facts.failure is None, f"a loss must not be a failure, got {facts.failure}")
    lost = facts.taken_spot_gpus, facts.lost_on_demand_gpus
    must(lost == wanted, f"{wanted} spot and on-demand GPUs must be lost, got {lost}")
    must(facts.stopped and not facts.finished, "a set that lost workers must be stopped")


def _lost(facts: BackendStatus) -> int:
    return facts.taken_spot_gpus + facts.lost_on_demand_gpus


def _must_be_stopped(facts: BackendStatus) -> None:
    must(facts.stopped, "an attempt that was requested to stop must be reported as stopped")
    must(not facts.finished, "a stop must not be a success, though workers exit with 0")
    must(facts.failure is None, f"a stop must not be a failure, got {facts.failure}")
    must(not _lost(facts), "a stop must not be a loss")


ORDER_CHECKS: tuple[BackendCheck, ...] = (
    check_repeating, check_looking, check_letting_go, check_taking, check_sweeping, check_until, check_fence,
)  # fmt: skip
WORKER_CHECKS: tuple[BackendCheck, ...] = (
    check_running, check_exit_code, check_success, check_next_attempt, check_progress, check_stopping,
    check_stopped_from_outside, check_losing, check_adopting, check_ended_unseen, check_stopped_attempt,
    check_used_number, check_unentered,
)  # fmt: skip
BACKEND_CHECKS: tuple[BackendCheck, ...] = (*ORDER_CHECKS, *WORKER_CHECKS)
