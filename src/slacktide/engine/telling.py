"""The engine's events in full: from what it holds in hand to what the journal keeps."""

from __future__ import annotations

import math

from slacktide.backend.base import Order, Seen
from slacktide.engine.world import Track
from slacktide.events import Decided, Ended, Ending, Lived, Preempted, Status
from slacktide.types import Allocation, JobState


def bare(state: JobState) -> JobState:
    """Return the same state in plain numbers: the physics may have left NumPy's in it."""
    return JobState(
        int(state.spot_gpus),
        int(state.on_demand_gpus),
        int(state.pool),
        float(state.pause_hours),
        float(state.progress_gpu_hours),
        float(state.checkpointed_gpu_hours),
        float(state.since_checkpoint_hours),
        float(state.cost_usd),
        float(state.finish_hours),
        bool(state.exhausted),
    )


def decided(track: Track, order: Order, wish: Allocation, ending: Ending | None = None) -> Decided:
    """Say what is to be held, what was wished for, and why."""
    return Decided(
        job=track.job,
        at_hours=track.began_hours + order.from_hours,
        why=wish.reason.rule,
        signals={name: float(value) for name, value in wish.reason.signals.items()},
        slot=order.slot,
        quote=order.quote,
        state=bare(order.state),
        spot_gpus=order.spot_gpus,
        on_demand_gpus=order.on_demand_gpus,
        wanted_spot_gpus=int(wish.spot_gpus),
        wanted_on_demand_gpus=int(wish.on_demand_gpus),
        from_hours=order.from_hours,
        memory=tuple(float(number) for number in wish.memory),
        attempt=order.attempt,
        ending=ending,
    )


def lived(track: Track, order: Order, seen: Seen, *, let_go: bool = False) -> Lived:
    """Say what a stretch of time did and cost."""
    state = seen.state._replace(spot_gpus=0, on_demand_gpus=0, pause_hours=0.0) if let_go else seen.state
    return Lived(
        job=track.job,
        at_hours=track.began_hours + seen.to_hours,
        slot=order.slot,
        from_hours=order.from_hours,
        to_hours=float(seen.to_hours),
        spot_gpus=order.spot_gpus,
        on_demand_gpus=order.on_demand_gpus,
        spot_usd=float(seen.spot_usd),
        on_demand_usd=float(seen.on_demand_usd),
        pause_hours=float(seen.pause_hours),
        productive_hours=float(seen.productive_hours),
        state=bare(state),
    )


def preempted(
    track: Track,
    slot: int,
    at_hours: float,
    before: JobState,
    left: JobState,
    why: str,
    *,
    asked: bool = False,
) -> Preempted:
    """Say which spot workers were taken, by whom, and what work went with them."""
    return Preempted(
        job=track.job,
        at_hours=track.began_hours + at_hours,
        actor="user" if asked else "market",
        why=why,
        slot=slot,
        spot_before=int(before.spot_gpus),
        spot_left=int(left.spot_gpus),
        lost_gpu_hours=float(before.progress_gpu_hours - left.progress_gpu_hours),
    )


def ended(track: Track, status: Status, why: str, at_hours: float, finish_hours: float = math.inf) -> Ended:
    """Say that a job is over."""
    return Ended(job=track.job, at_hours=at_hours, why=why, status=status, finish_hours=float(finish_hours))
