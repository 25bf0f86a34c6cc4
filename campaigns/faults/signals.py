"""Signals from outside: to the controller, to workers, to both; and processes that stand still."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from campaigns.faults.play import BYSTANDER, ENDLESS, VICTIM, Play
from campaigns.finding import Finding
from campaigns.stage import laws, processes
from campaigns.waiting import wait_until

TELLING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def the_controller_gets_a_stop_signal(play: Play) -> None:
    """It lets all workers checkpoint and go; the next one takes the jobs up."""
    play.begin()
    play.arena.let_go(play.rng.choice(TELLING))
    if left := play.arena.workers():
        raise Finding(f"a controller that was told to stop left {len(left)} processes behind")
    laws.listing(play.arena, attended=False)
    play.pause()
    play.resume()
    play.end()


def workers_get_a_stop_signal(play: Play) -> None:
    """Somebody else tells all workers of a job; they checkpoint and exit, which is no success."""
    play.begin()
    play.signal_workers(play.rng.choice(TELLING), VICTIM)
    play.end()


def one_worker_gets_a_stop_signal(play: Play) -> None:
    """Somebody else tells one worker."""
    play.begin()
    play.arena.wait_for_workers(VICTIM)
    processes.send(play.rng.choice(play.arena.workers(VICTIM)), play.rng.choice(TELLING))
    play.end()


def all_get_a_stop_signal(play: Play) -> None:
    """A reboot or a logout: controller and workers are told at the same time, in any order."""
    play.begin()
    number = play.rng.choice(TELLING)
    controller = play.arena.in_charge()
    for one in play.rng.sample(["controller", VICTIM, BYSTANDER], 3):
        if one == "controller":
            controller.signal(number)
        else:
            play.tell_workers(number, one)
    controller.wait("a controller that was told to stop")
    play.see_workers_gone()
    play.pause()
    play.resume()
    play.end()


def the_controller_stands_still(play: Play) -> None:
    """The controller is stopped for some slots and goes on; the workers never noticed."""
    play.begin()
    play.arena.in_charge().signal(signal.SIGSTOP)
    play.pause(0.5, 4.0)
    play.arena.in_charge().signal(signal.SIGCONT)
    play.end()


def workers_stand_still(play: Play) -> None:
    """Workers are stopped for some slots and go on."""
    play.begin()
    play.signal_workers(signal.SIGSTOP, VICTIM)
    play.pause(0.5, 2.0)
    for one in play.arena.workers(VICTIM):
        processes.send(one, signal.SIGCONT)
    play.end()


def a_job_that_stands_still_is_cancelled(play: Play) -> None:
    """Workers that cannot hear are killed when their grace is over."""
    play.begin(play.task(VICTIM, units=ENDLESS))
    play.signal_workers(signal.SIGSTOP, VICTIM)
    stopped = [one for one in play.arena.workers(VICTIM) if not one.supervisor]
    play.ask("cancel", VICTIM)
    wait_until(lambda: _all_gone(play, stopped), "the end of workers that stand still")
    play.arena.wait_for_end(VICTIM)
    play.end(victim="cancelled")


def _all_gone(play: Play, stopped: Sequence[processes.Process]) -> bool:
    """Whether workers have gone that cannot write down themselves that they live, so it is done for them."""
    living = [one for one in stopped if processes.lives(one)]
    for one in living:
        play.arena.record(one.job).note(one.attempt, one.rank, one.pid)
    return not living


PLAYS = (
    the_controller_gets_a_stop_signal,
    workers_get_a_stop_signal,
    one_worker_gets_a_stop_signal,
    all_get_a_stop_signal,
    the_controller_stands_still,
    workers_stand_still,
    a_job_that_stands_still_is_cancelled,
)
