"""A folder in which real jobs run under real controllers, with all that it takes to hurt and judge them."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from campaigns.finding import Finding
from campaigns.stage import processes, told
from campaigns.stage.commands import Command, Nursery, Said, tail
from campaigns.stage.market import REHEARSAL, SLOTS, Offer, Pace, write_market
from campaigns.stage.record import Record, checkpoint
from campaigns.waiting import Slowness, wait_until

DEADLINE_HOURS = 900.0
"""Far away, in hours of a rehearsal: these campaigns are not about being in time."""
WORK_GPU_HOURS = 100.0
WORKER = Path(__file__).with_name("worker.py")

JOB = """\
name: {name}
run: |
  read up rest </proc/uptime
  printf '%s\\n' "$SLACKTIDE_ATTEMPT $RANK $SLACKTIDE_CAPACITY_TYPE $$ $up" >>{record}/starts
  alive={record}/alive-$SLACKTIDE_ATTEMPT-$RANK-$$
  exec {python} -S -E {worker} {units} {tick_s} {told_code} {record}/diary "$alive"
resources: {{accelerators: "H100:1..{gpus}"}}
work: {work:.9f} gpu-hours
deadline: {deadline:.3f}h
restart: {restart:.3f}s
checkpoint: {{dir: {checkpoints}, every: {every:.3f}s, grace: {grace}}}
retries: {{failures: 1000}}
policy: {policy}
billing: {billing}
market: {market}
"""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A job to be run."""

    name: str
    units: int = 400
    """At 100 a second and GPU."""
    tick_s: float = 0.01
    told_code: int = 0
    """What its workers exit with when they were told to stop: 0 tempts whoever judges by exit codes."""
    gpus: int = 3
    policy: str = "maximal-spot"
    billing: str = "second"
    grace: str = "3s"
    more: str = ""
    """Further lines of the job file."""


class Arena:
    """A journal, its market, its jobs, and whoever is in charge."""

    def __init__(
        self,
        folder: Path,
        offers: Sequence[Offer] = (Offer(),),
        env: Mapping[str, str] | None = None,
        pace: Pace = REHEARSAL,
    ) -> None:
        """Lay out a folder; the market offers these, over and over."""
        self.folder, self.journal = folder, folder / "journal.db"
        self.market = folder / "market.csv"
        self.market_name = str(self.market)
        self.pace = pace
        self.tasks: dict[str, Task] = {}
        self.controller: Command | None = None
        self.slowness = Slowness()
        self._env, self._stack = dict(env or {}), ExitStack()
        self.offer(offers)

    def __enter__(self) -> Self:
        self.nursery = self._stack.enter_context(
            Nursery(self.folder, {"SLACKTIDE_HOME": str(self.folder / "home"), **self._env})
        )
        self._stack.enter_context(self.slowness)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.controller is not None:
            self.controller.kill()
        processes.end_all(self.folder)
        self._stack.close()

    def offer(self, offers: Sequence[Offer], slots: int = SLOTS) -> None:
        """Let the market offer these, over and over."""
        write_market(self.market, offers, self.pace, slots)

    @property
    def work_gpu_hours(self) -> float:
        """The work of every job."""
        return WORK_GPU_HOURS * self.pace.scale

    # ---------------------------------------------------------------- jobs

    def write(self, task: Task) -> Path:
        """Write the file of a job and the folder of its record; return the file."""
        record = self.record(task.name).folder
        record.mkdir(parents=True)
        path = self.folder / f"{task.name}.yaml"
        text = JOB.format(
            name=task.name, record=shlex.quote(str(record)), python=shlex.quote(sys.executable),
            worker=shlex.quote(str(WORKER)), units=task.units, tick_s=task.tick_s, told_code=task.told_code,
            gpus=task.gpus, work=self.work_gpu_hours,
            deadline=DEADLINE_HOURS * self.pace.scale, restart=360 * self.pace.scale,
            every=180 * self.pace.scale,
            checkpoints=self.checkpoints(task.name), grace=task.grace, policy=task.policy,
            billing=task.billing, market=self.market_name,
        )  # fmt: skip
        path.write_text(text + task.more, encoding="utf-8")
        self.tasks[task.name] = task
        return path

    def submit(self, task: Task) -> None:
        """Hand a job in; whoever is in charge, or will be, takes it in."""
        said = self.nursery.run("submit", str(self.write(task)), "--no-wait", "--journal", str(self.journal))
        if said.code != 0:
            raise Finding(f"submit of {task.name} exited with {said.code}: {tail(said.err)}")

    def record(self, job: str) -> Record:
        """Return what the workers of a job wrote down."""
        return Record(self.folder / "record" / job)

    def checkpoints(self, job: str) -> Path:
        """Return the folder of a job's checkpoints."""
        return self.folder / "checkpoints" / job

    def workers(self, job: str | None = None) -> list[processes.Process]:
        """Return the living processes of a job, or of all."""
        found = processes.workers(self.folder)
        return [one for one in found if job is None or one.job == job]

    def statuses(self) -> dict[str, str]:
        """Return how jobs ended, by the journal; an empty text for one that has not."""
        return told.statuses(self.journal)

    def unended(self) -> list[str]:
        """Return the jobs that were submitted and have not ended."""
        ended = self.statuses()
        return [job for job in self.tasks if not ended.get(job)]

    # ---------------------------------------------------------------- controllers

    def take_charge(
        self, *more: str, env: Mapping[str, str] | None = None, die_at: int = 0, before: bool = False
    ) -> Command:
        """Start a controller."""
        start = [] if self.is_feed else ["--start", "0"]
        argv = [
            "controller",
            "--journal",
            str(self.journal),
            "--speed",
            f"{self.pace.speed:g}",
            *start,
            *more,
        ]
        self.controller = self.nursery.start(*argv, env=env, die_at=die_at, before=before)
        return self.controller

    @property
    def is_feed(self) -> bool:
        """Whether the market is one that is still being written."""
        return self.market_name != str(self.market)

    def prices(self) -> list[told.Price] | None:
        """Return the market's prices by slot; None for a feed, of which the journal knows what was used."""
        return None if self.is_feed else told.market(self.market)

    def in_charge(self) -> Command:
        """Return the controller, which must be there: one that ended by itself is a finding."""
        assert self.controller is not None
        if self.controller.code is not None:
            said = self.controller.err.strip() or self.controller.out
            raise Finding(f"a controller ended by itself with {self.controller.code}: {tail(said)}")
        return self.controller

    def let_go(self, number: signal.Signals = signal.SIGTERM) -> Said:
        """Ask the controller to stop, and see it gone."""
        controller = self.in_charge()
        wait_until(lambda: self._opened(controller), "a controller to start")
        controller.signal(number)
        said = controller.wait("a controller that was asked to stop")
        self.controller = None
        return said

    def _opened(self, controller: Command) -> bool:
        """Whether a controller has come so far that it hears signals, or has ended."""
        opened = told.rows(self.journal, "Opened")
        return controller.code is not None or any(row.data["pid"] == controller.pid for row in opened)

    def wait_for_workers(self, job: str | None = None, fewest: int = 1) -> None:
        """Wait until workers of a job have begun to work, watched by a controller."""

        def there() -> bool:
            self.in_charge()
            return sum(not one.supervisor for one in self.workers(job)) >= fewest

        wait_until(there, f"workers of {job or 'any job'}")

    def wait_for_progress(self, job: str, units: int = 1) -> None:
        """Wait until a job has saved some work."""

        def saved() -> bool:
            self.in_charge()
            self._see_none_refused()
            return checkpoint(self.checkpoints(job))[0] >= units

        wait_until(saved, f"{units} units of {job}")

    def wait_for_end(self, *jobs: str) -> None:
        """Wait until jobs have ended, all unless some are named, while somebody is in charge."""

        def over() -> bool:
            self.in_charge()
            self._see_none_refused()
            ended = self.statuses()
            return all(ended.get(job) for job in jobs or self.tasks)

        wait_until(over, f"the end of {', '.join(jobs or self.unended())}")

    def _see_none_refused(self) -> None:
        for row in told.rows(self.journal, "SubmissionRefused"):
            raise Finding(f"a submission was refused: {row.data['why']}")
