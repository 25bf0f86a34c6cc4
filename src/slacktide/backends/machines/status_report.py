"""Makes the status of a job from the last answers of its machines."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.machines.machine_set import MachinePart, MachineSet
from slacktide.backends.workers.job_folder import read_text
from slacktide.backends.workers.job_table import OrderedJob
from slacktide.backends.workers.launch import Phase, ProcessStatus
from slacktide.backends.workers.worker_backend import ON_DEMAND, SPOT
from slacktide.core import machine_clock as boot
from slacktide.core.types import SavedEvidence
from slacktide.journal.events import Capacity

WRITE_S = 1.0  # how often it is written down at the most
SAVED: dict[str, SavedEvidence] = {"said": "said", "assumed": "assumed", "unknown": "unknown"}


class LastReport(NamedTuple):
    """The last report of a job on its own work, by whichever attempt."""

    done_share: float = 0.0
    checkpointed_share: float = 0.0
    saved: SavedEvidence = "said"
    metrics: Mapping[str, float] = {}
    at: float | None = None  # when, on the controller's clock; None: it never has
    grown_at: float = -math.inf
    attempt: int = 0
    part: str | None = None  # which machine sent it


class LastReportFile:
    """A note in the job's folder; if it cannot be written or read, only less is known."""

    def __init__(self, place: Path) -> None:
        self._path = place / "said.json"
        self._kept = LastReport()
        self._kept_at = -math.inf

    def keep(self, report: LastReport, now: float) -> None:
        """Write down a report that differs from the last one written, at most every WRITE_S."""
        fresh = report[:4] != self._kept[:4] or report.attempt != self._kept.attempt
        if report.at is None or not fresh or now - self._kept_at < WRITE_S:
            return
        self._kept, self._kept_at = report, now
        fact = {
            **report._asdict(), "metrics": dict(report.metrics), "at": time.time() - (now - report.at),
            "grown_at": time.time() - (now - report.grown_at),
        }  # fmt: skip
        draft = self._path.with_name(f".{self._path.name}")
        with suppress(OSError):
            draft.write_text(json.dumps({"format": 1, **fact}), encoding="utf-8")
            os.replace(draft, self._path)

    def read(self, now: float) -> LastReport:
        """Return what an earlier controller wrote down, with times on this one's clock."""
        try:
            fact = json.loads(read_text(self._path))
            ago_s = max(0.0, time.time() - float(fact["at"]))
            grown_s = max(0.0, time.time() - float(fact["grown_at"]))
            metrics = {str(name): float(value) for name, value in fact["metrics"].items()}
            self._kept = LastReport(
                float(fact["done_share"]), float(fact["checkpointed_share"]), SAVED[fact["saved"]], metrics,
                now - ago_s, now - grown_s, int(fact["attempt"]), str(fact["part"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return LastReport()
        return self._kept


def status_of(job: OrderedJob[MachineSet], report: LastReport, now: float) -> ProcessStatus:
    """Return the status of a job as of the last tick."""
    machine_set, order = job.current, job.order
    sets = job.sets
    present = [kind for held in sets for part in held.parts.values() for kind in _present(job, held, part)]
    lost = _lost(machine_set) if machine_set is not None and not job.is_void else []
    if machine_set is None and order is not None:
        lost = [*repeat(SPOT, order.short_spot)]
    failed = machine_set.failure if machine_set is not None else None
    began_at = machine_set.began_at if machine_set is not None else None
    ended_well = unfinished = False
    if machine_set is not None and machine_set.succeeded and machine_set.drained(now):
        ended_well = not job.is_void
        unfinished = ended_well and _says_less(machine_set, report)
    phase = _phase(job, now)
    gone = not job.going and phase in ("none", "exited")
    return ProcessStatus(
        attempt=job.attempt,
        phase=phase,
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
        gone_s=_gone_s(machine_set) if machine_set is not None and gone else None,
        before_gone_s=None,
        done_share=report.done_share,
        checkpointed_share=report.checkpointed_share,
        saved=report.saved,
        reported_s=None if report.at is None else max(0.0, now - report.at),
        own_report=machine_set is not None and report.attempt == machine_set.attempt,
        metrics=report.metrics,
        began_s=None if began_at is None else max(0.0, now - began_at),
        silent_s=_silent_s(machine_set, report, now) if present else 0.0,
        setup_exit=failed.setup_exit if failed else None,
        newest_attempt=job.newest,
        trouble=job.trouble or _trouble(machine_set),
        reforming=machine_set is not None and machine_set.reforming,
        places_sent_s=_places_sent_s(machine_set, now),
        notice_s=_notice_s(sets, now),
    )


def _notice_s(sets: Sequence[MachineSet], now: float) -> float | None:
    """Return the seconds until the first of the job's machines or workers is taken; None: no warning came.

    Machines that stay report how long those of their workers have left that the market takes.
    """
    left_s = []
    for part in (part for machine_set in sets for part in machine_set.parts.values() if not part.gone):
        if part.noticed:
            left_s.append(part.taken_at - now)
        if part.seen is not None and part.seen.notice_s is not None:
            left_s.append(part.seen.notice_s - (now - part.seen_at))
    return max(0.0, min(left_s)) if left_s else None


def _present(job: OrderedJob[MachineSet], machine_set: MachineSet, part: MachinePart) -> list[Capacity]:
    """Return the kinds of a part's workers that are present, by the last report of its machine."""
    observed = part.seen
    if part.lost or part.away or part.left or not machine_set.announced:
        return []
    if part.handed_on:  # its agent reports on all its workers together, once it reports on the new set
        new_part = job.current.parts.get(part.host) if job.current else None
        return list(machine_set.kinds(part)) if new_part is None or new_part.seen is None else []
    if observed is None:
        kept = [machine_set.form.kinds[worker.rank] for worker in machine_set.kept(part)]
        return list(machine_set.kinds(part)) if machine_set.adopted else kept
    return [*repeat(SPOT, observed.spot_gpus), *repeat(ON_DEMAND, observed.on_demand_gpus)]


def _lost(machine_set: MachineSet) -> list[Capacity]:
    """Return the kinds of workers that were lost with their machine, or vanished there."""
    found: list[Capacity] = []
    for part in machine_set.parts.values():
        observed = part.seen
        if part.missed:
            ended = observed is not None and (observed.gone and not observed.stopped)
            found += [] if ended else machine_set.kinds(part)
        elif observed is not None:
            found += repeat(SPOT, observed.lost_spot_gpus)
            found += repeat(ON_DEMAND, observed.lost_on_demand_gpus)
    return found


def _pending(job: OrderedJob[MachineSet]) -> int:
    """Count the workers that were ordered, have not begun and still may."""
    machine_set, unformed = job.current, job.unformed_gpus
    if unformed is not None or machine_set is None:
        return unformed or 0
    if machine_set.stopping or machine_set.broken:
        return 0
    return sum(_pending_of(machine_set, part) for part in machine_set.parts.values())


def _pending_of(machine_set: MachineSet, part: MachinePart) -> int:
    if part.seen is not None:
        return part.seen.pending_gpus
    if machine_set.adopted and machine_set.announced:
        return 0
    return len(part.ranks) - len(machine_set.kept(part))


def _places_sent_s(machine_set: MachineSet | None, now: float) -> float | None:
    """Return how many seconds ago the last worker received its place; None: not all have."""
    if machine_set is None or not machine_set.form.former:
        return None
    ago = [
        part.seen.places_sent_s + (now - part.seen_at)
        for part in machine_set.parts.values()
        if part.seen is not None and part.seen.places_sent_s is not None
    ]
    return min(ago) if len(ago) == len(machine_set.parts) else None


def _says_less(machine_set: MachineSet, report: LastReport) -> bool:
    """Say whether the workers of a set ended after reporting that less than all was done."""
    if report.attempt != machine_set.attempt or report.part is None:
        return False
    part = machine_set.parts.get(report.part)
    return part is not None and part.seen is not None and part.seen.unfinished


def _stopped(job: OrderedJob[MachineSet]) -> bool:
    if job.current is not None:
        return job.current.stopped or job.is_void
    return job.order is not None and job.order.void


def _gone_s(machine_set: MachineSet) -> float | None:
    ends = [part.gone_s for part in machine_set.parts.values() if part.gone_s is not None]
    return min(max(ends), boot.seconds()) if ends else None


def _silent_s(machine_set: MachineSet | None, report: LastReport, now: float) -> float:
    """Return for how many seconds progress has not grown; 0 if none was ever reported."""
    if machine_set is None or machine_set.began_at is None or report.at is None:
        return 0.0
    return max(0.0, now - max(machine_set.began_at, report.grown_at))


def _trouble(machine_set: MachineSet | None) -> str:
    parts = () if machine_set is None else machine_set.parts.values()
    return next((part.seen.trouble for part in parts if part.seen and part.seen.trouble), "")


def _phase(job: OrderedJob[MachineSet], now: float) -> Phase:
    machine_set, order = job.current, job.order
    if machine_set is not None:
        if machine_set.over and machine_set.drained(now):
            return "exited" if order is None or order.kinds else "none"
        return "stopping" if machine_set.stopping or machine_set.over else _phase_of(machine_set)
    if order is None or not order.kinds:
        return "none"
    return "exited" if order.void else "starting"


def _phase_of(machine_set: MachineSet) -> Phase:
    """Return the phase of a set that was not told to stop: that of its slowest part."""
    phases = [part.seen.phase if part.seen else None for part in machine_set.parts.values()]
    if "setting-up" in phases:
        return "setting-up"
    if None in phases:
        return "running" if machine_set.adopted and machine_set.announced else "starting"
    return "starting" if {"none", "starting"} & set(phases) else "running"
