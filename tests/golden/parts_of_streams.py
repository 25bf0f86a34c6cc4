"""Small streams under every allocator, on machines that come and go in every way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.allocators.base import Settled, allocators
from slacktide.allocators.view import begin, needs_market
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.core.register import Spec
from slacktide.core.speedup import Amdahl, Power, Table
from slacktide.core.types import Job, Phase
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import run_events
from slacktide.simulation.fleet.settled import is_independent, run_settled

from .exact import digest, lines

FOLDER = Path(__file__).parent / "streams"
SHOWN = 6
"""Jobs at either end of a stream whose response times are written out; the digest covers all."""

UP_TO_16 = tuple(range(1, 17))
ONE_PHASE = (
    JobClass(
        Job(name="amdahl", work_gpu_hours=1.5, speedup=Amdahl(0.9), widths=UP_TO_16), arrivals_per_hour=4.0
    ),
    JobClass(
        Job(name="root", work_gpu_hours=1.0, speedup=Power(0.6), widths=(1, 2, 4, 8)), arrivals_per_hour=3.0
    ),
    JobClass(
        Job(
            name="measured",
            work_gpu_hours=6.0,
            widths=(2, 3, 4, 6, 8, 12),
            speedup=Table(((1.0, 1.0), (2.0, 1.9), (4.0, 3.4), (8.0, 5.6), (16.0, 7.0))),
        ),
        arrivals_per_hour=0.5,
    ),
)
PHASES = (
    JobClass(
        Job(
            name="widening",
            widths=tuple(range(1, 13)),
            phases=(Phase(0.8, Amdahl(0.7)), Phase(1.6, Amdahl(0.95)), Phase(0.6, Power(0.5))),
        ),
        arrivals_per_hour=1.5,
    ),
    JobClass(
        Job(name="even", work_gpu_hours=1.0, speedup=Power(0.7), widths=(1, 2, 4)), arrivals_per_hour=3.0
    ),
    JobClass(
        Job(name="narrowing", widths=(1, 2, 4, 8), phases=(Phase(2.0, Power(0.9)), Phase(1.0, Amdahl(0.6)))),
        arrivals_per_hour=0.7,
    ),
)


class Ground(NamedTuple):
    """A stream and what it runs on."""

    stream: Stream
    fleet: Fleet


def ground(
    classes: tuple[JobClass, ...],
    seed: int,
    *,
    restart_hours: float,
    budget_gpus: float = 18.0,
    arrivals: str = "poisson",
    sizes: str = "exponential",
    count: int = 120,
    **machines: Any,
) -> Ground:
    """Draw a stream for classes that all have this restart."""
    these = tuple(replace(one, job=replace(one.job, restart_hours=restart_hours)) for one in classes)
    stream = draw_stream(these, count, arrivals=arrivals, sizes=sizes, seed=seed)
    return Ground(stream, Fleet(these, budget_gpus, **machines))


def sparse(classes: tuple[JobClass, ...]) -> tuple[JobClass, ...]:
    """Return classes whose jobs come rarely and take long: policies wake while nothing happens."""
    return tuple(
        JobClass(
            replace(one.job, work_gpu_hours=8 * one.work_gpu_hours, phases=()), one.arrivals_per_hour / 8
        )
        for one in classes
    )


SETTINGS: dict[str, Callable[[float], Ground]] = {
    "single-gpus": lambda restart: ground(ONE_PHASE, 11, restart_hours=restart),
    "phases": lambda restart: ground(PHASES, 12, restart_hours=restart, sizes="lognormal"),
    "nodes": lambda restart: ground(ONE_PHASE, 13, restart_hours=restart, node_gpus=4),
    "provisioning": lambda restart: ground(
        ONE_PHASE, 14, restart_hours=restart, arrivals="bursty", provisioning_hours=0.15
    ),
    "grace": lambda restart: ground(
        ONE_PHASE, 15, restart_hours=restart, arrivals="bursty", idle_grace_hours=0.25
    ),
    "wake": lambda restart: ground(
        sparse(ONE_PHASE), 16, restart_hours=restart, arrivals="bursty", sizes="pareto", count=80
    ),
    "everything": lambda restart: ground(
        PHASES, 17, restart_hours=restart, arrivals="bursty", sizes="pareto",
        node_gpus=4, provisioning_hours=0.1, idle_grace_hours=0.2,
    ),
}  # fmt: skip
"""Each with the restart of its classes left open."""

POLICIES: tuple[Spec, ...] = (
    *sorted(name for name in allocators if not needs_market(allocators.make(name))),
    {"efficiency-band": {"round_hours": 0.5}},
    {"fifo": {"cluster_gpus": 14, "gpus": 3}},
    {"one-width": {"gpus": 3}},
    {"online-width": {"period_jobs": 5.0, "speedups": "learn", "work": "declared"}},
    {"srpt": {"cluster_gpus": 14, "gpus": 2}},
)
"""Every registered allocator as it is, and some with parameters."""


def told(setting: str, restart_hours: float) -> str:
    """Tell what every allocator made of a setting."""
    where = SETTINGS[setting](restart_hours)
    return lines({name: _row(run) for policy in POLICIES for name, run in _runs(policy, where)})


def _runs(policy: Spec, where: Ground) -> Iterator[tuple[str, StreamRun]]:
    """Run event by event and, where jobs share nothing, by the formulas."""
    name, made = _name(policy), allocators.make(policy)
    yield f"{name}, events", run_events(where.stream, where.fleet, made)
    begun = begin(made, where.fleet)
    if is_independent(where.fleet) and isinstance(begun, Settled):
        yield f"{name}, settled", run_settled(where.stream, where.fleet, begun.ways)


def _name(policy: Spec) -> str:
    if isinstance(policy, str):
        return policy
    ((name, given),) = policy.items()
    return f"{name}({', '.join(f'{key}={_shown(value)}' for key, value in given.items())})"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _row(run: StreamRun) -> dict[str, Any]:
    hours = run.response_hours.tolist()
    return {
        "gpu_hours": run.bill.gpu_hours,
        "busy": run.bill.busy_gpu_hours,
        "restart": run.bill.restart_gpu_hours,
        "fragmentation": run.bill.fragmentation_gpu_hours,
        "idle": run.bill.idle_gpu_hours,
        "peak_gpus": run.peak_gpus,
        "resizes": run.resizes,
        "end_hours": run.end_hours,
        "response_hours": math.fsum(hours),
        "digest": digest(hours),
        "first": hours[:SHOWN],
        "last": hours[-SHOWN:],
    }
