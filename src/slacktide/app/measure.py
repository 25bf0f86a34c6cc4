"""Measures how fast a job runs at several widths with real workers, and fits speedups to measurements.

A job runs for some minutes at each width, without touching its real checkpoints.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slacktide.app.jobs.submission import check_command, taken_over
from slacktide.backends.base import Backend, BackendPlace, BackendStatus
from slacktide.backends.local import Local
from slacktide.backends.workers.environment import machine_devices
from slacktide.budget.fit import fit_speedups
from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.files import write_whole
from slacktide.core.types import Order
from slacktide.core.units import format_count, format_duration
from slacktide.core.yaml_tree import read_text
from slacktide.engine.job.launch_spec import launch_of, secrets_of
from slacktide.files.job import JobFile, read_job_file
from slacktide.files.measured import RowSelection, read_measured
from slacktide.files.rewrite import with_keys
from slacktide.report.text.tables.speedups import Study
from slacktide.results.measured import LEAST_REPORTS, Measurement, Report, WidthMeasured, measured_at

POLL_S = 0.02
FIRST_REPORT_S = 600.0
"""How long workers may take until they first report, on top of the minutes that are measured."""
CHECKPOINT_METRIC = "checkpoint_seconds"  # what `slacktide.worker` calls the time that a checkpoint took
POOL = "here"
LAST_LINES = 5


class Interrupted(SlacktideError):
    """Measuring was stopped by the user; all workers are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """A job file to be measured."""

    path: str
    widths: tuple[int, ...] = ()  # empty: the smallest, twice that, and so on, up to the file's largest
    hours: float = 5 / 60  # how long at each width, by the wall clock
    speed: float = 1.0  # how many times as fast as real time the job file's hours pass


def measure(
    request: MeasureRequest, report: Callable[[str], None], stopping: Callable[[], bool]
) -> Measurement:
    """Run a job at each width for a while and sum up what it reported; its own checkpoints are not touched.

    Each width starts from the checkpoint that the width before it left, as after a change of workers. Raises
    InputError when the job cannot be measured, SlacktideError when it fails, Interrupted on `stopping`.
    """
    file = read_job_file(request.path)
    widths = _widths(file, request.widths)
    with tempfile.TemporaryDirectory(prefix="slacktide-measure-") as folder:
        trial = Trial(file, Path(folder), request, stopping)
        try:
            found = [trial.run(width, report) for width in widths]
        finally:
            trial.end()
    return Measurement(file.job.name, tuple(found), len(machine_devices(os.environ)))


def write_measured(path: str, values: Mapping[str, str]) -> None:
    """Change keys of a job file, and nothing else of it; raises FileError."""
    write_whole(path, with_keys(read_text(path), values, path).encode("utf-8"))


def _widths(file: JobFile, wanted: tuple[int, ...]) -> tuple[int, ...]:
    allowed = file.job.widths
    if len(file.job.parts) > 1:
        raise InputError(f"{file.path}: a job must have one phase to be measured, got {len(file.job.parts)}")
    check_command(file)
    doubled = [width for width in (allowed[0] << power for power in range(13)) if width in allowed]
    for width in wanted:
        if width not in allowed:
            must = f"widths must be some of the job file's ({allowed[0]} to {allowed[-1]})"
            raise InputError(f"{must}, got {width}; change 'accelerators' or --widths")
    return tuple(sorted(set(wanted))) or tuple(doubled)


class Trial:
    """A job in a folder of its own, run at one width after another."""

    def __init__(
        self, file: JobFile, folder: Path, request: MeasureRequest, stopping: Callable[[], bool]
    ) -> None:
        self._file, self._request, self._stopping = file, request, stopping
        self._kept = taken_over(file.envs)
        place = BackendPlace(
            folder=folder,
            owner=secrets.token_hex(8),
            now_hours=lambda: time.monotonic() / 3600.0,
            secrets=lambda job: secrets_of(file, self._kept),
        )
        self._local: Backend = Local(place)
        self._attempt, self._lives = 0, 0
        self._safe_share = 0.0
        self._job = ""

    def run(self, width: int, report: Callable[[str], None]) -> WidthMeasured:
        """Run at a width for the requested time, then stop; raises InputError for too few reports."""
        if not self._job:  # enter a new trial job, without the checkpoints of the job's real runs
            self._lives += 1
            self._job, self._safe_share = f"{self._file.job.name}-{self._lives}", 0.0
            spec = launch_of(self._job, self._file)
            self._local.enter(replace(spec, checkpoint_dir=None, checkpoint_url=None))
        self._attempt += 1
        self._local.hold(Order(self._job, self._attempt, POOL, 0, width))
        reports = self._watch(width)
        facts = self.end()
        if len(reports) < LEAST_REPORTS:
            minutes = format_duration(self._request.hours)
            remedy = "report more often" if reports else "report progress, for instance with slacktide.worker"
            raise InputError(
                f"a job must report growing progress at least {LEAST_REPORTS} times at each width, got "
                f"{len(reports)} in {minutes} on {format_count(width, 'GPU')}; {remedy}, "
                "or give more --minutes"
            )
        begun = self._safe_share if reports[0].done_share > self._safe_share else 0.0
        self._safe_share = facts.progress.checkpointed_share if facts.progress else 0.0
        if facts.progress and facts.progress.done_share >= 1.0:
            self._job = ""  # all its work is done: the next width starts from zero
        took_s = facts.metrics.get(CHECKPOINT_METRIC)
        took = None if took_s is None else took_s * self._request.speed / 3600.0
        measured = measured_at(width, reports, begun, took)
        gpus, rate = format_count(width, "GPU"), measured.pace.share_per_hour
        report(f"{gpus}: {measured.reports} reports, {rate:.3g} of the work an hour")
        return measured

    def end(self) -> BackendStatus:
        """Stop all workers, wait until they are gone, and return the last facts about the job."""
        if not (self._attempt and self._job):
            return BackendStatus()
        self._local.hold(Order(self._job, self._attempt, POOL, 0, 0, ending=True))
        while not (facts := self._look()).gone:
            time.sleep(POLL_S)
        return facts

    def _watch(self, width: int) -> list[Report]:
        """Collect reports until they span the requested time, the job is over, or waiting took too long."""
        reports: list[Report] = []
        give_up = time.monotonic() + FIRST_REPORT_S + self._request.hours * 3600.0
        while True:
            facts = self._look()
            self._check(facts, width)
            reports += self._news(facts, reports)
            if facts.finished or facts.stopped:
                return reports
            seen = reports[-1].hours - reports[0].hours if reports else 0.0
            if seen >= self._request.hours * self._request.speed or time.monotonic() > give_up:
                return reports
            time.sleep(POLL_S)

    def _news(self, facts: BackendStatus, before: list[Report]) -> Iterator[Report]:
        """Yield the newest report, if it is from these workers and shows more progress than the last one."""
        progress = facts.progress
        if progress is None or progress.at_hours < facts.since_hours or facts.attempt != self._attempt:
            return
        # The first report of an attempt says where it starts from, not what it has done.
        least = before[-1].done_share if before else self._safe_share
        if progress.done_share > least or (not before and progress.done_share < self._safe_share):
            hours = (progress.at_hours - facts.since_hours) * self._request.speed
            yield Report(hours, progress.done_share)

    def _check(self, facts: BackendStatus, width: int) -> None:
        if self._stopping():
            raise Interrupted("measuring was stopped")
        if facts.trouble:
            raise SlacktideError(facts.trouble)
        if facts.failure is not None:
            failure = facts.failure
            what = failure.what or f"rank {failure.rank} exited with {failure.exit_code}"
            raise SlacktideError(
                f"the job must run on {format_count(width, 'GPU')} to be measured, got: {what}"
                f"{self._last_output(failure.rank)}"
            )

    def _last_output(self, rank: int) -> str:
        logs = self._local.logs(self._job)
        own = [log for log in logs if (log.attempt, log.rank) == (self._attempt, rank)]
        lines = [line.decode(errors="replace").rstrip() for log in own for line in log.read(0)][-LAST_LINES:]
        return "; its last output:\n" + "\n".join(lines) if lines else ""

    def _look(self) -> BackendStatus:
        return self._local.look([self._job])[self._job]


def fit_measured(
    path: str, *, where: Mapping[str, str], group: tuple[str, ...], rate: str | None, time: str | None
) -> tuple[list[Study], list[str]]:
    """Fit speedups to every series of a table; return also the names of series with only one width.

    The other arguments are those of a `RowSelection`. Raises InputError where no series has two widths, and
    FileError.
    """
    if rate is not None and time is not None:
        raise InputError("only one of --rate and --time may be given, got both")
    found = read_measured(path, RowSelection(where=where, group=group, rate=rate, time=time))
    studies = [
        Study({**where, **series.group}, series.points, fit_speedups(series.points))
        for series in found
        if len(series.points) > 1
    ]
    if not studies:
        raise InputError(f"{path}: at least two widths must be measured to fit a speedup, got one")
    return studies, [", ".join(series.group.values()) for series in found if len(series.points) <= 1]
