"""The set-up of a job: one command that has to succeed once before the first worker is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slacktide.backends.processes.process_table import MARKER
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.launch import Launch
from slacktide.backends.workers.supervisor import spawn
from slacktide.backends.workers.worker import Worker
from slacktide.backends.workers.worker_set import WorkerSet


class JobSetup:
    """A set of one worker, run again for each new attempt until it succeeds."""

    def __init__(self, place: Path, marker: str) -> None:
        self.failed_for: int | None = None
        """The attempt that cannot begin because the set-up failed, or was stopped."""
        self._stem = place / "setup"
        self._marker = marker
        self._stop_path = place / "setup.stop"
        self._worker_set: WorkerSet | None = None
        self._attempt: int | None = None

    @property
    def log(self) -> Path:
        """Where its output is."""
        return Path(f"{self._stem}.log")

    @property
    def present(self) -> bool:
        """It runs, or something that it started."""
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
        """Request it to end if it runs; it is run again when workers are wanted again."""
        if self._worker_set and not self._worker_set.stopping and self.exit_code is None:
            self._worker_set.stop(now)

    def left(self, grace_s: float) -> WorkerSet | None:
        """Return what an earlier controller began; None when it never did."""
        return self._formed(grace_s) if folder.read_process(self._stem) else None

    def adopt(self, grace_s: float, now: float) -> None:
        """Take charge of what an earlier controller began, unless there is one of ours."""
        if self._worker_set is None:
            self._worker_set = self.left(grace_s)
            if self._worker_set and self._worker_set.stopping:
                self._worker_set.stop(now)

    def done(self, launch: Launch, variables: Mapping[str, str], attempt: int, now: float) -> bool:
        """Say whether it has succeeded; begin it if it does not run. Raises OSError if that fails."""
        if launch.setup is None:
            return True
        self.adopt(launch.grace_s, now)
        if self.exit_code == 0 and not self.stopped:
            return True
        if not self.present and self._attempt != attempt:
            self._begin(launch, launch.setup, variables)
            self._attempt = attempt
        self.failed_for = None if self.present else attempt
        return False

    def _begin(self, launch: Launch, text: str, variables: Mapping[str, str]) -> None:
        for note in ("pid", "exit", "stop", "left"):
            Path(f"{self._stem}.{note}").unlink(missing_ok=True)
        worker_set = self._formed(launch.grace_s)
        environ = {**variables, MARKER: self._marker}
        pid = spawn(self._stem, self._stop_path, self.log, launch.workdir, text, environ)
        worker_set.workers[0].began(pid)
        self._worker_set = worker_set

    def _formed(self, grace_s: float) -> WorkerSet:
        return WorkerSet(0, [Worker(0, "on-demand", self._marker, self._stem)], self._stop_path, grace_s)
