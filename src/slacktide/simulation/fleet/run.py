"""Simulations of a fleet under an allocator: one driver for jobs on a market and for a stream at one price.

A world goes from event to event and yields the moments at which the allocator decides. The driver passes the
allocator what it may know then, and hands back to the world what jobs are to hold. `run_fleet` drives a
`MarketWorld`, and `run_events` a `StreamWorld`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from slacktide.allocators.base import Settled, allocators
from slacktide.allocators.view import Allocator, AnyAllocator, Decision, FleetView, begin
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.results.fleet import FleetRun
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.market_world import MarketWorld
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.fleet.settled import is_independent, run_settled
from slacktide.simulation.fleet.stream_world import StreamWorld

Progress = Callable[[int, int], None]
Watch = Callable[[FleetView, Any], None]
"""Called with every view and what was decided on it: `Orders` on a market, widths for a stream."""

REPORTS = 100  # how often a run reports its progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is watched and what is kept of it; no option changes what happens."""

    name: str = ""
    progress: Progress | None = None
    watch: Watch | None = None
    plain: bool = False  # whether the kernel's source runs without being compiled
    keep: bool = False  # whether every stretch and every reason are kept, on a market


UNWATCHED = RunOptions()


class World(Protocol):
    """A simulation that `drive` can run: jobs, and the market or cluster that they run on."""

    def moments(self) -> Iterator[int]:
        """Go from event to event; each time the allocator must decide, yield how many jobs are done."""
        ...

    def view(self) -> FleetView:
        """Return what the allocator may know now."""
        ...

    def read(self, decision: Decision, view: FleetView) -> Any:
        """Return as columns what jobs are to hold; raises InputError for an impossible decision."""
        ...

    def hold(self, wanted: Any) -> None:
        """Give jobs what they are to hold, as far as it is available."""
        ...


def drive(world: World, jobs: int, allocator: Allocator, options: RunOptions) -> None:
    """Run a world with that many jobs to its end; the allocator decides at each of its moments."""
    watch, progress, reported = options.watch, options.progress, 0
    for done in world.moments():
        view = world.view()
        wanted = world.read(allocator.decide(view), view)
        # Before `hold`, which may change the view: its columns are the world's own arrays.
        if watch:
            watch(view, wanted)
        world.hold(wanted)
        if progress and (done - reported) * REPORTS >= jobs:
            reported = done
            progress(done, jobs)


def run_fleet(
    scene: FleetScene,
    allocator: AnyAllocator,
    options: RunOptions = UNWATCHED,
    *,
    stop_hours: float = math.inf,
) -> FleetRun:
    """Run the jobs of a fleet on a market under an allocator until all have ended, or until a time.

    A job that is not served for very long after the last arrival is left unfinished.
    """
    begun = begin(allocator, scene.fleet)
    world = MarketWorld(scene, begun, plain=options.plain, keep=options.keep, stop_hours=stop_hours)
    drive(world, len(scene.members), begun, options)
    return world.result(options.name)


def run_events(
    stream: Stream,
    fleet: Fleet,
    allocator: AnyAllocator,
    options: RunOptions = UNWATCHED,
    *,
    last_call: bool = True,
) -> StreamRun:
    """Run a stream under an allocator, event by event.

    Without `last_call` the last job is not known to be the last, and machines are kept as before. Raises
    InputError when an allocator requests what is not allowed or lets jobs wait forever.
    """
    if int(stream.class_index.max()) >= len(fleet.classes):
        raise InputError(
            f"a stream's classes must be those of the fleet, got {stream.class_index.max()} and "
            f"only {len(fleet.classes)} classes"
        )
    begun = begin(allocator, fleet)
    world = StreamWorld(stream, fleet, begun, plain=options.plain, last_call=last_call)
    drive(world, len(stream), begun, options)
    return world.result(options.name)


def simulate(
    stream: Stream,
    fleet: Fleet,
    allocator: Spec | AnyAllocator,
    *,
    progress: Progress | None = None,
) -> StreamRun:
    """Run a stream of jobs under an allocator, by formula where its jobs do not affect each other.

    Raises InputError when the allocator requests what is not allowed, InfeasibleError when a budget is too
    small for it.
    """
    made = allocators.make(allocator)
    name = allocators.name_of(made)
    if is_independent(fleet):
        begun = begin(made, fleet)
        if isinstance(begun, Settled):
            return run_settled(stream, fleet, begun.ways, name=name)
    return run_events(stream, fleet, made, RunOptions(name=name, progress=progress))
