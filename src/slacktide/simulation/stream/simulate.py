"""A stream of jobs under an allocator: the short way where there is one, else event by event."""

from __future__ import annotations

from slacktide.allocators.base import Settled, allocators
from slacktide.allocators.view import AnyAllocator, begin
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.register import Spec
from slacktide.results.fleets.stream import StreamRun
from slacktide.simulation.stream.events import Progress, run_events
from slacktide.simulation.stream.settled import is_independent, run_settled


def simulate(
    stream: Stream,
    fleet: Fleet,
    allocator: Spec | AnyAllocator,
    *,
    progress: Progress | None = None,
) -> StreamRun:
    """Run a stream of jobs under an allocator.

    Raises InputError when the allocator asks for what is not allowed, InfeasibleError when a budget is too
    small for it.
    """
    made = allocators.make(allocator)
    name = allocators.name_of(made)
    if is_independent(fleet):
        begun = begin(made, fleet)
        if isinstance(begun, Settled):
            return run_settled(stream, fleet, begun.ways, name=name)
    return run_events(stream, fleet, made, name=name, progress=progress)
