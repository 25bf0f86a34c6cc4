"""Wall clocks that are set while jobs run, or while no controller runs."""

from __future__ import annotations

import signal

from campaigns.faults.play import VICTIM, Play, with_more

MINUTES = (-90, -20, -1, 1, 20, 90)
AMPLE_USD = 400.0
"""Far above what the jobs cost in the time that they really take, and far below what a jump would cost."""


def the_clock_is_set(play: Play) -> None:
    """The wall clock jumps while jobs run, once or back again; only the time that passed counts."""
    play.begin(with_more(play.task(VICTIM), f"max_cost: {AMPLE_USD:g} usd\n"))
    play.machine.set_clock(60.0 * play.rng.choice(MINUTES))
    play.pause()
    if play.rng.random() < 0.5:
        play.machine.set_clock(0.0)
    play.end()


def the_clock_is_set_while_no_controller_runs(play: Play) -> None:
    """The wall clock jumps after the controller was killed or let go, and before the next one comes."""
    play.begin(with_more(play.task(VICTIM), f"max_cost: {AMPLE_USD:g} usd\n"))
    if play.rng.random() < 0.5:
        play.kill_controller()
    else:
        play.arena.let_go(signal.SIGTERM)
    play.machine.set_clock(60.0 * play.rng.choice(MINUTES))
    play.pause()
    play.resume()
    play.end()


PLAYS = (the_clock_is_set, the_clock_is_set_while_no_controller_runs)
