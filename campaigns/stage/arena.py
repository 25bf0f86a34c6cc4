"""A folder in which real jobs run under real controllers, with all that it takes to hurt and judge them."""

from __future__ import annotations

import random
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from campaigns.finding import Finding
from campaigns.stage import processes, told
from campaigns.stage.commands import Command, Nursery, Said, tail
from campaigns.stage.record import Record, checkpoint
from campaigns.waiting import Slowness, wait_until

SPEED = 1800.0
"""The market's clock runs so many times as fast as the wall's: a slot of half an hour is over in a second."""
SLOT_HOURS = 0.5
SLOTS = 4000
DEADLINE_HOURS = 900.0
"""Far away: these campaigns are not about being in time."""
WORK_GPU_HOURS = 100.0
HEAD = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
WORKER = Path(__file__).with_name("worker.py")

JOB = """\
name: {name}
run: |
  read up rest </proc/uptime
  printf '%s\\n' "$SLACKTIDE_ATTEMPT $RANK $SLACKTIDE_CAPACITY_TYPE $$ $up" >>{record}/starts
  alive={record}/alive-$SLACKTIDE_ATTEMPT-$RANK-$$
  exec {python} -S -E {worker} {units} {tick_s} {told_code} {record}/diary "$alive"
resources: {{accelerators: "H100:1..{gpus}"}}
work: {work} gpu-hours
deadline: {deadline}h
restart: 6m
checkpoint: {{dir: {checkpoints}, every: 3m, grace: {grace}}}
retries: {{failures: 1000}}
policy: {policy}
billing: {billing}
market: {market}
"""


class Offer(NamedTuple):
    """What the market offers in one slot."""

    spot_gpus: int = 3
    spot_usd: float = 2.0
    on_demand_usd: float = 10.0


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
        self, folder: Path, offers: Sequence[Offer] = (Offer(),), env: Mapping[str, str] | None = None
    ) -> None:
        """Lay out a folder; the market offers these, over and over."""
        self.folder, self.journal = folder, folder / "journal.db"
        self.market = folder / "market.csv"
        self.market_name = str(self.market)
        self.speed = SPEED
        self.tasks: dict[str, Task] = {}
        self.controller: Command | None = None
        self.slowness = Slowness()
        self._env, self._stack = dict(env or {}), ExitStack()
        write_market(self.market, offers, SLOTS)

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

    # ---------------------------------------------------------------- jobs

    def write(self, task: Task) -> Path:
        """Write the file of a job and the folder of its record; return the file."""
        record = self.record(task.name).folder
        record.mkdir(parents=True)
        path = self.folder / f"{task.name}.yaml"
        text = JOB.format(
            name=task.name, record=shlex.quote(str(record)), python=shlex.quote(sys.executable),
            worker=shlex.quote(str(WORKER)), units=task.units, tick_s=task.tick_s, told_code=task.told_code,
            gpus=task.gpus, work=WORK_GPU_HOURS, deadline=DEADLINE_HOURS,
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
        """Return the jobs that were handed in and have not ended."""
        ended = self.statuses()
        return [job for job in self.tasks if not ended.get(job)]

    # ---------------------------------------------------------------- controllers

    def take_charge(
        self, *more: str, env: Mapping[str, str] | None = None, die_at: int = 0, before: bool = False
    ) -> Command:
        """Start a controller."""
        start = [] if self.is_feed else ["--start", "0"]
        argv = ["controller", "--journal", str(self.journal), "--speed", f"{self.speed:g}", *start, *more]
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
        wait_until(lambda: self._opened(controller), "a controller to take charge")
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


def write_market(path: Path, offers: Sequence[Offer], slots: int) -> None:
    """Write a market of half-hour slots that offers the same things over and over."""
    path.write_text("\n".join([HEAD, *market_rows(offers, slots), ""]), encoding="utf-8")


def market_rows(offers: Sequence[Offer], slots: int) -> list[str]:
    """Return the rows of such a market."""
    times = (BEGIN + timedelta(hours=SLOT_HOURS * slot) for slot in range(slots))
    return [
        f"{time.isoformat()},zone,{','.join(map(str, offers[n % len(offers)]))}"
        for n, time in enumerate(times)
    ]


def random_offers(rng: random.Random, count: int = 12) -> list[Offer]:
    """Draw a market that gives, takes and changes its prices."""
    return [
        Offer(rng.choice([0, 1, 2, 3, 5, 8]), round(rng.uniform(0.5, 4.0), 2), round(rng.uniform(6, 12), 2))
        for _ in range(count)
    ]
