"""What is believed of the speed of jobs in a fleet on a market, as rows of the tables that allocators read.

Its file is believed until a job speaks. Then plans go by the mean of what was measured, and promises, with
the money that is kept for them, by a pace slow enough to count on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.job_tables import Kinds
from slacktide.core.arrays import Ints
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import whole
from slacktide.physics.pace import Pace, Z, believed, is_measured, safe
from slacktide.physics.progress import Terms
from slacktide.policies.deadline_guard import measuring_width


class Speed(NamedTuple):
    """How fast a job is in each of its pools."""

    mean: tuple[Terms, ...]  # as it is believed to be
    safe: tuple[Terms, ...]  # as slow as it may turn out to be; the same before enough was measured
    measure_gpus: tuple[int, ...]
    """The least that it must hold until enough was measured; 0 where nothing is to be."""


class PacedKinds(NamedTuple):
    """The tables of a fleet with rows for jobs of another pace than their files say."""

    kinds: Kinds
    kind: Ints
    safe_kind: Ints


def speed_of(context: JobContext, pace: Pace, progress_gpu_hours: float, *, hard: bool) -> Speed | None:
    """Return how fast a job is by what is believed of it; None where its file is taken at its word."""
    if pace.hours == np.inf:
        return None
    slot_hours = context.slot_hours
    mean = tuple(believed(terms, pace) for terms in context.all_terms)
    if is_measured(pace):
        slow = tuple(safe(terms, pace, progress_gpu_hours, slot_hours, Z) for terms in mean)
        return Speed(mean, slow, (0,) * len(mean))
    least = tuple(measuring_width(terms, slot_hours) if hard else 0 for terms in mean)
    return Speed(mean, mean, least)


def with_speeds(
    kinds: Kinds, said: Sequence[int], speeds: Sequence[Speed | None], where: Sequence[Sequence[int]]
) -> PacedKinds:
    """Add rows for jobs of another pace; `where` says which of the fleet's pools those of each job are."""
    kind, safe_kind = whole(said), whole(said)
    rows: list[tuple[int, tuple[Terms, ...], Sequence[int]]] = []
    first = len(kinds.restart_hours)
    for job, speed in enumerate(speeds):
        if speed is not None:
            kind[job] = safe_kind[job] = first + len(rows)
            rows.append((said[job], speed.mean, where[job]))
            if speed.safe is not speed.mean:
                safe_kind[job] = first + len(rows)
                rows.append((said[job], speed.safe, where[job]))
    return PacedKinds(_more(kinds, rows) if rows else kinds, kind, safe_kind)


def _more(kinds: Kinds, rows: Sequence[tuple[int, tuple[Terms, ...], Sequence[int]]]) -> Kinds:
    first = len(kinds.restart_hours)
    copied = [one for one, _, _ in rows]
    found = Kinds._make(np.concatenate([table, table[copied]]) for table in kinds)
    for row, (_, terms, pools) in enumerate(rows, start=first):
        _fill(found, row, zip(terms, pools, strict=True))
    return found


def _fill(kinds: Kinds, row: int, places: Iterable[tuple[Terms, int]]) -> None:
    """Write how fast a job is in each of its pools, and how long it takes to begin and to save."""
    for terms, pool in places:
        phases, widths = terms.rate.shape
        there = kinds.rate[row, pool, :phases, :widths]
        there[...] = np.where(there > 0.0, terms.rate, 0.0)
        kinds.restart_hours[row], kinds.shrink_hours[row] = terms.restart_hours, terms.shrink_hours
        kinds.checkpoint_hours[row] = terms.checkpoint_hours
