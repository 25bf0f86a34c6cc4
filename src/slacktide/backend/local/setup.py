"""The set-up of a job: one command that has to succeed once before the first worker is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slacktide.backend.local import folder
from slacktide.backend.local.band import Band
from slacktide.backend.local.launch import Launch
from slacktide.backend.local.machine import MARKER
from slacktide.backend.local.supervisor import spawn
from slacktide.backend.local.worker import Worker


class Setup:
    """A band of one, run again for each new attempt until it succeeds."""

    def __init__(self, place: Path, marker: str) -> None:
        self.failed_for: int | None = None
        """The attempt that cannot begin because the set-up failed, or was stopped."""
        self._stem = place / "setup"
        self._marker = marker
        self._stop_path = place / "setup.stop"
        self._band: Band | None = None
        self._attempt: int | None = None

    @property
    def log(self) -> Path:
        """Where its output is."""
        return Path(f"{self._stem}.log")

    @property
    def present(self) -> bool:
        """It runs, or something that it started."""
        return self._band is not None and not self._band.gone

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it has not."""
        return self._band.workers[0].exit_code if self._band else None

    @property
    def stopped(self) -> bool:
        """It was told to stop, by whoever, or lost: however it ended, it has not succeeded, nor failed."""
        return self._band is not None and self._band.stopped

    def poll(self, now: float) -> None:
        """See whether it ended."""
        if self._band:
            self._band.poll(now)

    def stop(self, now: float) -> None:
        """Tell it to end if it runs; it is run again when workers are wanted again."""
        if self._band and not self._band.stopping and self.exit_code is None:
            self._band.stop(now)

    def left(self, grace_s: float) -> Band | None:
        """Return what an earlier controller began; None when it never did."""
        return self._formed(grace_s) if folder.read_process(self._stem) else None

    def adopt(self, grace_s: float, now: float) -> None:
        """Take charge of what an earlier controller began, unless there is one of ours."""
        if self._band is None:
            self._band = self.left(grace_s)
            if self._band and self._band.stopping:
                self._band.stop(now)

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
        band = self._formed(launch.grace_s)
        environ = {**variables, MARKER: self._marker}
        pid = spawn(self._stem, self._stop_path, self.log, launch.workdir, text, environ)
        band.workers[0].began(pid)
        self._band = band

    def _formed(self, grace_s: float) -> Band:
        return Band(0, [Worker(0, "on-demand", self._marker, self._stem)], self._stop_path, grace_s)
