"""The workers of one attempt: begun together, ended together."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.process_table import MARKER
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.launch import Launch
from slacktide.backends.workers.worker import Worker, spawn


class WorkerSet:
    """Workers that are ended together with all they started: by SIGTERM, then SIGKILL after the grace period.

    If a worker was lost, or stopped from outside, the set cannot go on: the others are ended too, and their
    exit codes do not count as failures.
    """

    def __init__(self, attempt: int, workers: Iterable[Worker], stop_path: Path, grace_s: float) -> None:
        self.attempt = attempt
        self.workers = tuple(workers)
        self.failed_rank: int | None = None
        """The first worker that failed, once all others have answered after it: then none of them was lost or
        stopped from outside, which would explain the failure."""
        self._grace_s = grace_s
        self._stop_path = stop_path
        self._stopped_ns: int | None = None
        """When the attempt was requested to stop, by the clock of files."""
        self._failing = False  # whether a failure was seen when the workers were last polled
        self._taken_at = math.inf  # when spot workers that the market takes are killed
        self._reload()

    @property
    def begun(self) -> bool:
        """All workers have registered."""
        return all(worker.process or worker.exit_code is not None for worker in self.workers)

    @property
    def stopping(self) -> bool:
        """The attempt was requested to stop, by this controller or an earlier one."""
        return self._stopped_ns is not None

    @property
    def stopped(self) -> bool:
        """It will never finish: a worker was told to stop, by anyone, was lost, or may not start any more."""
        broken = any(worker.signaled or worker.stop_noted or worker.lost for worker in self.workers)
        return broken or (self.stopping and any(worker.exit_code is None for worker in self.workers))

    @property
    def halved(self) -> bool:
        """Some of its workers were signaled to end, and the others were not."""
        return not self.stopping and any(worker.signaled for worker in self.workers)

    @property
    def succeeded(self) -> bool:
        """All exited with 0, none of them told to stop, and none of their processes is left."""
        well = all(worker.exit_code == 0 for worker in self.workers)
        return self.gone and not self.stopped and well and bool(self.workers)

    @property
    def lacking(self) -> bool:
        """Some workers have to be started."""
        return not self.stopping and any(worker.awaited for worker in self.workers)

    @property
    def present(self) -> bool:
        """Some worker, or a process that it started, is alive."""
        return any(worker.present for worker in self.workers)

    @property
    def gone(self) -> bool:
        """Neither the workers nor any process that they started is left."""
        return all(worker.cleared and not worker.present for worker in self.workers)

    @property
    def gone_s(self) -> float | None:
        """When the last process had gone, on the machine's own clock; None before, or if none ever began."""
        ends_s = [worker.gone_s for worker in self.workers if worker.gone_s is not None]
        return max(ends_s) if ends_s and self.gone else None

    def notice_s(self, now: float) -> float | None:
        """Return the seconds until spot workers that the market takes are killed; None if it takes none."""
        spot_left = any(worker.present and worker.kind == "spot" for worker in self.workers)
        return max(0.0, self._taken_at - now) if spot_left and self._taken_at < math.inf else None

    def poll(self, now: float) -> None:
        """Find workers that ended, kill those whose time is up, and end processes that ended workers left."""
        self._watch()
        # A worker that was killed and has not died yet must count as lost, not as ended by us: wait for it.
        if self.broken and not self.stopping and not any(worker.dying for worker in self.workers):
            self.stop(now)
        self._kill_overdue(self.workers, now)
        ended = [worker for worker in self.workers if self._to_clear(worker, now)]
        seen = list(process_table.scan()) if ended else []
        for worker in ended:
            worker.clear(now, self._grace_s, seen)

    def stop(self, now: float) -> None:
        """Request all to end."""
        self.take((), 0.0, now)

    def take(self, ranks: Collection[int], notice_s: float, now: float) -> None:
        """Request all to end, these ranks within the notice (0: now), the others within the grace period.

        Called again, it sends no worker a second SIGTERM and gives none more time.
        """
        self._poll_all()  # workers that vanished before now were lost
        self._note_taken(ranks, notice_s, now)
        self.fence()
        self._poll_all()
        for worker in self.workers:
            if not worker.cleared:
                patience_s = notice_s if worker.rank in ranks else self._grace_s
                worker.kill_at = min(worker.kill_at, now + patience_s)
        self._signal_some(self.workers, now)

    def take_some(self, ranks: Collection[int], notice_s: float, now: float) -> None:
        """Request only these ranks to end: the others go on in another set, or end if none is ordered."""
        self._poll_all()
        self._note_taken(ranks, notice_s, now)
        some = [worker for worker in self.workers if worker.rank in ranks and not worker.cleared]
        for worker in some:
            worker.kill_at = min(worker.kill_at, now + notice_s)
        self._signal_some(some, now)

    def _signal_some(self, workers: Collection[Worker], now: float) -> None:
        """Kill workers whose time is up, and send the others SIGTERM, once."""
        self._kill_overdue(workers, now)
        unsignaled = [worker for worker in workers if worker.alive and not worker.signaled]
        self._send_signal(unsignaled, signal.SIGTERM)

    def _kill_overdue(self, workers: Collection[Worker], now: float) -> None:
        overdue = [worker for worker in workers if worker.alive and worker.kill_at <= now]
        self._send_signal(overdue, signal.SIGKILL)

    def _note_taken(self, ranks: Collection[int], notice_s: float, now: float) -> None:
        if ranks:
            self._taken_at = min(self._taken_at, now + notice_s)

    def fence(self) -> None:
        """Keep workers that have not begun from starting.

        If the note cannot be written, a worker that starts nevertheless is ended when time is up.
        """
        if not self.stopping:
            with suppress(OSError):
                folder.write_stop(self._stop_path, [worker.rank for worker in self.workers if worker.lost])
            self._stopped_ns = folder.age_ns(self._stop_path) or time.time_ns()

    def _reload(self) -> None:
        """Read the notes that an earlier controller and the workers left."""
        self._stopped_ns = folder.age_ns(self._stop_path)
        lost = folder.read_stop(self._stop_path)
        self._poll_all()
        for worker in self.workers:
            if worker.rank in lost and worker.exit_code is not None:
                worker.lost, worker.signaled = True, False

    def _watch(self) -> None:
        """Poll all, and name the first failure once all others have answered after it.

        A worker with an exit note has answered; a running one has if a failure was seen before this poll.
        """
        self._poll_all()
        failed = [worker for worker in self.workers if worker.failed]
        alive = [worker for worker in self.workers if worker.alive]
        answered = not alive or (self._failing and not any(worker.dying for worker in alive))
        if failed and answered and self.failed_rank is None and not self.broken:
            self.failed_rank = min(failed, key=lambda worker: worker.ended_ns).rank
        self._failing = bool(failed)

    def _poll_all(self) -> None:
        for worker in self.workers:
            self._poll(worker)

    def _poll(self, worker: Worker) -> None:
        """Poll a worker; if it ends after the stop note was written, or vanishes then, that is no loss."""
        lived = worker.exit_code is None
        worker.poll()
        ended = lived and worker.exit_code is not None
        if ended and self._stopped_ns is not None and (worker.lost or worker.ended_ns >= self._stopped_ns):
            worker.signaled, worker.lost = True, False

    @property
    def broken(self) -> bool:
        """Some worker was lost, or stopped from outside."""
        return any(worker.lost or (worker.stop_noted and not worker.signaled) for worker in self.workers)

    def _to_clear(self, worker: Worker, now: float) -> bool:
        """Say whether to look for leftovers: after the end, if those known have gone or time is up."""
        if worker.alive or worker.cleared or (worker.awaited and not self.stopping):
            return False
        worker.leftovers = [process for process in worker.leftovers if process_table.alive(process)]
        return not worker.leftovers or worker.kill_at <= now

    def _send_signal(self, workers: Collection[Worker], number: signal.Signals) -> None:
        seen = list(process_table.scan()) if workers else []
        for worker in workers:
            self._poll(worker)
            worker.send_signal(number, seen)


class JobSetup:
    """The set-up command of a job: a set of one worker, run for each new attempt until it succeeds."""

    def __init__(self, place: Path, marker: str) -> None:
        self.failed_for: int | None = None
        """The attempt that cannot begin because the set-up failed, or was stopped."""
        self._stem = place / "setup"
        self._marker = marker
        self._stop_path = place / "setup.stop"
        self._worker_set: WorkerSet | None = None
        self._attempt: int | None = None

    @property
    def present(self) -> bool:
        """It, or a process that it started, is alive."""
        return self._worker_set is not None and not self._worker_set.gone

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it has not."""
        return self._worker_set.workers[0].exit_code if self._worker_set else None

    @property
    def stopped(self) -> bool:
        """It was requested to stop, by anyone, or lost: so it has neither succeeded nor failed."""
        return self._worker_set is not None and self._worker_set.stopped

    def poll(self, now: float) -> None:
        """See whether it ended."""
        if self._worker_set:
            self._worker_set.poll(now)

    def stop(self, now: float) -> None:
        """Request it to end if it runs; it is run again when workers are ordered again."""
        if self._worker_set and not self._worker_set.stopping and self.exit_code is None:
            self._worker_set.stop(now)

    def left(self, grace_s: float) -> WorkerSet | None:
        """Return the set-up that an earlier controller began; None if it never did."""
        return self._formed(grace_s) if folder.read_process(self._stem) else None

    def adopt(self, grace_s: float, now: float) -> None:
        """Take charge of the set-up that an earlier controller began, unless we began one."""
        if self._worker_set is None:
            self._worker_set = self.left(grace_s)
            if self._worker_set and self._worker_set.stopping:
                self._worker_set.stop(now)

    def done(self, launch: Launch, variables: Mapping[str, str], attempt: int, now: float) -> bool:
        """Say whether it has succeeded; begin it if it does not run. Raises OSError if that fails."""
        if launch.spec.setup is None:
            return True
        self.adopt(launch.spec.grace_s, now)
        if self.exit_code == 0 and not self.stopped:
            return True
        if not self.present and self._attempt != attempt:
            self._begin(launch, launch.spec.setup, variables)
            self._attempt = attempt
        self.failed_for = None if self.present else attempt
        return False

    def _begin(self, launch: Launch, text: str, variables: Mapping[str, str]) -> None:
        for note in ("pid", "exit", "stop", "left"):
            Path(f"{self._stem}.{note}").unlink(missing_ok=True)
        worker_set = self._formed(launch.spec.grace_s)
        environ = {**variables, MARKER: self._marker}
        log = Path(f"{self._stem}.log")
        pid = spawn(self._stem, self._stop_path, log, launch.workdir, text, environ)
        worker_set.workers[0].began(pid)
        self._worker_set = worker_set

    def _formed(self, grace_s: float) -> WorkerSet:
        return WorkerSet(0, [Worker(0, "on-demand", self._marker, self._stem)], self._stop_path, grace_s)
