"""The agent of a machine: it holds the workers that a controller wants there, and ends them without one.

It is the local back end's processes, spoken to from afar: what is told is the whole of what is wanted, and
what is answered is all that is. It may die and come back: the notes on its disk say what it had started. A
controller that has not spoken for the length of its lease may have begun the same job elsewhere, so then
every worker is ended; only a later attempt starts again.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from slacktide import boot
from slacktide.backend.local.backend import failure_of
from slacktide.backend.local.environment import free_port
from slacktide.backend.local.observation import Observation
from slacktide.backend.local.processes import Processes
from slacktide.backend.machines.lease import Lease
from slacktide.backend.machines.messages import Answer, LogName, Pack, Say, Seen, Task
from slacktide.errors import BackendError, InputError

TICK_S = 0.05
FENCE_PATIENCE_S = 1.0
"""How long workers may take to end when the lease has run out; a controller waits longer than that."""
LOG_BYTES = 1 << 20
"""The most of one log that is told at once."""


class Agent:
    """Holds workers on this machine for one journal."""

    def __init__(
        self,
        root: Path,
        owner: str,
        lease_s: float,
        *,
        address: str = "127.0.0.1",
        now: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Keep notes and files of an owner under `root`; the machine is reached at `address`."""
        self._root, self._address, self._now = Path(root) / owner, address, now
        self._processes = Processes(self._root / "jobs", owner, now, environ)
        self._lease = Lease(self._root, owner, lease_s)
        self._packs: dict[str, Pack] = {}
        self._entered: dict[str, str] = {}
        """By job, the launch that was entered."""
        self._tasks: dict[str, Task] = {}
        self._ports: dict[str, int] = {}
        self._fenced = 0
        self._met = False
        self._heard_at = now()
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Look after the workers in a thread, for as long as this process lives."""
        threading.Thread(target=self._watch_on, daemon=True, name="slacktide-agent").start()

    def tell(self, say: Say) -> Answer:
        """Do what is said, as far as it can be done at once, and say what is."""
        with self._lock:
            self._heard_at = self._now()
            self._lease.renew()
            self._packs.update(say.packs)
            if not self._met:
                self._meet(say)
            lacking = [task.launch for task in say.tasks if not self._hold(task)]
            self._release({task.job for task in say.tasks})
            self._ports = {job: self._ports.get(job) or free_port(self._address) for job in say.reserve}
            self._processes.tick()
            return Answer(
                number=say.number,
                jobs={job: self._seen(job) for job in self._tasks},
                logs=self._read(say.read),
                lacking=tuple(dict.fromkeys(lacking)),
                ports=dict(self._ports),
                fenced=self._fenced,
            )

    def tick(self) -> None:
        """Move starts, stops and kills on, and end all when nobody has spoken for as long as the lease."""
        with self._lock:
            if self._now() - self._heard_at > self._lease.seconds and self._processes.fence(FENCE_PATIENCE_S):
                self._fenced += 1
                self._heard_at = self._now()
            self._processes.tick()

    def _watch_on(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.tick()

    def _meet(self, say: Say) -> None:
        """Take charge of what an agent before us had started: what is wanted goes on, the rest ends."""
        self._processes.sweep({task.job: task.attempt for task in say.tasks if task.kinds})
        self._met = True

    def _hold(self, task: Task) -> bool:
        """Have these workers; say whether it is known how to start them."""
        self._tasks[task.job] = task
        known = not task.kinds or self._enter(task)
        try:
            self._processes.hold(task.job, task.attempt, task.kinds, share=task.share)
        except InputError as error:
            self._processes.refuse(task.job, str(error))
        return known

    def _enter(self, task: Task) -> bool:
        """Learn how to start a job, with a folder of its own to run in."""
        if self._entered.get(task.job) == task.launch:
            return True
        pack = self._packs.pop(task.launch, None)
        if pack is None:
            return False
        try:
            workdir = _unpacked(pack, self._root / "work" / task.job / task.launch)
            self._processes.register(replace(pack.launch, workdir=workdir))
            self._entered[task.job] = task.launch
        except (InputError, BackendError, OSError, zipfile.BadZipFile) as error:
            self._processes.refuse(task.job, str(error))
        return True

    def _release(self, wanted: set[str]) -> None:
        """End the workers of jobs that are no longer named, and forget those of which nothing is left."""
        for job, task in list(self._tasks.items()):
            if job in wanted:
                continue
            self._processes.hold(job, task.attempt, ())
            if self._processes.look(job).gone:
                del self._tasks[job]
                self._entered.pop(job, None)
                shutil.rmtree(self._root / "work" / job, ignore_errors=True)

    def _seen(self, job: str) -> Seen:
        observed = self._processes.look(job)
        return Seen(_ago(observed), failure_of(observed))

    def _read(self, read: Mapping[LogName, int]) -> dict[LogName, bytes]:
        """Return what was printed since, of each log that is asked for."""
        told: dict[LogName, bytes] = {}
        for name, after in read.items():
            for log in self._processes.logs(name[0]):
                if (log.attempt, log.rank) == name[1:]:
                    told[name] = _part(log.path, after)
        return told


def _ago(observed: Observation) -> Observation:
    """Return times on this machine's clock as seconds ago."""
    now_s = boot.seconds()
    gone, before = observed.gone_s, observed.before_gone_s
    return observed._replace(
        gone_s=None if gone is None else max(0.0, now_s - gone),
        before_gone_s=None if before is None else max(0.0, now_s - before),
    )


def _part(path: Path, after: int) -> bytes:
    """Return a bounded part of a log; nothing where it is gone or is no plain file any more."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(handle, "rb") as file:
        try:
            file.seek(after)
            return file.read(LOG_BYTES)
        except OSError:
            return b""


def _unpacked(pack: Pack, target: Path) -> Path:
    """Unpack the working folder beside an older one, and then in its place."""
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    with zipfile.ZipFile(io.BytesIO(pack.files)) as archive:
        archive.extractall(draft)
        for entry in archive.infolist():
            mode = entry.external_attr >> 16
            if mode & 0o111 and not entry.is_dir():
                os.chmod(draft / entry.filename, 0o700)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)
    return target
