"""Learning a job's pace while it runs: from what its workers report, or from physics in a dry run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from slacktide.engine.account import Account, has_all
from slacktide.engine.lane import Lane, pace_of
from slacktide.engine.world import Track
from slacktide.events import PaceRevised
from slacktide.pace import LEAST_HOURS, Pace, learn, mean_factor, measure

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine


class Sighting(NamedTuple):
    """How far a set of workers said it was, and when it said so."""

    attempt: int
    at_hours: float
    done_gpu_hours: float


def revised(engine: Engine, track: Track, one: Account) -> PaceRevised | None:
    """Say what a stretch that is over taught about the pace of its job; None where it taught nothing.

    Workers that report are measured from report to report, so that neither the start of a set of workers
    nor what came after its last report counts.
    """
    lane, facts = engine.lane(track), engine.facts[track.job]
    before = pace_of(lane, track)
    if math.isinf(before.hours) or track.order is None:
        return None
    width = track.order.gpus
    if facts.finished is None:
        productive = one.priced.stretch.productive_hours
        after = learn(before, lane.terms, track.state, one.state, productive)
    else:
        after, productive = _measured(engine, track, lane, before)
    if after == before:
        return None
    ratio = mean_factor(after, width)
    return PaceRevised(
        job=track.job,
        at_hours=one.to_hours,
        gpus=width,
        measured_hours=float(productive),
        pace=Pace(*(float(number) for number in after)),
        why=_why(lane, after, ratio, width, productive),
    )


def _measured(engine: Engine, track: Track, lane: Lane, before: Pace) -> tuple[Pace, float]:
    """Measure from the last sighting of this set of workers to the newest report."""
    facts, order = engine.facts[track.job], track.order
    assert order is not None
    progress = facts.progress
    if progress is None or facts.attempt != order.attempt or not has_all(track):
        return before, 0.0
    if progress.at_hours == -math.inf:
        return before, 0.0
    done = progress.done_share * lane.terms.work_gpu_hours
    now = Sighting(order.attempt, progress.at_hours, done)
    last = engine.sightings.get(track.job)
    if last is None or last.attempt != now.attempt or now.done_gpu_hours < last.done_gpu_hours:
        engine.sightings[track.job] = now
        return before, 0.0
    hours = now.at_hours - last.at_hours
    if hours <= LEAST_HOURS or now.done_gpu_hours == last.done_gpu_hours:
        return before, 0.0
    engine.sightings[track.job] = now
    after = measure(before, lane.terms, order.gpus, hours, last.done_gpu_hours, now.done_gpu_hours)
    return after, hours


def _why(lane: Lane, after: Pace, ratio: float, width: int, hours: float) -> str:
    work = lane.job.work_gpu_hours / mean_factor(after, 1)
    return (
        f"{hours * 60:.0f} minutes on {width} GPUs: {ratio:.2f} times the pace of its file; all its work is "
        f"about {work:.1f} GPU-hours, its file says {lane.job.work_gpu_hours:.1f}"
    )
