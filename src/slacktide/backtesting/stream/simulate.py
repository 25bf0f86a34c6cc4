"""A stream of jobs under a policy: the short way where there is one, else event by event."""

from __future__ import annotations

from slacktide.backtesting.stream.events import Progress, run_events
from slacktide.backtesting.stream.settled import is_independent, run_settled
from slacktide.budget.fleet import Fleet
from slacktide.budget.policy.base import (
    AnyStreamPolicy,
    SettledPolicy,
    begin,
    stream_policies,
)
from slacktide.budget.stream import Stream
from slacktide.register import Spec
from slacktide.results.stream import StreamRun


def simulate(
    stream: Stream,
    fleet: Fleet,
    policy: Spec | AnyStreamPolicy,
    *,
    progress: Progress | None = None,
) -> StreamRun:
    """Run a stream of jobs under a policy.

    Raises InputError when the policy asks for what is not allowed, InfeasibleError when a budget is too
    small for the policy.
    """
    made = stream_policies.make(policy)
    name = stream_policies.name_of(made)
    if is_independent(fleet):
        begun = begin(made, fleet)
        if isinstance(begun, SettledPolicy):
            return run_settled(stream, fleet, begun.ways, name=name)
    return run_events(stream, fleet, made, name=name, progress=progress)
