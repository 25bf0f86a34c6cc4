"""Runs the engine in a thread of the server: a controller, the only writer of decisions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.jobs.controller import Controller, Setup
from slacktide.core.errors import BackendError
from slacktide.report.live.lines import EventLines
from slacktide.service.metrics import STEP_BOUNDS_S, Histogram

LATE_S = 30.0
"""An engine that has not stepped for this long counts as unhealthy; compiling a policy takes less."""


class Runner:
    """Runs a controller in a thread until `stop` is called."""

    def __init__(self, journal: Path, setup: Setup, say: Callable[[str], None]) -> None:
        self._journal, self._setup, self._say = journal, setup, say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self.ready, self.done = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        """What ended it, unless `stop` did."""
        self.steps, self.stepped_s = 0, 0.0
        """Steps so far, and when the last one ended, by the monotonic clock."""
        self.gaps = Histogram(
            "slacktide_engine_step_gap_seconds", "Time between two steps of the engine.", STEP_BOUNDS_S
        )
        self.now_hours: Callable[[], float] = lambda: 0.0
        self.hooks: Callable[[], list[HookStatus]] = list
        """Reports the state of hooks for alerts."""
        self.left: tuple[str, ...] = ()
        """Jobs that had not ended when it stopped."""

    def start(self) -> None:
        """Start the engine, and return when it is in charge; raises what keeps it from being so."""
        self._thread.start()
        while not (self.ready.wait(0.05) or self.done.is_set()):
            pass
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Have it release everything; `done` is set once that is finished."""
        self._stop.set()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    @property
    def is_well(self) -> bool:
        """Whether it stepped lately."""
        return not self.done.is_set() and time.monotonic() - self.stepped_s < LATE_S

    def _run(self) -> None:
        try:
            with Controller(self._journal, self._setup) as running:
                self.now_hours, self.stepped_s = running.clock.hours, time.monotonic()
                self.hooks = running.hooks
                event_lines, seq = EventLines(named=True), running.opened_seq
                for job, began in running.began().items():
                    event_lines.know(job, began)

                def show(now_hours: float) -> None:
                    nonlocal seq
                    self._stepped()
                    for record in running.news(seq):
                        seq = record.seq
                        if line := event_lines.news(record.event):
                            self._say(line)

                self.ready.set()
                running.run(
                    staying=True, show=show, stopping=self._stop.is_set,
                    complain=self._complain, report=self._say,
                )  # fmt: skip
                self.left = tuple(running.journal.unfinished())
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def _stepped(self) -> None:
        now = time.monotonic()
        if self.steps:
            self.gaps.add(now - self.stepped_s)
        self.steps, self.stepped_s = self.steps + 1, now

    def _complain(self, error: BackendError) -> None:
        self._say(f"problem, retrying: {error}")


def is_writable(folder: Path) -> bool:
    """Whether the disk of a folder can be written."""
    probe = folder / f".slacktide-probe-{os.getpid()}"
    try:
        probe.write_bytes(b"1")
        probe.unlink()
    except OSError:
        return False
    return True
