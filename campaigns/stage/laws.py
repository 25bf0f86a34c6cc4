"""What must hold of any run, whatever was done to it; each law that is broken is a finding.

The evidence is of two kinds that know nothing of each other: what Slacktide says (journal, commands), and
what the workers wrote down themselves (`record`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from campaigns.finding import Finding
from campaigns.recount import CENT_USD, Sum, recount
from campaigns.stage import told
from campaigns.stage.arena import Arena
from campaigns.stage.commands import tail
from campaigns.stage.record import Life, Record, checkpoint, digest_of
from campaigns.waiting import wait_until

START_S = 0.5
"""How far a bill may be off for each worker that was started: looks, signals and starts take time too."""
SLOW = 4.0
"""... and so many times the longest that this machine has overslept."""
LOST_SIGN_S = 0.5
"""A worker that was killed may have lived this much longer than its last word."""
OVERLAP_S = 0.02
"""The kernel's uptime has hundredths of a second."""


def check(arena: Arena, expected: Mapping[str, str] | None = None) -> None:
    """See that every law holds; `expected` says how jobs should have ended that should not have succeeded."""
    broken = [
        *_broken(lambda: ends_are_true(arena, expected or {})),
        *_broken(lambda: nothing_is_left(arena)),
        *_broken(lambda: bills_agree(arena)),
    ]
    for job in arena.tasks:
        lives = arena.record(job).lives()
        broken += _broken(lambda job=job, lives=lives: attempts_only_grow(job, lives))  # type: ignore[misc]
        broken += _broken(lambda job=job, lives=lives: one_set_at_a_time(job, lives))  # type: ignore[misc]
        broken += _broken(lambda job=job: only_what_was_held_is_billed(arena, job))  # type: ignore[misc]
    if broken:
        raise Finding("; ".join(broken))


def _broken(law: Callable[[], None]) -> list[str]:
    """Return what is found against a law, so that one finding does not hide another."""
    try:
        law()
    except Finding as finding:
        return [finding.what]
    return []


def ends_are_true(arena: Arena, expected: Mapping[str, str]) -> None:
    """Every job ended once, as it should have; what succeeded has done all of its work, in order."""
    ended = [row.job for row in told.rows(arena.journal, "Ended")]
    listed = {one["name"]: one["status"] for one in listing(arena)}
    for job, status in arena.statuses().items():
        wanted = expected.get(job, "succeeded")
        if status != wanted:
            raise Finding(f"{job} must end {wanted}, but it is {status or 'not over'}{_why(arena, job)}")
        if listed.get(job) != status:
            raise Finding(f"{job} ended {status}, but `jobs` says {listed.get(job)}")
        if ended.count(job) != 1:
            raise Finding(f"{job} ended {ended.count(job)} times")
        if status == "succeeded":
            work_is_whole(arena, job)
    if lost := arena.tasks.keys() - arena.statuses().keys():
        raise Finding(f"jobs that were submitted are not in the journal: {', '.join(sorted(lost))}")


def _why(arena: Arena, job: str) -> str:
    """Return the last reasons that the journal gives for a job."""
    last = [row for row in told.rows(arena.journal, "WorkerFailed", "Stalled", "Ended") if row.job == job][
        -3:
    ]
    return "".join(f"; {row.kind}: {row.data['why']}" for row in last)


def work_is_whole(arena: Arena, job: str) -> None:
    """The checkpoint of a job that succeeded holds all of its work, and no attempt went back behind it."""
    units = arena.tasks[job].units
    done, digest = checkpoint(arena.checkpoints(job))
    if done < units:
        raise Finding(f"{job} succeeded, but {done} of {units} units are done")
    if digest != digest_of(units):
        raise Finding(f"{job} succeeded, but its units were not each done once and in order")
    if trouble := arena.record(job).diary().trouble:
        raise Finding(f"{job} did saved work again: {trouble}")


def listing(arena: Arena, *, attended: bool = True) -> list[dict[str, Any]]:
    """Return what `slacktide jobs` says, which must be so.

    No job may be said to have done more than its workers have, nor to run where no controller runs.
    """
    said = arena.nursery.run("jobs", "-o", "json", "--journal", str(arena.journal))
    if said.code != 0:
        raise Finding(f"jobs exited with {said.code}: {tail(said.err)}")
    listed: list[dict[str, Any]] = json.loads(said.out)["jobs"]
    running = [one["name"] for one in listed if one["status"] in ("running", "starting", "recovering")]
    if running and not attended:
        raise Finding(f"no controller is running, but `jobs` says that {', '.join(running)} runs")
    if arena.unended() and not attended and "controller" not in said.err:
        raise Finding("no controller is running, but `jobs` does not say so")
    for one in listed:
        task = arena.tasks.get(one["name"])
        if task is not None:
            most = done_share(
                arena.record(task.name), task.units, checkpoint(arena.checkpoints(task.name))[0]
            )
            if one["progress_gpu_hours"] / arena.work_gpu_hours > most + 1e-6:
                share = one["progress_gpu_hours"] / arena.work_gpu_hours
                raise Finding(
                    f"`jobs` says that {share:.1%} of {task.name} are done, but at most {most:.1%} are"
                )
    return listed


def done_share(record: Record, units: int, saved: int) -> float:
    """Return the most that can be done of a job: what is saved, and what its workers may have done since."""
    unsaved = 10 * max((life.rank + 1 for life in record.lives()), default=0)
    return min(1.0, (saved + unsaved) / units)


def nothing_is_left(arena: Arena) -> None:
    """No process of any job lives when all jobs are over."""
    wait_until(lambda: not arena.workers(), f"the end of {[one.marker for one in arena.workers()]}", 30.0)


def bills_agree(arena: Arena) -> None:
    """The bill, its audit and a recount come to the same, to the cent, for every job and for all."""
    said = arena.nursery.run("cost", "-o", "json", "--journal", str(arena.journal))
    if said.code != 0:
        raise Finding(
            f"the audit of the journal is not clean, exit {said.code}: {tail(said.err + said.out, 30)}"
        )
    site = json.loads(said.out)
    slots = {
        job: arena.pace.slot_hours if task.billing == "slot" else None for job, task in arena.tasks.items()
    }
    counted = recount(told.held(arena.journal, arena.prices()), slots)
    for one in site["jobs"]:
        _same(one["job"], one["cost_usd"], counted.get(one["job"], Sum(0.0, 0.0, 0.0)).usd)
    total = math.fsum(one.usd for one in counted.values())
    _same("all jobs", site["total"]["cost_usd"], total)
    _same("the audit", site["audit"]["cost_usd"], total)


def _same(what: str, billed_usd: float, counted_usd: float) -> None:
    if abs(billed_usd - counted_usd) >= CENT_USD:
        raise Finding(f"{what}: billed {billed_usd:.4f} USD, but a recount comes to {counted_usd:.4f} USD")


def only_what_was_held_is_billed(arena: Arena, job: str) -> None:
    """The GPU-hours on the bill are those that workers lived, as they wrote it down themselves."""
    stretches = [one for one in told.held(arena.journal, None) if one.payer == job]
    for kind, billed_hours in (
        ("spot", math.fsum(one.spot_gpus * one.hours for one in stretches)),
        ("on-demand", math.fsum(one.on_demand_gpus * one.hours for one in stretches)),
    ):
        mine = [life for life in arena.record(job).lives() if life.kind == kind]
        lived_s, billed_s = (
            math.fsum(life.to_s - life.from_s for life in mine),
            arena.pace.wall_s(billed_hours),
        )
        off_s = len(mine) * (START_S + LOST_SIGN_S + SLOW * arena.slowness.worst_s)
        less_s = off_s + max((life.rank + 1 for life in mine), default=0) * _waited_s(arena)
        more_s = off_s + _starting_s(arena.folder / "journal.runs" / job)
        if not lived_s - less_s <= billed_s <= lived_s + more_s:
            raise Finding(
                f"{job}: {billed_s:.2f} GPU-seconds of {kind} are billed, but its {len(mine)} workers lived "
                f"{lived_s:.2f} s, give {more_s:.2f} or take {less_s:.2f}"
            )


def _starting_s(folder: Path) -> float:
    """Return how long workers were held before they could say that they lived, by the notes on the disk.

    A machine that is busy takes a second from the start of a process to its first word, and who is killed
    before that has said nothing.
    """
    total = 0.0
    for log in folder.glob("attempt-*/rank-*.log"):
        spoke = [note for note in (log.with_suffix(".pid"), log.with_name("seen")) if note.exists()]
        begun = log.with_name("attempt.json")
        if spoke and begun.exists():
            total += max(0.0, spoke[0].stat().st_mtime - begun.stat().st_mtime - START_S)
    return total


def _waited_s(arena: Arena) -> float:
    """Return for how long the market's clock may have stood still: as it says, and a slot unsaid.

    A market that is faster than the wall's clock waits for the controller, and what passes meanwhile is free.
    """
    return arena.pace.wall_s(told.waited_hours(arena.journal, arena.pace.speed) + arena.pace.slot_hours)


def attempts_only_grow(job: str, lives: list[Life]) -> None:
    """No attempt begins after a later one, and no worker of one begins twice."""
    for before, after in pairwise(lives):
        if after.attempt < before.attempt:
            raise Finding(f"{job}: attempt {after.attempt} began after attempt {before.attempt}")
    begun = [(life.attempt, life.rank) for life in lives]
    for one in set(begun):
        if begun.count(one) > 1:
            raise Finding(f"{job}: rank {one[1]} of attempt {one[0]} began {begun.count(one)} times")


def one_set_at_a_time(job: str, lives: list[Life]) -> None:
    """No worker begins while one of an earlier attempt lives: both would write one checkpoint."""
    for later in lives:
        for earlier in lives:
            if earlier.attempt < later.attempt and earlier.to_s > later.from_s + OVERLAP_S:
                early_s = earlier.to_s - later.from_s
                raise Finding(
                    f"{job}: attempt {later.attempt} began {early_s:.2f} s before the last sign of life of "
                    f"attempt {earlier.attempt}"
                )


def cost_of(arena: Arena, job: str) -> float:
    """Return what a job has cost by a recount of the journal."""
    slot_hours = arena.pace.slot_hours if arena.tasks[job].billing == "slot" else None
    return (
        recount(told.held(arena.journal, arena.prices()), {job: slot_hours}).get(job, Sum(0.0, 0.0, 0.0)).usd
    )
