"""The memory of the clairvoyant: allocated once, used for every start."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Ints
from slacktide.solvers.clairvoyant.frame import Edge, Grid, JobFrame

BEAM = 64
"""How many ways to have come to a slot are followed at once where the grid is not exact; paying whole slots
makes more of them look alike, so that twice as many are."""


class SlotValues(NamedTuple):
    """The values of states, slot by slot, for as many slots as are kept at once."""

    inside: Grid  # values by slot of a segment, pause left over, row and grid point; see `step_back`
    rows: Ints
    kept: Grid  # the values at each segment's first slot, and at the deadline
    kept_rows: Ints
    subset: Grid
    low: Ints  # the lowest grid point that can have been reached by each slot


class PathLabels(NamedTuple):
    """The ways to have come to each slot that are worth following, and the best way to an end."""

    counts: Ints  # how many there are, by slot; the other arrays are by slot and label
    holding: Ints
    left: Ints  # index of the pause left over
    work: Grid  # work left, in GPU-hours
    paid: Grid
    score: Grid  # the value still to be had by the grid, less what was paid
    parent: Ints  # the label of the slot before
    end: Ints  # the best end so far: its slot, its target, and its parent among the labels of that slot
    end_score: Grid


def empty_edge(frame: JobFrame) -> Edge:
    """Allocate the edge of what a hard deadline allows."""
    shape = (frame.terms.deadline_slots + 1, len(frame.pauses.left_hours), len(frame.spot))
    return Edge(np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))


def empty_values(frame: JobFrame) -> SlotValues:
    """Allocate the values of one segment, and of the first slot of each."""
    state = (len(frame.pauses.left_hours), len(frame.spot))
    slots, points = frame.terms.deadline_slots, frame.last + 2
    segments = math.ceil(slots / frame.segment)
    fewer = frame.pauses.shrink[frame.pauses.stay]
    widths = len(frame.terms.rate) if (fewer != frame.pauses.restart).any() else 0
    low = np.full(slots + 1, frame.last)
    low[1:] -= frame.shift[frame.pauses.restart].max() + frame.shift.max() * np.arange(slots)
    return SlotValues(
        inside=np.empty((frame.segment + 1, *state, points)),
        rows=np.empty((frame.segment + 1, *state), dtype=np.int64),
        kept=np.empty((segments + 1 if segments > 1 else 0, *state, points)),
        kept_rows=np.empty((segments + 1, *state), dtype=np.int64),
        subset=np.empty((widths, widths, points)),
        low=np.maximum(low, 0).astype(np.int64),
    )


def empty_labels(frame: JobFrame) -> PathLabels:
    """Allocate the labels of every slot: one where the grid is exact, else BEAM or twice as many."""
    slots = frame.terms.deadline_slots + 1
    beam = 2 * BEAM if frame.terms.whole_slots else BEAM
    shape = (slots, 1 if frame.exact else beam)
    return PathLabels(
        counts=np.zeros(slots, dtype=np.int64),
        holding=np.zeros(shape, dtype=np.int64),
        left=np.zeros(shape, dtype=np.int64),
        work=np.zeros(shape),
        paid=np.zeros(shape),
        score=np.zeros(shape),
        parent=np.zeros(shape, dtype=np.int64),
        end=np.zeros(3, dtype=np.int64),
        end_score=np.zeros(1),
    )
