"""The workers of many jobs on many machines: placed, started, watched, stopped, and found again.

What machines receive is written down before it is sent, and a message always says all that is to run, so if
the controller dies the next one reads what was written and sends it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

from slacktide.backends.base import PoolRoom
from slacktide.backends.machines.agent.messages import (
    AgentAnswer,
    AgentMessage,
    AgentTask,
    LaunchPack,
    Link,
    LogName,
    LogPart,
)
from slacktide.backends.machines.exchange import KnownMachine, KnownMachines, MessageLoop
from slacktide.backends.machines.launch_package import packed
from slacktide.backends.machines.machine_set import (
    FreeGpus,
    GpuSeat,
    MachinePart,
    MachineSet,
    fits,
    missing,
    place,
)
from slacktide.backends.machines.remote_job import WAIT_S, Packing, RemoteJob
from slacktide.backends.machines.status_report import status_of
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.job_table import JobTable
from slacktide.backends.workers.launch import Launch, ProcessStatus, WorkerOrder, is_name
from slacktide.backends.workers.worker_backend import ON_DEMAND, SPOT
from slacktide.core.units import format_count
from slacktide.journal.events import Capacity


class LogCopies:
    """The controller's copies of logs, and how much of each log has been copied."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._offsets: dict[LogName, int] = {}

    def add(self, name: LogName, part: LogPart) -> None:
        """Append a part of a log, except for bytes that were copied before; raises OSError."""
        known = self.offset(name)
        text, left_out = part.text, part.after - known
        if left_out < 0:
            text = text[-left_out:]
        if not text:
            return
        path = self._path(name)
        folder.make_private(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with open(handle, "ab") as file:
            if left_out > 0:
                file.write(f"\n[slacktide: {left_out:,} bytes were left out here]\n".encode())
            file.write(text)
        self._offsets[name] = max(part.after, known) + len(text)
        if left_out > 0 or self._note(name).exists():
            self._note(name).write_text(str(self._offsets[name]), encoding="ascii")

    def restart(self, name: LogName) -> None:
        """Copy a log from its beginning: from now on it is another machine's."""
        for path in (self._path(name), self._note(name)):
            with suppress(OSError):
                path.unlink()
        self._offsets[name] = 0

    def offset(self, name: LogName) -> int:
        """Return up to which byte a log has been copied, parts that were left out included."""
        if name not in self._offsets:
            self._offsets[name] = self._on_disk(name)
        return self._offsets[name]

    def _on_disk(self, name: LogName) -> int:
        """Return up to which byte an earlier controller copied; a note says so if parts were left out."""
        with suppress(OSError, ValueError):
            return int(folder.read_text(self._note(name)))
        try:
            return self._path(name).stat().st_size
        except OSError:
            return 0

    def _path(self, name: LogName) -> Path:
        job, attempt, rank = name
        home = self._root / job
        return folder.attempt_folder(home, attempt) / f"rank-{rank}.log" if attempt else home / "setup.log"

    def _note(self, name: LogName) -> Path:
        return self._path(name).with_suffix(".offset")


MEET_S = 30.0  # how long after its start a controller may not know any machine


class MachineWorkers(JobTable[RemoteJob]):
    """Holds for every job the workers that were last ordered, on the machines of a link."""

    def __init__(
        self, root: Path, owner: str, link: Link, lease_s: float, now: Callable[[], float] = time.monotonic,
        *, threads: bool = True,
    ) -> None:  # fmt: skip
        """Look after the jobs under `root`, whose folders are the controller's; raises InputError.

        Without threads it receives and sends messages only when `machines.loop.turn` is called.
        """
        super().__init__(root, owner, now)
        self.machines = KnownMachines(MessageLoop(link, now, threads=threads), lease_s, now())
        self._began_at, self._threads = now(), threads
        self._copies = LogCopies(self._root)
        self._setups: dict[str, str] = {}  # the machine whose set-up log is copied, by job
        self._packers = ThreadPoolExecutor(1, thread_name_prefix="slacktide-pack")
        self._swept = False
        self.full: Collection[str] | None = None
        """Pools where no more spot can be rented just now; None: machines are never rented here."""
        self.waits_for = ""
        """Why there are fewer machines than needed, if that is known."""

    def _new_job(self, place: Path) -> RemoteJob:
        return RemoteJob(place, self._owner, self.machines, self._place, self._pack)

    def tick(self) -> None:
        """Receive the answers of machines, take the next steps for all jobs, and send tasks."""
        now = self._now()
        for machine, answer in self.machines.listen(now):
            self._receive(machine, answer, now)

        def advance(name: str, job: RemoteJob) -> None:
            job.advance(now)
            self._report_wait(name, job, now)

        self._advance(advance)
        if self._swept or any(job.order for job in self._jobs.values()):  # otherwise it would end all workers
            for machine in self.machines.all():
                self.machines.post(machine, self._message_for(machine))

    def look(self, job_id: str) -> ProcessStatus:
        job = self._known(job_id)
        return status_of(job, job.last_report, self._now())

    def sweep(self, keep: Mapping[str, int]) -> None:
        def adopt(job_id: str, job: RemoteJob) -> None:
            if job.order is None and job.current is None:
                job.sweep(keep.get(job_id), self._now())
            elif job.order is None and job.current is not None and keep.get(job_id) is None:
                job.hold(WorkerOrder(job.current.attempt, (), 0.0), self._now())

        self._sweep(filter(is_name, keep), adopt)
        self._swept = True

    def room(self, pool: str) -> PoolRoom:
        """Return how many GPUs of each kind there are on machines that are up, used or not.

        A machine that can serve as either kind counts for both. Until one has answered nothing is known.
        """
        up = [machine for machine in self.machines.all() if machine.host.alive and machine.accepted_at > 0.0]
        ours = self.machines.ours
        if ours is not None:
            up = [machine for machine in up if machine.host.id in ours]
        elif not up and self._now() - self._began_at < MEET_S:
            return PoolRoom()
        spot, on_demand = (
            sum(len(_gpus(machine)) for machine in up if fits(machine.host, kind, pool))
            for kind in (SPOT, ON_DEMAND)
        )
        return PoolRoom(spot, on_demand)

    def wanted(self) -> dict[str, tuple[Capacity, ...]]:
        """Return the kinds of the workers that are ordered for each job."""
        orders = ((name, job.order) for name, job in self._jobs.items())
        return {name: order.kinds for name, order in orders if order and order.kinds and not order.void}

    def is_busy(self, host: str) -> bool:
        """Say whether a machine runs workers, or may run some."""
        return any(not part.gone and not machine_set.over for machine_set, part in self._parts(host))

    def close(self) -> None:
        """Close the link; workers go on until their lease ends."""
        self._packers.shutdown(wait=False, cancel_futures=True)
        self.machines.loop.close()

    # ---------------------------------------------------------------- receiving

    def _receive(self, machine: KnownMachine, answer: AgentAnswer, now: float) -> None:
        """Take in an answer; logs first, so that a worker reported as ended has all its output copied."""
        for log, text in answer.logs.items():
            try:
                self._copies.add(log, text)
            except OSError as error:
                self._job(log[0]).trouble = f"logs must be writable, got: {error}"
        for machine_set, part in self._parts(machine.host.id):
            names = machine_set.logs(part)
            requested = machine.was_requested(answer.number, names)
            grown = any(name in answer.logs for name in names)
            part.drained = part.drained or (part.gone_at is not None and requested and not grown)
        for name, seen in answer.jobs.items():
            if is_name(name):
                self._job(name).receive(machine, seen, answer.number, now)

    def _parts(self, host: str) -> Iterator[tuple[MachineSet, MachinePart]]:
        """Yield the parts of all sets that are, or were, on a machine."""
        for job in self._jobs.values():
            for machine_set in filter(None, (*job.sets, job.joining)):
                if host in machine_set.parts:
                    yield machine_set, machine_set.parts[host]

    # ---------------------------------------------------------------- placing

    def _free(self, now: float) -> FreeGpus:
        free = {}
        for machine in self.machines.all():
            if self.machines.is_fit(machine, now):
                names = free[machine.host] = _gpus(machine)
                for machine_set, part in self._parts(machine.host.id):
                    for rank in _seated(machine_set, part):
                        device = machine_set.form.seats[rank].device
                        if device in names:
                            names.remove(device)
        return free

    def _place(
        self, kinds: Sequence[Capacity], pool: str, used: Collection[str], now: float
    ) -> tuple[GpuSeat, ...] | None:
        return place(kinds, pool, self._free(now), used)

    def _report_wait(self, name: str, job: RemoteJob, now: float) -> None:
        """Say what a job waits for, once it has waited for a while."""
        if job.order is None or job.waited_s(now) < WAIT_S:
            return
        lacking = missing(job.unplaced, job.order.pool, self._free(now))
        if lacking.get(SPOT) and self._will_not_come(job.order.pool):
            job.fall_short(lacking[SPOT])
        words = " and ".join(f"{format_count(count, kind + ' GPU')}" for kind, count in lacking.items())
        up = sum(self.machines.is_fit(machine, now) for machine in self.machines.all())
        waits = (
            f"job {name} waits for {words or 'machines'} in pool {job.order.pool}; "
            f"{format_count(up, 'machine')} can be reached"
        )
        job.trouble = self.waits_for or self.machines.loop.link.trouble or waits

    def _will_not_come(self, pool: str) -> bool:
        """Say whether no more spot will come: all machines are known, and no more can be rented."""
        if self.full is not None:
            return pool in self.full
        up = [machine for machine in self.machines.all() if machine.host.alive]
        all_known = bool(up) and all(machine.accepted_at > 0.0 for machine in up)
        return all_known and not self.machines.loop.link.trouble

    def _pack(self, launch: Launch) -> Packing:
        """Pack the working folder in a thread, and mark the checkpoint folder for recognition."""
        packing = self._packers.submit(packed, launch, self._owner)
        if not self._threads:
            wait([packing])
        return packing

    # ---------------------------------------------------------------- sending

    def _message_for(self, machine: KnownMachine) -> AgentMessage:
        """Return the message with all that a machine is to run, and the logs and ports to answer with."""
        tasks: dict[str, AgentTask] = {}
        read: list[LogName] = []
        reserve: list[str] = []
        for machine_set, part in self._parts(machine.host.id):
            task, job = machine_set.task(part), machine_set.home.parent.name
            if task is not None and (job not in tasks or tasks[job].attempt < task.attempt):
                tasks[job] = task
            if task is None and not machine_set.stopping and 0 in part.ranks:
                reserve.append(job)
            if task is not None and not part.drained:
                read += machine_set.logs(part)
                self._follow_setup(job, machine_set)
        return AgentMessage(
            0,
            tasks=tuple(tasks.values()),
            packs=dict(pack for launch in machine.lacking for pack in self._packs_for(launch)),
            read={name: self._copies.offset(name) for name in read},
            reserve=tuple(reserve),
        )

    def _packs_for(self, launch: str) -> list[tuple[str, LaunchPack]]:
        return [job.pack for job in self._jobs.values() if job.lacks(launch) and job.pack is not None]

    def _follow_setup(self, job: str, machine_set: MachineSet) -> None:
        host = machine_set.setup_part.host if machine_set.setup_part else self._setups.get(job, "")
        if self._setups.setdefault(job, host) != host:
            self._setups[job] = host
            self._copies.restart((job, 0, 0))


def _seated(machine_set: MachineSet, part: MachinePart) -> list[int]:
    """Return the ranks of a part that need a GPU of its own; a worker that is taken over counts once."""
    if part.gone or (machine_set.stopping and not machine_set.announced):
        return []
    counted = () if machine_set.announced else [worker.rank for worker in machine_set.kept(part)]
    return [rank for rank in part.ranks if rank not in counted]


def _gpus(machine: KnownMachine) -> list[str]:
    """Return the names of a machine's GPUs; empty ones where they cannot be seen."""
    return list(machine.devices[: machine.host.gpus]) or [""] * machine.host.gpus
