"""Asking the allocator of a fleet, and giving its jobs what it wants of what is there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slacktide.allocators.view import (
    Decision,
    FleetView,
    JobColumns,
    Pricing,
    Remembering,
    Sizing,
    Standing,
    Wanted,
)
from slacktide.budget.cluster import Cluster, granted
from slacktide.core.types import Allocation, Reason
from slacktide.engine.fleet.fleets import FleetRun
from slacktide.engine.fleet.machines import sized
from slacktide.engine.fulfil import fulfil
from slacktide.engine.job.blocked_jobs import said
from slacktide.engine.pending_decisions import PendingDecision, Shown, columns, whole
from slacktide.journal.events import ClusterSized, Event, Remembered
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord
from slacktide.policies.view import stays_in

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine

UNLIMITED_GPUS = 1 << 30


def ask_fleet(
    engine: Engine,
    track: FleetRecord,
    run: FleetRun,
    asks: list[PendingDecision],
    cluster: Cluster,
    now_hours: float,
) -> None:
    """Ask about all jobs of a fleet and do what is decided; `cluster` is its machines as they are now."""
    asks.sort(key=lambda ask: ask.track.number)
    fleet = run.fleet
    assert fleet is not None
    cluster.take_form(fleet.node_gpus, fleet.provisioning_hours, fleet.idle_grace_hours)
    wanted, asked = _carefully(engine, track, run, asks, cluster, now_hours)
    gpus = cluster.ready * cluster.node_gpus - _being_let_go(engine, track, now_hours)
    widths = _granted(asks, wanted, gpus if run.owns_machines else UNLIMITED_GPUS)
    events: list[Event] = [*remembered(track, run, now_hours), *asked]
    acts: list[tuple[JobRecord, int | None]] = []
    for ask, wish, width in zip(asks, wanted, widths, strict=True):
        if ask.inside and (wish.spot_gpus, width) == (ask.state.spot_gpus, ask.state.on_demand_gpus):
            continue
        settled = fulfil(engine, ask, wish._replace(on_demand_gpus=width))
        events += [*(ask.before if ask.inside else ()), *settled]
        acts.append((ask.track, ask.taken))
    engine.act(events, acts)
    run.asked_hours, run.asked_about = now_hours, track.settled_at(now_hours)


def _carefully(
    engine: Engine,
    track: FleetRecord,
    run: FleetRun,
    asks: Sequence[PendingDecision],
    cluster: Cluster,
    now_hours: float,
) -> tuple[list[Allocation], list[ClusterSized]]:
    """Return what each job is to have; where the allocator fails, its jobs keep what they hold."""
    try:
        decided, why = _decided(engine, track, run, asks, cluster, now_hours), ""
        for ask, wish in zip(asks, decided[0], strict=True):
            stays_in(wish, engine.lane(ask.track).market_pool.name, ask.track.job)
    except Exception as error:
        decided, why = ([_as_it_is(ask) for ask in asks], []), f"its fleet's allocator failed: {said(error)}"
    for ask in asks:
        engine.troubles.note(ask.track.job, "policy", why)
    return decided


def _decided(
    engine: Engine,
    track: FleetRecord,
    run: FleetRun,
    asks: Sequence[PendingDecision],
    cluster: Cluster,
    now_hours: float,
) -> tuple[list[Allocation], list[ClusterSized]]:
    """Return what each job is to have, and the size of the cluster where that changes."""
    allocator, shown = run.allocator, _Showing(engine, track, run, asks, cluster, now_hours)
    # Machines of jobs that are being let go are in use until their workers have gone.
    leaving_gpus = _being_let_go(engine, track, now_hours)
    if isinstance(allocator, Sizing):
        wanted_gpus = allocator.rent_gpus(shown.view(cluster.ready))
        # They are kept beside those that are wanted, but none is rented for their sake.
        beside = min(cluster.nodes_for(wanted_gpus + leaving_gpus), cluster.rented)
        nodes = max(cluster.nodes_for(wanted_gpus), beside)
        asked = _sized(track, run, cluster, nodes, now_hours)
        decision = allocator.decide(shown.view(min(cluster.ready, nodes), leaving_gpus))
        return _wishes(decision, run, asks), asked
    wanted = _wishes(allocator.decide(shown.view(cluster.ready)), run, asks)
    nodes = cluster.nodes_for(sum(wish.on_demand_gpus for wish in wanted) + leaving_gpus)
    return wanted, _sized(track, run, cluster, nodes, now_hours)


def _sized(
    track: FleetRecord, run: FleetRun, cluster: Cluster, nodes: int, now_hours: float
) -> list[ClusterSized]:
    """Ask for this many nodes; the cluster is then as it will be."""
    if not run.owns_machines:
        return []
    asked = sized(track, now_hours, nodes, cluster)
    cluster.ask(nodes, now_hours)
    return [] if asked is None else [asked]


@dataclasses.dataclass(frozen=True, slots=True)
class _Showing:
    """A fleet as its allocator is shown it."""

    engine: Engine
    track: FleetRecord
    run: FleetRun
    asks: Sequence[PendingDecision]
    cluster: Cluster
    now_hours: float

    def view(self, ready_nodes: int, leaving_gpus: int = 0) -> FleetView:
        """Return the view in which this many nodes can be used, but for GPUs in use by workers that leave."""
        track, cluster, held = self.track, self.cluster, sum(ask.state.gpus for ask in self.asks)
        owns = self.run.owns_machines
        return FleetView(
            now_hours=self.now_hours - track.began_hours,
            fleet=self.run.fleet,
            jobs=self._columns(),
            due=range(len(self.asks)),
            ready_gpus=max(0, ready_nodes * cluster.node_gpus - leaving_gpus) if owns else held,
            rented_gpus=cluster.rented * cluster.node_gpus if owns else held,
            spent_gpu_hours=track.spent_gpu_hours + sum(map(_open_gpu_hours, self.asks)),
            spot=self.engine.spot,
            shown=Shown(self.asks, self.engine.lane),
        )

    def _columns(self) -> JobColumns:
        jobs, plain = [ask.track for ask in self.asks], columns(self.asks, self.engine.lane)
        return plain._replace(
            ids=whole([job.number for job in jobs]),
            kind=whole([self.run.kind(job) for job in jobs]),
            number=whole([job.number_of_class for job in jobs]),
            phase=whole([_phase(self.engine, self.run, ask) for ask in self.asks]),
            submitted_hours=plain.submitted_hours - self.track.began_hours,
            work_gpu_hours=plain.work_gpu_hours if self.run.knows_sizes else None,
        )


def _phase(engine: Engine, run: FleetRun, ask: PendingDecision) -> int:
    return run.phase(ask.track, ask.state.progress_gpu_hours, engine.lane(ask.track).terms)


def _open_gpu_hours(ask: PendingDecision) -> float:
    """Return what a job has been rented in a stretch that is not written yet."""
    if not ask.inside or ask.track.begun is None or ask.track.order is None:
        return 0.0
    return ask.track.order.gpus * max(0.0, ask.begun.from_hours - ask.track.begun.from_hours)


def _being_let_go(engine: Engine, track: FleetRecord, now_hours: float) -> int:
    """Return the GPUs that are in use by workers on their way out, or that went only after this moment."""
    jobs = (engine.world.jobs[name] for name in track.present)
    leaving = [job.order.on_demand_gpus for job in jobs if job.ending is not None and job.order is not None]
    return sum(leaving) + track.held_after(now_hours)


def _wishes(decision: Decision, run: FleetRun, asks: Sequence[PendingDecision]) -> list[Allocation]:
    """Return what is wanted for each job; one that is not named keeps what it holds."""
    if not isinstance(decision, Wanted):
        return [decision.get(ask.track.job, _as_it_is(ask)) for ask in asks]
    spot = np.zeros_like(decision.on_demand_gpus) if decision.spot_gpus is None else decision.spot_gpus
    on_demand = decision.on_demand_gpus.tolist()
    signals = {"jobs": float(len(asks)), "gpus_of_all": float(sum(on_demand) + int(spot.sum()))}
    reason = Reason(decision.rule or run.name, signals)
    return [Allocation(*pair, reason=reason) for pair in zip(spot.tolist(), on_demand, strict=True)]


def _as_it_is(ask: PendingDecision) -> Allocation:
    return Allocation(ask.state.spot_gpus, ask.state.on_demand_gpus, reason=Reason("as-it-is"))


def _granted(asks: Sequence[PendingDecision], wanted: Sequence[Allocation], gpus: int) -> list[int]:
    held = whole([ask.state.on_demand_gpus for ask in asks])
    found: list[int] = granted(held, whole([wish.on_demand_gpus for wish in wanted]), gpus).tolist()
    return found


def remembered(track: FleetRecord, run: FleetRun, now_hours: float) -> list[Remembered]:
    """Let an allocator that can write down what it knows do so; on a market, say when it was asked."""
    allocator = run.allocator
    if not isinstance(allocator, Remembering):
        return [] if run.market is None else [Remembered(at_hours=now_hours, fleet=track.key, memory="")]
    memory = json.dumps(allocator.remember(), allow_nan=False)
    news = "" if memory == track.memory else memory
    reserved, hour = (None, None) if not isinstance(allocator, Pricing) else _prices(allocator.standing)
    return [
        Remembered(
            at_hours=now_hours, fleet=track.key, memory=news, reserved_usd=reserved, usd_per_job_hour=hour
        )
    ]


def _prices(standing: Standing) -> tuple[float, float | None]:
    """Return what is kept in reserve, and the price of an hour where there is one."""
    hour = standing.usd_per_job_hour
    return standing.reserved_usd, float(hour) if np.isfinite(hour) else None
