"""A bound on what a window's last slots can be worth that knows whole GPUs.

The Lagrangian bound mixes plans: five and a half GPUs cost it five and a half. This one leaves the
pauses out instead, so that slots are tied by nothing but the progress they make together; a small
knapsack over steps of progress then says the most they can be worth. With s(n) a multiple of s(1)
the step is what one GPU does in a slot and nothing is rounded; else progress is rounded up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compilable
from slacktide.solvers.window.frame import WindowFrame

STEPS = 128  # into how many steps a window's progress is divided where widths have no step in common

SAME_STEP = 1e-9


class StepWorths(NamedTuple):
    """What slots can be worth by the steps of progress they make."""

    step: float
    worth: Floats
    """[slot, steps]: the most that this slot and later ones can be worth if they make that many or more."""


@compilable
def count_steps(frame: WindowFrame) -> StepWorths:
    """Value all amounts of progress from the last slot back."""
    step = step_of(frame)
    most = 0
    for slot in range(frame.slots):
        most += steps_of(frame.most[frame.side - 1] * frame.hours[slot], step)
    worth = np.full(
        (frame.slots + 1, most + 2), -np.inf
    )  # the last entry stands for all that is out of reach
    worth[frame.slots, 0] = 0.0
    # A knapsack from the last slot: worth[t, k] = max over n of value(t, n) + worth[t + 1, k - steps(n)].
    for slot in range(frame.slots - 1, -1, -1):
        for width in range(frame.side):
            if frame.fit[width] == width:
                add_width(frame, worth, slot, width, step)
    return StepWorths(step, worth)


@compilable
def step_of(frame: WindowFrame) -> float:
    """Return the step in which progress is counted."""
    for width in range(1, frame.side):
        times = frame.rate[width] / frame.rate[1]
        if frame.fit[width] == width and abs(times - np.rint(times)) > SAME_STEP:
            return float(frame.hours.sum() * frame.most[frame.side - 1] / STEPS)
    return float(frame.rate[1] * frame.hours[0])


@compilable
def steps_of(gain: float, step: float) -> int:
    """Return an amount of progress in whole steps, rounded up."""
    return int(np.ceil(gain / step - SAME_STEP))


@compilable
def add_width(frame: WindowFrame, worth: Floats, slot: int, width: int, step: float) -> None:
    """Let a slot hold a width, of the cheaper kind as far as it goes, wherever that is worth more."""
    # Without pauses nothing speaks for the more expensive kind.
    spot_usd, on_demand_usd = frame.usd[slot, 0], frame.usd[slot, 1]
    spot = min(width, frame.offered[slot]) if spot_usd <= on_demand_usd else 0
    paid = (spot_usd * spot + on_demand_usd * (width - spot)) * frame.billed[slot]
    gain = frame.rate[width] * frame.hours[slot] if width > 0 else 0.0
    made, value = steps_of(gain, step), frame.reserve * gain - paid
    now, after = worth[slot], worth[slot + 1]
    for steps in range(len(now) - 1):
        now[steps] = max(now[steps], value + after[max(0, steps - made)])
