"""The base of back ends that start a worker per GPU: it turns orders into workers and their state into facts.

Grace and notice are seconds of the wall clock, however fast the market's clock runs, because processes do not
run faster with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from slacktide.backends.base import BackendPlace, BackendStatus, JobProgress, LaunchSpec, Log, WorkerFailure
from slacktide.backends.workers.job_table import JobTable
from slacktide.backends.workers.launch import STRAY_GRACE_S, Launch, ProcessStatus
from slacktide.core import machine_clock as boot
from slacktide.core.errors import BackendError, InputError
from slacktide.core.types import Order
from slacktide.journal.events import Capacity

SPOT: Capacity = "spot"
ON_DEMAND: Capacity = "on-demand"
NOT_FOUND = (126, 127)  # a shell's exit codes for a command that does not exist or may not be run
SLACK_S = 0.5  # added to the grace where a stop must be over in time: signals and looks take time too


@dataclass(slots=True)
class WorkerBackend:
    """A back end that starts workers; subclasses decide where, by their `workers`."""

    place: BackendPlace
    now_s: Callable[[], float] = field(init=False, default=time.monotonic)
    """Reads the monotonic clock by which workers are started."""
    workers: JobTable[Any] = field(init=False)
    _grace_s: dict[str, float] = field(default_factory=dict, init=False)
    _orders: dict[str, Order] = field(default_factory=dict, init=False)
    _times: dict[tuple[str, str], tuple[object, float]] = field(default_factory=dict, init=False)
    """By event and job: which attempt it happened to, and when on the market's clock."""

    def hold_workers(self, order: Order, kinds: tuple[Capacity, ...], not_before: float) -> None:
        """Order workers of these kinds, rank by rank, to be started no earlier than `not_before`."""
        self.workers.hold(order.job, order.attempt, kinds, not_before, pool=order.pool)

    def enter(self, launch: LaunchSpec) -> None:
        """Register a job; raises InputError when it has no command or its folders cannot be used.

        Workers of a refused job that already run are still watched.
        """
        self._grace_s[launch.job] = launch.grace_s
        try:
            self.workers.register(self.launch_of(launch))
        except (InputError, BackendError) as error:
            self.workers.refuse(launch.job, str(error))
            raise

    def hold(self, order: Order) -> None:
        """Order exactly these workers; a new attempt stops the old ones first, an older one is ignored."""
        if order.attempt < max(1, self._orders.get(order.job, order).attempt):
            return  # before the first attempt there is nothing to stop either
        self._orders[order.job] = order
        kinds: tuple[Capacity, ...] = ()
        if not order.ending and self.place.now_hours() < order.until_hours:
            # On-demand workers get the low ranks: rank 0 often does more, and they are not taken away.
            kinds = (*repeat(ON_DEMAND, order.on_demand_gpus), *repeat(SPOT, order.spot_gpus))
        self.hold_workers(order, kinds, self.now_s() + order.delay_s)

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        """Advance starts and stops, end orders whose time is over, and return what workers reported."""
        for order in self._orders.values():
            if self.place.now_hours() >= order.until_hours:
                self.hold(order)
        self.workers.tick()
        return {job: self._facts(job, self.workers.look(job)) for job in jobs}

    def take(self, job: str, spot_left: int, notice_s: float) -> None:
        """Kill spot workers, after the notice if there is one."""
        self.workers.take(job, spot_left, notice_s)

    def stop_hours(self, job: str) -> float:
        """Return the grace period in hours of the market's clock."""
        return self._hours(self._grace_s.get(job, STRAY_GRACE_S) + SLACK_S)

    def logs(self, job: str) -> Sequence[Log]:
        """Return what the set-up and the workers of a job printed."""
        return self.workers.logs(job)

    def sweep(self, orders: Sequence[Order]) -> None:
        """Adopt the workers of these orders and end all others of this journal."""
        self.workers.sweep({order.job: order.attempt for order in orders})

    def close(self) -> None:
        """End the processes that copy checkpoints; workers keep running without their controller."""
        self.workers.close()

    def launch_of(self, launch: LaunchSpec) -> Launch:
        """Return how to start the job's workers; raises InputError where that is impossible."""
        if not launch.run:
            raise InputError(
                f"job {launch.job!r} must have a command, got no 'run'; write 'run: python train.py'"
            )
        values = self.place.secrets(launch.job) if launch.secrets else {}
        own = self.place.folder / launch.job / "checkpoints"
        elsewhere = launch.checkpoint_dir is not None or launch.checkpoint_url is not None
        if launch.worked and not elsewhere and not own.parent.exists():
            raise InputError(
                f"{own.parent}: the folder with the checkpoints of job {launch.job!r} must exist, found "
                "none; put it back, make an empty one to start over, or cancel the job"
            )
        return Launch(
            spec=launch,
            workdir=Path(launch.workdir),
            checkpoint_dir=own if launch.checkpoint_dir is None else Path(launch.checkpoint_dir),
            secrets={name: values[name] for name in launch.secrets},
        )

    def _facts(self, job: str, seen: ProcessStatus) -> BackendStatus:
        order = self._orders.get(job)
        is_ordered = order is not None and seen.attempt == order.attempt
        wanted, before_s = 0 if order is None or order.ending else order.gpus, seen.before_gone_s
        return BackendStatus(
            attempt=seen.attempt,
            pool=None if order is None else order.pool,
            spot_gpus=seen.spot_gpus,
            on_demand_gpus=seen.on_demand_gpus,
            pending_gpus=seen.pending_gpus,
            taken_spot_gpus=seen.lost_spot_gpus,
            progress=self._progress(seen),
            finished=seen.finished,
            failure=failure_of(seen) if is_ordered and wanted else None,
            metrics=seen.metrics,
            silent_s=seen.silent_s if is_ordered and seen.phase == "running" else 0.0,
            gone=seen.gone,
            lost_on_demand_gpus=seen.lost_on_demand_gpus,
            stopped=seen.stopped,
            since_hours=self._since_hours(job, seen),
            until_hours=self._until_hours(job, seen),
            before_until_hours=math.inf if before_s is None else self._gone_hours(before_s),
            newest_attempt=seen.newest_attempt,
            trouble=seen.trouble,
            reform_hours=self._reform_hours(seen),
            notice_hours=None if seen.notice_s is None else self._hours(seen.notice_s),
        )

    def _hours(self, seconds: float) -> float:
        """Convert seconds of the wall clock to hours of the market's clock."""
        return seconds * self.place.speed / 3600.0

    def _when(self, ago_s: float) -> float:
        """Return the market's time this many seconds ago."""
        return self.place.now_hours() - self._hours(ago_s)

    def _gone_hours(self, gone_s: float) -> float:
        """Convert a time of the machine's own clock, perhaps slightly ahead, to the market's clock."""
        return self._when(max(0.0, boot.seconds() - gone_s))

    def _reform_hours(self, seen: ProcessStatus) -> float:
        """Return when workers that were kept received their places, on the market's clock."""
        if seen.reforming:
            return math.inf
        return self._when(math.inf if seen.places_sent_s is None else seen.places_sent_s)

    def _since_hours(self, job: str, seen: ProcessStatus) -> float:
        if seen.began_s is None:
            return math.inf
        return self._found_first(("began", job), seen.attempt, self._when(max(0.0, seen.began_s)))

    def _until_hours(self, job: str, seen: ProcessStatus) -> float:
        if seen.gone_s is None:
            return math.inf
        about = seen.attempt, seen.gone_s
        return self._found_first(("gone", job), about, self._gone_hours(seen.gone_s))

    def _found_first(self, key: tuple[str, str], about: object, hours: float) -> float:
        """Return the time that was first computed for an event, so that every look reports the same."""
        if key not in self._times or self._times[key][0] != about:
            self._times[key] = about, hours
        return self._times[key][1]

    def _progress(self, seen: ProcessStatus) -> JobProgress | None:
        if seen.reported_s is None:
            return None
        at_hours = self._when(seen.reported_s) if seen.own_report else -math.inf
        return JobProgress(seen.done_share, seen.checkpointed_share, at_hours, seen.saved)


def failure_of(seen: ProcessStatus) -> WorkerFailure | None:
    """Return how a job failed by itself, if it has."""
    if seen.setup_exit not in (None, 0):
        return WorkerFailure(0, int(seen.setup_exit or 0), True, f"the setup exited with {seen.setup_exit}")
    if seen.unfinished:
        reported = f"it last reported {seen.done_share:.6g} done; report 1 at the end"
        return WorkerFailure(0, 0, what=f"exited with 0 before its work was done: {reported}")
    rank, code = seen.failed_rank, seen.failed_code
    if rank is None or code is None:
        return None
    if code in NOT_FOUND:
        return WorkerFailure(rank, code, True, f"the command was not found or cannot be run (exit {code})")
    return WorkerFailure(rank, code)
