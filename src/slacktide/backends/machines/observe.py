"""Makes the status of a job from the last answers of its machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from slacktide.backends.machines.job import RemoteJob
from slacktide.backends.machines.machine_set import MachinePart, MachineSet
from slacktide.backends.workers.launch import Kind
from slacktide.backends.workers.process_status import Phase, ProcessStatus
from slacktide.backends.workers.worker_backend import ON_DEMAND, SPOT
from slacktide.core import machine_clock as boot


def observe(job: RemoteJob, now: float) -> ProcessStatus:
    """Say what there was at the last tick."""
    spread, order, said = job.spread, job.order, job.said
    sets = [one for one in (spread, *job.going) if one is not None]
    present = [kind for one in sets for part in one.parts.values() for kind in _present(job, one, part)]
    lost = _lost(spread) if spread is not None and not _void(job) else []
    if spread is None and order is not None:
        lost = [*repeat(SPOT, order.short_spot)]
    failed = job.failed
    ended_well = spread is not None and spread.succeeded and spread.drained(now) and not _void(job)
    unfinished = ended_well and spread is not None and _says_less(spread, job)
    gone = not job.going and _phase(job, now) in ("none", "exited")
    return ProcessStatus(
        attempt=spread.attempt if spread else order.attempt if order else 0,
        phase=_phase(job, now),
        spot_gpus=present.count("spot"),
        on_demand_gpus=present.count("on-demand"),
        pending_gpus=_pending(job),
        lost_spot_gpus=lost.count("spot"),
        lost_on_demand_gpus=lost.count("on-demand"),
        exit_codes=(),
        failed_rank=failed.failed_rank if failed else None,
        failed_code=failed.failed_code if failed else None,
        finished=ended_well and not unfinished,
        unfinished=unfinished,
        stopped=_stopped(job),
        gone=gone,
        gone_s=_gone_s(spread) if spread is not None and gone else None,
        before_gone_s=None,
        done_share=said.done_share,
        checkpointed_share=said.checkpointed_share,
        saved=said.saved,
        said_s=None if said.at is None else max(0.0, now - said.at),
        spoken=spread is not None and said.attempt == spread.attempt,
        metrics=said.metrics,
        began_s=None if spread is None or spread.began_at is None else max(0.0, now - spread.began_at),
        silent_s=_silent_s(job, now) if present else 0.0,
        setup_exit=failed.setup_exit if failed else None,
        broken_lines=0,
        newest_attempt=job.newest,
        trouble=job.trouble or _trouble(spread),
        reforming=spread is not None and spread.reforming,
        places_sent_s=_places_sent_s(spread, now),
        notice_s=_notice_s(sets, now),
    )


def _notice_s(sets: Sequence[MachineSet], now: float) -> float | None:
    """Return how long the first of the job's machines has left that was warned that it will be taken.

    Of workers that the market takes while their machines stay, their machines say so.
    """
    found = []
    for part in (part for one in sets for part in one.parts.values() if not part.gone):
        if part.noticed:
            found.append(part.taken_at - now)
        if part.observed is not None and part.observed.notice_s is not None:
            found.append(part.observed.notice_s - (now - part.seen_at))
    return max(0.0, min(found)) if found else None


def _present(job: RemoteJob, spread: MachineSet, part: MachinePart) -> list[Kind]:
    """Return the kinds of a part's workers that are there, by the last word of its machine."""
    observed = part.observed
    if part.lost or part.away or part.left or not spread.announced:
        return []
    if part.handed_on:  # its machine speaks of all its workers together, once it speaks of the new set
        there = job.spread.parts.get(part.host) if job.spread else None
        return list(spread.kinds(part)) if there is None or there.seen is None else []
    if observed is None:
        kept = [spread.form.kinds[one.rank] for one in spread.kept(part)]
        return list(spread.kinds(part)) if spread.adopted else kept
    return [*repeat(SPOT, observed.spot_gpus), *repeat(ON_DEMAND, observed.on_demand_gpus)]


def _lost(spread: MachineSet) -> list[Kind]:
    """Return the kinds of workers that were lost with their machine, or vanished there."""
    found: list[Kind] = []
    for part in spread.parts.values():
        observed = part.observed
        if part.missed:
            ended = observed is not None and (observed.gone and not observed.stopped)
            found += [] if ended else spread.kinds(part)
        elif observed is not None:
            found += repeat(SPOT, observed.lost_spot_gpus)
            found += repeat(ON_DEMAND, observed.lost_on_demand_gpus)
    return found


def _pending(job: RemoteJob) -> int:
    """Count the workers that were ordered, have not begun and still may."""
    spread, order = job.spread, job.order
    if order is None or order.void:
        return 0
    if spread is None or spread.attempt != order.attempt:
        return len(order.kinds)
    if spread.stopping or spread.broken:
        return 0
    return sum(_pending_of(spread, part) for part in spread.parts.values())


def _pending_of(spread: MachineSet, part: MachinePart) -> int:
    if part.observed is not None:
        return part.observed.pending_gpus
    return 0 if spread.adopted and spread.announced else len(part.ranks) - len(spread.kept(part))


def _places_sent_s(spread: MachineSet | None, now: float) -> float | None:
    """Return how long ago all workers had received their places."""
    if spread is None or not spread.form.former:
        return None
    ago = [
        part.observed.places_sent_s + (now - part.seen_at)
        for part in spread.parts.values()
        if part.observed is not None and part.observed.places_sent_s is not None
    ]
    return min(ago) if len(ago) == len(spread.parts) else None


def _says_less(spread: MachineSet, job: RemoteJob) -> bool:
    """Say whether the last that the workers of a set said is that less than all is done."""
    if job.said.attempt != spread.attempt or job.said.part is None:
        return False
    part = spread.parts.get(job.said.part)
    return part is not None and part.observed is not None and part.observed.unfinished


def _stopped(job: RemoteJob) -> bool:
    if job.spread is not None:
        return job.spread.stopped or _void(job)
    return job.order is not None and job.order.void


def _void(job: RemoteJob) -> bool:
    spread, order = job.spread, job.order
    return spread is not None and order is not None and order.void and spread.attempt == order.attempt


def _gone_s(spread: MachineSet) -> float | None:
    ends = [part.gone_s for part in spread.parts.values() if part.gone_s is not None]
    return min(max(ends), boot.seconds()) if ends else None


def _silent_s(job: RemoteJob, now: float) -> float:
    """Return for how long nothing new was reported; 0 where nothing ever was."""
    spread = job.spread
    if spread is None or spread.began_at is None or job.said.at is None:
        return 0.0
    return max(0.0, now - max(spread.began_at, job.said.grown_at))


def _trouble(spread: MachineSet | None) -> str:
    parts = () if spread is None else spread.parts.values()
    return next((part.observed.trouble for part in parts if part.observed and part.observed.trouble), "")


def _phase(job: RemoteJob, now: float) -> Phase:
    spread, order = job.spread, job.order
    if spread is not None:
        if spread.over and spread.drained(now):
            return "exited" if order is None or order.kinds else "none"
        return "stopping" if spread.stopping or spread.over else _phase_of(spread)
    if order is None or not order.kinds:
        return "none"
    return "exited" if order.void else "starting"


def _phase_of(spread: MachineSet) -> Phase:
    """Return how far a set is that has no request to end: as far as its slowest part."""
    phases = [part.observed.phase if part.observed else None for part in spread.parts.values()]
    if "setting-up" in phases:
        return "setting-up"
    if None in phases:
        return "running" if spread.adopted and spread.announced else "starting"
    return "starting" if {"none", "starting"} & set(phases) else "running"
