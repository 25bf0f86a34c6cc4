"""Disks that are full, broken or slow."""

from __future__ import annotations

import signal

from campaigns.faults.machine import DISK_BROKEN, DISK_FULL
from campaigns.faults.play import ENDLESS, VICTIM, Play
from campaigns.finding import Finding
from campaigns.stage.commands import tail
from campaigns.waiting import wait_until


def a_disk_is_full_for_a_while(play: Play) -> None:
    """Nothing can be written into the journal or the run folders for some seconds, then it can."""
    play.begin()
    where = play.rng.choice([play.arena.journal, play.arena.folder / "journal.runs", play.arena.folder])
    play.machine.disk(where, error=DISK_FULL)
    play.pause(0.5, 4.0)
    play.machine.heal()
    play.end()


def a_disk_is_broken_for_a_while(play: Play) -> None:
    """Writes fail with an input/output error for some seconds."""
    play.begin()
    play.machine.disk(play.rng.choice([play.arena.journal, play.arena.folder]), error=DISK_BROKEN)
    play.pause(0.5, 4.0)
    play.machine.heal()
    play.end()


def a_disk_is_slow(play: Play) -> None:
    """Every write takes a while, until all is over."""
    play.begin()
    play.machine.disk(play.arena.folder, slow_ms=play.rng.choice([10, 40]))
    play.arena.wait_for_end()
    play.machine.heal()
    play.end()


def a_job_is_cancelled_on_a_slow_disk(play: Play) -> None:
    """A request is heard though every write takes a while."""
    play.begin(play.task(VICTIM, units=ENDLESS))
    play.machine.disk(play.arena.folder, slow_ms=play.rng.choice([10, 40]))
    play.cancel(VICTIM)
    play.machine.heal()
    play.end(victim="cancelled")


def a_disk_is_full_for_long(play: Play) -> None:
    """The controller loses patience, lets go and exits with 4; the next one goes on when there is room."""
    play.begin()
    play.machine.disk(play.arena.journal, error=DISK_FULL)
    controller = play.arena.in_charge()
    wait_until(lambda: controller.code is not None, "a controller without a disk to stop")
    play.see_workers_gone()
    play.machine.heal()
    if controller.code != 4:
        raise Finding(f"a controller without a disk exited with {controller.code}: {tail(controller.err)}")
    play.pause(0.0, 2.0)
    play.resume()
    play.end()


def a_stop_is_requested_on_a_full_disk(play: Play) -> None:
    """Workers are let go though the journal cannot be told; the next controller writes what it was not."""
    play.begin()
    play.machine.disk(play.arena.journal, error=DISK_FULL)
    play.pause(0.0, 1.0)
    controller = play.arena.in_charge()
    controller.signal(signal.SIGTERM)
    play.pause(0.0, 2.0)
    play.machine.heal()
    wait_until(lambda: controller.code is not None, "a controller that was asked to stop")
    play.see_workers_gone()
    play.resume()
    play.end()


PLAYS = (
    a_disk_is_full_for_a_while,
    a_disk_is_broken_for_a_while,
    a_disk_is_slow,
    a_job_is_cancelled_on_a_slow_disk,
    a_stop_is_requested_on_a_full_disk,
    a_disk_is_full_for_long,
)
