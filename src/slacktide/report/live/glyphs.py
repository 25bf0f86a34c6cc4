"""The signs that the live view draws with, also for terminals that know only ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Glyphs(NamedTuple):
    """A set of signs."""

    levels: str  # from nothing to full, for small bars side by side
    spot: str
    on_demand: str
    free: str
    done: str
    left: str
    line: str  # where the straight line to the deadline stands
    dot: str
    minus: str


FANCY = Glyphs(" ▁▂▃▄▅▆▇█", "■", "▣", "·", "━", "─", "┃", " · ", "−")
ASCII = Glyphs(" .:-=+*#@", "#", "O", ".", "=", "-", "|", " - ", "-")


def sparkline(values: Sequence[float], most: float, glyphs: Glyphs) -> str:
    """Draw values as small bars from nothing to the most; what is not nothing is always seen."""
    top = len(glyphs.levels) - 1
    if most <= 0:
        return glyphs.levels[0] * len(values)
    steps = [round(top * min(max(value, 0.0), most) / most) for value in values]
    return "".join(
        glyphs.levels[max(step, 1) if value > 0 else 0] for step, value in zip(steps, values, strict=True)
    )


def blocks(spot_gpus: int, on_demand_gpus: int, widest: int, room: int) -> tuple[int, int, int]:
    """Return how many blocks stand for spot, for on demand and for what is free, within a room.

    One each where they fit; otherwise in proportion, but whatever is held is seen.
    """
    if widest <= room:
        return spot_gpus, on_demand_gpus, max(0, widest - spot_gpus - on_demand_gpus)
    spot = max(round(room * spot_gpus / widest), 1 if spot_gpus else 0)
    on_demand = max(round(room * on_demand_gpus / widest), 1 if on_demand_gpus else 0)
    return spot, on_demand, max(0, room - spot - on_demand)


def bar(share: float, line_share: float, room: int) -> tuple[int, int, int | None]:
    """Return the cells done and left of a bar, and the cell where the line's mark stands."""
    done = min(room, int(room * min(max(share, 0.0), 1.0) + 1e-9))
    if room < 3:
        return done, room - done, None
    return done, room - done, min(room - 1, int(room * min(max(line_share, 0.0), 1.0)))
