"""The numbers behind a live run's pictures: what its journal tells, before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from slacktide.arrays import Floats
from slacktide.errors import InputError
from slacktide.events import Decided, Ended, Event, Lived, Preempted, Restarted
from slacktide.ledger import Priced
from slacktide.market.base import Pool
from slacktide.report.run_words import open_ended
from slacktide.report.scene import Backdrop, Steps, quotes_until, shown_hours
from slacktide.types import Job

Kind = TypeVar("Kind", bound=Event)


class Curve(NamedTuple):
    """Points to be joined: hours since the start, and an amount."""

    hours: Floats
    amount: Floats


class Loss(NamedTuple):
    """A moment at which spot GPUs were taken: the share of the work done before it and after it."""

    hours: float
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScene(Backdrop):
    """One live run: the market it met and what the journal says of it."""

    name: str
    policy: str
    began_hours: float
    """When the job began, on the journal's clock."""
    events: tuple[Event, ...]
    alone: Curve | None = None
    """What on demand alone would have spent by when."""
    clairvoyant_usd: float | None = None

    def told(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ended(self) -> Ended | None:
        """How it ended; None when it has not."""
        return next((event for event in self.events if isinstance(event, Ended)), None)

    @property
    def stretches(self) -> list[Priced]:
        """What was held when and what it cost, in order; hours count from when the job began."""
        return [_since(event.priced, self.began_hours) for event in self.told(Lived)]

    def since_start(self, event: Event) -> float:
        """Return when something happened, in hours since the job began."""
        return event.at_hours - self.began_hours


def run_scene(
    job: Job,
    pool: Pool,
    start_slot: int,
    events: Iterable[Event],
    *,
    name: str,
    policy: str,
    began_hours: float,
    alone: Curve | None = None,
    clairvoyant_usd: float | None = None,
) -> RunScene:
    """Set the scene of a run from the events of its job; raises InputError when nothing was lived yet."""
    kept = tuple(events)
    ends = [event.priced.stretch.to_hours for event in kept if isinstance(event, Lived)]
    last = max(ends, default=began_hours) - began_hours
    if not ends:
        raise InputError(
            f"a picture of {name!r} must show some time, but nothing was run yet; run the job first"
        )
    end = last if open_ended(job) else shown_hours(job, last)
    return RunScene(
        job=job,
        pool=pool,
        start_slot=start_slot,
        end_hours=end,
        quotes=quotes_until(pool, start_slot, end),
        name=name,
        policy=policy,
        began_hours=began_hours,
        events=kept,
        alone=alone,
        clairvoyant_usd=clairvoyant_usd,
    )


def held(scene: RunScene) -> tuple[Steps, Steps]:
    """Return the spot and the on-demand GPUs held; between stretches nothing was."""
    edges, spot, on_demand = [0.0], list[float](), list[float]()
    for stretch, _ in scene.stretches:
        if stretch.from_hours > edges[-1]:
            edges.append(stretch.from_hours)
            spot.append(0.0)
            on_demand.append(0.0)
        edges.append(max(stretch.to_hours, edges[-1]))
        spot.append(float(stretch.spot_gpus))
        on_demand.append(float(stretch.on_demand_gpus))
    shared = np.array(edges)
    return Steps(np.array(spot), shared), Steps(np.array(on_demand), shared)


def progress(scene: RunScene) -> Curve:
    """Return the share of the work done: level while it pauses, rising while it works, falling at a loss."""
    hours, done, now = [0.0], [0.0], 0.0
    for event in scene.events:
        if isinstance(event, Decided):
            now = event.state.progress_gpu_hours
        elif isinstance(event, Lived):
            one = _since(event.priced, scene.began_hours).stretch
            working = max(one.from_hours, one.to_hours - one.productive_hours)
            hours += [one.from_hours, working, one.to_hours]
            done += [now, now, event.state.progress_gpu_hours]
            now = event.state.progress_gpu_hours
    return Curve(np.array(hours), np.array(done) / scene.job.work_gpu_hours)


def losses(scene: RunScene) -> list[Loss]:
    """Return every preemption with the work before and after it."""
    found, now, whole = list[Loss](), 0.0, scene.job.work_gpu_hours
    for event in scene.events:
        if isinstance(event, Lived):
            now = event.state.progress_gpu_hours
        elif isinstance(event, Preempted):
            after = now - event.lost_gpu_hours
            found.append(Loss(scene.since_start(event), now / whole, after / whole))
    return found


def restarts(scene: RunScene) -> list[float]:
    """Return when workers were started again, in hours since the job began."""
    starts, attempt = list[float](), 0
    for event in scene.events:
        if isinstance(event, Decided | Restarted):
            held_any = isinstance(event, Restarted) or event.spot_gpus + event.on_demand_gpus > 0
            if held_any and event.attempt != attempt:
                starts.append(scene.since_start(event))
            attempt = event.attempt
    return starts[1:]


def spent(scene: RunScene) -> tuple[Curve, Curve]:
    """Return what was spent by when: on spot, and on everything."""
    lived = scene.stretches
    hours = np.array([0.0, *(edge for one, _ in lived for edge in (one.from_hours, one.to_hours))])
    spot = _running(charge.spot_usd for _, charge in lived)
    both = _running(charge.usd for _, charge in lived)
    return Curve(hours, spot), Curve(hours, both)


def _since(one: Priced, began_hours: float) -> Priced:
    """Return a stretch whose hours count from when its job began."""
    from_hours, to_hours = one.stretch.from_hours - began_hours, one.stretch.to_hours - began_hours
    return one._replace(stretch=one.stretch._replace(from_hours=from_hours, to_hours=to_hours))


def _running(usd: Iterable[float]) -> Floats:
    """Add up money that is spent evenly over each stretch and not at all between them."""
    steps = np.array([0.0, *(part for each in usd for part in (0.0, each))])
    return np.cumsum(steps)
