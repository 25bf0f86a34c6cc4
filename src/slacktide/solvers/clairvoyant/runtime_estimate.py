"""How long the clairvoyant's grid would take, before anything is computed."""

from __future__ import annotations

from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.solvers.clairvoyant.buffers import BEAM
from slacktide.solvers.clairvoyant.frame import JobFrame, frame

MOST_HOLDINGS = 1_500
"""With more holdings than this, 54 GPUs, a grid is not even tried to be laid out."""

POINT_NS, LABEL_NS, PAIR_NS = 1.4, 40.0, 1.0
"""About what a grid point, a label and a pair of holdings cost, in nanoseconds of CPU."""


def fits(job: Job, slot_hours: float, accuracy: float, effort_s: float) -> bool:
    """Whether one start can be solved on the grid within about that many seconds of CPU."""
    if 1 + sum(width + 1 for width in job.widths) > MOST_HOLDINGS:
        return False
    try:
        return grid_s(frame(job, slot_hours, accuracy)) <= effort_s
    except InputError:
        return not 0.0 < accuracy <= 1.0  # a mistake of the caller's, which the grid itself reports


def grid_s(numbers: JobFrame) -> float:
    """Return about how long one start takes on the grid, in seconds of CPU."""
    holdings, pauses = len(numbers.spot), numbers.pauses
    lefts = len(pauses.left_hours)
    shrinks = bool((pauses.shrink[pauses.stay] != pauses.restart).any())
    labels = 1 if numbers.exact else BEAM * (2 if numbers.terms.whole_slots else 1)
    points = (numbers.last + 1) * lefts * (2 if shrinks else 1)
    pairs = holdings * lefts if shrinks and numbers.hard else 0
    state_ns = POINT_NS * points + LABEL_NS * labels + PAIR_NS * pairs
    return 1e-9 * numbers.terms.deadline_slots * holdings * state_ns
