"""Running jobs for real: hand in, run, resume; and what clients ask of a journal."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slacktide.backend.base import Place, backends
from slacktide.backtesting.selection import fresh
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine
from slacktide.engine.lane import lane_of
from slacktide.engine.launching import secrets_of
from slacktide.engine.lessons import begin_learning, drop_lesson, foresee, learn_from
from slacktide.engine.loop import POLL_S, live
from slacktide.engine.opening import check_resumable
from slacktide.engine.snapshots import read_world
from slacktide.engine.world import Track, World
from slacktide.errors import BackendError, InputError, UnknownNameError
from slacktide.events import CancellationAsked, ClockSet, Closed, Opened, PreemptionAsked, Submitted
from slacktide.jobfile.reading import parse_job
from slacktide.jobfile.tree import read_text
from slacktide.learn.saved import Saved, default_path
from slacktide.store.base import Store
from slacktide.store.lease import Lease
from slacktide.store.sqlite import SqliteStore
from slacktide.submitting import placed, submission
from slacktide.types import JobState

DEFAULT_BACKEND = "local"


class Session:
    """A controller of one journal, from taking charge of it to letting go.

    Raises LeaseError when the journal has a controller already.
    """

    def __init__(
        self,
        journal: Path,
        *,
        speed: float | None = None,
        notice_s: float = 0.0,
        backend: str | None = None,
        learned: Path | None = None,
    ) -> None:
        """Name the journal; `speed` is how many times faster than the wall's the market's clock runs.

        `backend` names the back end; otherwise it is the one that unfinished jobs run on, or `local`.
        """
        self.journal = journal.absolute()
        self.speed, self._notice_s, self._backend = speed, notice_s, backend
        self._learned = Saved(learned or default_path(), fresh)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(Lease(self.journal))
            self.store: Store = stack.enter_context(SqliteStore(self.journal))
            world = read_world(self.store)
            check_resumable(world)
            self.clock = self._clock(world)
            name = self._backend_name(world)
            backend = backends.make({name: {"place": self._place()}})
            stack.callback(backend.close)
            self.engine = Engine(self.store, backend, notice_s=self._notice_s, world=world)
            self.engine.write([self._opened(name)])
            self.engine.recover()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None and self.engine.idle:
                self.engine.write([Closed(at_hours=self.engine.world.now_hours)])
            if kind is None:  # what was broken off may have left the world half told
                self.engine.keep()

    def submit(self, path: str, given: Mapping[str, Any]) -> Track:
        """Hand in a job file, or take up the same one again if it has not ended."""
        text, now = read_text(path), datetime.now(UTC)
        for track in self.world.active:
            if track.submitted.path == str(Path(path).absolute()):
                return track
        name = parse_job(text, path=path, now=now).job.name
        job_id, site = free_id(self.world, name), self.world.site
        asked = submission(text, path, given, job_id=job_id, at_hours=self.clock.hours(), now=now, site=site)
        rehearse(foresee(asked, name, self._learned))
        # The job's time begins now, not when it was asked for: some policies compile for a minute at first.
        present = dataclasses.replace(
            asked, at_hours=self.clock.hours(), submitted_utc=datetime.now(UTC).isoformat()
        )
        if site is not None:
            lane = lane_of(present)
            present = placed(present, lane.job, lane.pool, None, site)
        submitted = begin_learning(present, name, self._learned)
        try:
            self.engine.submit(submitted)
        except BaseException:
            drop_lesson(submitted, self._learned)
            raise
        return self.world.jobs[submitted.job]

    def run(
        self,
        *,
        show: Callable[[float], None] = lambda now_hours: None,
        stopping: Callable[[], bool] = lambda: False,
        complain: Callable[[BackendError], None] = lambda error: None,
        poll_s: float = POLL_S,
    ) -> None:
        """Run until every job has ended, or until all is let go once `stopping` says so; then learn.

        `complain` hears of trouble with the disk or the machine that may pass by itself.
        """
        live(self.engine, self.clock, show=show, stopping=stopping, complain=complain, poll_s=poll_s)
        for track in self.world.jobs.values():
            if track.ended is not None and track.submitted.learning and not track.learned:
                learn_from(self.engine, track, self._learned)

    @property
    def world(self) -> World:
        """All that the journal tells."""
        return self.engine.world

    def _backend_name(self, world: World) -> str:
        """Return the back end that jobs which have not ended run on, or the one that was named."""
        if world.active and self._backend not in (None, world.backend):
            raise InputError(
                f"the back end must stay {world.backend} while jobs of this journal go on, got "
                f"{self._backend}; leave it out, or give another journal with --journal"
            )
        return world.backend if world.active else self._backend or DEFAULT_BACKEND

    def _place(self) -> Place:
        return Place(
            folder=runs_of(self.journal),
            owner=hashlib.sha256(str(self.journal).encode()).hexdigest()[:16],
            speed=self.clock.speed,
            now_hours=self.clock.hours,
            secrets=lambda job: secrets_of(self.engine.lane_of(job).file),
        )

    def _clock(self, world: World) -> Clock:
        """Go on with the clock of jobs that have not ended, or set it anew."""
        if world.active and world.clock is not None:
            speed = world.clock.speed
            if self.speed is not None and self.speed != speed:
                raise InputError(
                    f"speed must stay {speed:g} while jobs of this journal go on, got {self.speed:g}; "
                    "leave it out, or give another journal with --journal"
                )
            return Clock(datetime.fromisoformat(world.clock.epoch_utc), speed)
        epoch = datetime.now(UTC)
        clock = Clock(epoch, self.speed or 1.0)
        self.store.append([ClockSet(at_hours=0.0, epoch_utc=epoch.isoformat(), speed=clock.speed)])
        return clock

    def _opened(self, backend: str) -> Opened:
        return Opened(
            at_hours=self.engine.world.now_hours,
            pid=os.getpid(),
            host=platform.node(),
            version=version("slacktide"),
            backend=backend,
        )


def rehearse(submitted: Submitted) -> None:
    """Let a job's policy decide once, for nothing, so that the first real decision comes at once."""
    if not submitted.fleet:
        lane = lane_of(submitted)
        lane.policy.decide(lane.view(submitted.job, JobState(), lane.start_slot, submitted.at_hours, ()))


def free_id(world: World, name: str) -> str:
    """Return the job's name, with a number if an earlier job has it."""
    if name not in world.jobs:
        return name
    return next(free for number in range(2, 10**9) if (free := f"{name}-{number}") not in world.jobs)


def runs_of(journal: Path) -> Path:
    """Return the folder below which the workers of a journal have theirs."""
    return journal.absolute().with_suffix(".runs")


def open_journal(journal: Path) -> SqliteStore:
    """Open a journal that must be there, to read it or to ask something of its controller."""
    if not journal.exists():
        raise InputError(f"{journal}: there must be a journal, found none; name it with --journal")
    return SqliteStore(journal, create=False)


def track_of(world: World, job: str) -> Track:
    """Return a job of a journal; raises UnknownNameError with a guess."""
    if job not in world.jobs:
        raise UnknownJobError("a job", job, world.jobs)
    return world.jobs[job]


class UnknownJobError(UnknownNameError):
    """A job is not in the journal."""

    exit_code = 102
    http_status = 404


def ask_preemption(store: Store, job: str, gpus: int | None) -> None:
    """Ask the controller to take spot workers from a job, as the market would."""
    world = _asked_of(store, job)
    store.append([PreemptionAsked(job=job, at_hours=world.now_hours, actor="user", spot_gpus=gpus)])


def ask_cancellation(store: Store, job: str) -> None:
    """Ask the controller to end a job."""
    world = _asked_of(store, job)
    store.append([CancellationAsked(job=job, at_hours=world.now_hours, actor="user")])


def _asked_of(store: Store, job: str) -> World:
    world = read_world(store)
    track = track_of(world, job)
    if not track.active:
        raise InputError(f"job {job!r} must not have ended, but it has: {track.status}")
    return world


__all__ = [
    "Session",
    "UnknownJobError",
    "ask_cancellation",
    "ask_preemption",
    "lane_of",
    "open_journal",
    "read_world",
    "runs_of",
    "track_of",
]
