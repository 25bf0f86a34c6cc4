"""The agent of a machine: it runs the workers that a controller orders there, and ends them without one.

It is a plain process: messages come on its standard input, answers go to its standard output. It is the local
back end, controlled from another machine: a message says all that is to run, and an answer all that does. It
may die and be restarted: notes on its disk say what it had started. A controller that had no answer for the
length of the lease may begin the same job elsewhere, so when the lease runs out every worker is ended, and
only a later attempt starts workers again.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from slacktide.backends.local.processes import LocalProcesses
from slacktide.backends.machines.agent.lease import AgentLease
from slacktide.backends.machines.agent.messages import (
    AgentAnswer,
    AgentMessage,
    AgentTask,
    LaunchPack,
    LogName,
    LogPart,
    read_frame,
    write_frame,
)
from slacktide.backends.machines.launch_package import check_shared, unpacked
from slacktide.backends.workers.environment import free_port, machine_devices
from slacktide.backends.workers.job_folder import open_plain_file
from slacktide.backends.workers.launch import ProcessStatus
from slacktide.core import machine_clock as boot
from slacktide.core.errors import BackendError, InputError
from slacktide.providers.boot import METADATA, notice_s

TICK_S = 0.05
FENCE_PATIENCE_S = 1.0
"""How long workers may take to end when the lease has run out; a controller waits longer than that."""
LOG_BYTES = 1 << 19  # the most of one log that is sent at once
LOG_BEHIND_BYTES = 1 << 23
"""If more than this is unsent, a log is sent from near its end only: a flood is not sent whole."""
TOKENS_KEPT = 256
"""How many answers are remembered; a controller that names an older one has to send its message again."""
POLL_S = 5.0  # Amazon gives two minutes of notice, and recommends polling no more often than this
VARIABLE = "SLACKTIDE_METADATA"
"""Where a metadata service like Amazon's is, on machines that are not Amazon's."""
VENDOR = Path("/sys/class/dmi/id/sys_vendor")


class Agent:
    """Runs workers on this machine for one journal."""

    def __init__(
        self,
        folder: Path,
        processes: LocalProcesses,
        lease: AgentLease,
        address: str = "127.0.0.1",
        now: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Keep files in a folder of this owner alone; other machines reach this one at `address`."""
        self._folder, self._processes, self._lease = folder, processes, lease
        self._address, self._now, self._environ = address, now, environ
        self._packs: dict[str, LaunchPack] = {}
        self._entered: dict[str, str] = {}  # by job, the package that was unpacked and registered
        self._tasks: dict[str, AgentTask] = {}
        self._ports: dict[str, int] = {}
        self._met = False
        self._acknowledged_at = self._now()
        """When the last answer was given that its controller is known to have received."""
        self._life = secrets.token_hex(4)
        self._given: dict[str, float] = {}  # when each of the last answers was given, by its token
        self._last = "", 0  # the controller and the number of the last message that was accepted
        self._lives: set[str] = set()  # every controller that another one has followed
        self._lock = threading.Lock()
        self._notice_s: float | None = None

    def watch(self) -> None:
        """Call `tick` again and again in a thread, for as long as this process lives."""
        threading.Thread(target=self._watch_on, daemon=True, name="slacktide-agent").start()

    def expect_end(self, notice_s: float | None) -> None:
        """Report from now on how long the machine has left, as its cloud warned; None: no warning."""
        self._notice_s = notice_s

    def handle(self, message: AgentMessage) -> AgentAnswer:
        """Carry out a message as far as that is possible at once, and return the state of the machine.

        If its controller has not lately received an answer from us, it is answered and nothing else is done.
        """
        with self._lock:
            given_at = self._given.get(message.last_token)
            stale = given_at is None or self._now() - given_at > self._lease.seconds
            if given_at is None or stale or self._is_overtaken(message):
                return AgentAnswer(message.number, self._token())
            self._last = message.life, message.number
            self._acknowledged_at = max(self._acknowledged_at, given_at)
            self._lease.renew(self._now() - self._acknowledged_at)
            self._packs.update(message.packs)
            if not self._met:
                self._meet(message)
            lacking = [task.launch for task in message.tasks if not self._hold(task)]
            self._release({task.job for task in message.tasks})
            self._ports = {job: self._ports.get(job) or free_port(self._address) for job in message.reserve}
            self._processes.tick()
            return AgentAnswer(
                number=message.number,
                token=self._token(),
                accepted=True,
                jobs={job: _ago(self._processes.look(job)) for job in self._tasks},
                logs=self._read(message.read),
                lacking=tuple(dict.fromkeys(lacking)),
                ports=dict(self._ports),
                devices=machine_devices(self._environ),
                notice_s=self._notice_s,
            )

    def tick(self) -> None:
        """Take the next steps of starts and stops, and end all workers when the lease has run out."""
        with self._lock:
            expired = self._now() - self._acknowledged_at > self._lease.seconds
            if expired and self._processes.fence(FENCE_PATIENCE_S):
                self._acknowledged_at = self._now()
            self._processes.tick()

    def _is_overtaken(self, message: AgentMessage) -> bool:
        """Say whether a later message, or another controller, was accepted before this one came."""
        life, number = self._last
        if message.life == life:
            return message.number <= number
        if message.life not in self._lives:
            self._lives.add(life)
            return False
        return True

    def _token(self) -> str:
        token = f"{self._life}-{secrets.token_hex(4)}"
        self._given[token] = self._now()
        while len(self._given) > TOKENS_KEPT:
            del self._given[next(iter(self._given))]
        return token

    def _watch_on(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.tick()

    def _meet(self, message: AgentMessage) -> None:
        """Take charge of what an earlier agent started: workers that the message names go on, others end."""
        self._processes.sweep({task.job: task.attempt for task in message.tasks if task.kinds})
        self._met = True

    def _hold(self, task: AgentTask) -> bool:
        """Order these workers; say whether the package to start them is here."""
        self._tasks[task.job] = task
        known = not task.kinds or self._enter(task)
        if not known and self._processes.look(task.job).attempt < task.attempt:
            return False  # the package comes with the next message
        try:
            if task.spot_left is not None:
                self._processes.take(task.job, task.spot_left, task.notice_s)
            self._processes.hold(task.job, task.attempt, task.kinds, part=task.part)
        except InputError as error:
            self._processes.refuse(task.job, str(error))
        return known

    def _enter(self, task: AgentTask) -> bool:
        """Register a job, with its package unpacked in a folder of its own; False: it has not come yet."""
        if self._entered.get(task.job) == task.launch:
            return True
        pack = self._packs.pop(task.launch, None)
        if pack is None:
            return False
        try:
            check_shared(pack)
            workdir = unpacked(pack, self._folder / "work" / task.job / task.launch)
            own = self._folder / "jobs" / task.job / "checkpoints"
            checkpoint_dir = pack.launch.checkpoint_dir if pack.shared else own
            self._processes.register(replace(pack.launch, workdir=workdir, checkpoint_dir=checkpoint_dir))
            self._entered[task.job] = task.launch
        except (InputError, BackendError, OSError, zipfile.BadZipFile) as error:
            self._processes.refuse(task.job, str(error))
        return True

    def _release(self, wanted: set[str]) -> None:
        """End the workers of jobs that are no longer named, and forget those whose workers have all gone."""
        for job, task in list(self._tasks.items()):
            if job in wanted:
                continue
            self._processes.hold(job, task.attempt, ())
            if self._processes.look(job).gone:
                del self._tasks[job]
                self._entered.pop(job, None)
                shutil.rmtree(self._folder / "work" / job, ignore_errors=True)

    def _read(self, read: Mapping[LogName, int]) -> dict[LogName, LogPart]:
        """Return the new part of each requested log that has grown."""
        parts: dict[LogName, LogPart] = {}
        for job in {name[0] for name in read}:
            for log in self._processes.logs(job):
                name = (job, log.attempt, log.rank)
                if name in read:
                    part = _part(log.path, read[name])
                    parts |= {name: part} if part.text else {}
        return parts


def _ago(observed: ProcessStatus) -> ProcessStatus:
    """Convert times on this machine's clock to seconds ago."""
    now_s = boot.seconds()
    gone, before = observed.gone_s, observed.before_gone_s
    return observed._replace(
        gone_s=None if gone is None else max(0.0, now_s - gone),
        before_gone_s=None if before is None else max(0.0, now_s - before),
    )


def _part(path: Path, after: int) -> LogPart:
    """Return a limited part of a log; empty if it is gone or is not a plain file any more."""
    try:
        with open(path, "rb", opener=open_plain_file) as file:
            size = file.seek(0, os.SEEK_END)
            begin = after if size - after <= LOG_BEHIND_BYTES else size - LOG_BYTES
            file.seek(begin)
            return LogPart(begin, file.read(LOG_BYTES))
    except OSError:
        return LogPart(after, b"")


def metadata_service(environ: Mapping[str, str] = os.environ, vendor: Path = VENDOR) -> str:
    """Return where this machine's metadata service is; empty: it belongs to no cloud that we know."""
    if environ.get(VARIABLE):
        return environ[VARIABLE]
    try:
        return METADATA if vendor.read_text(encoding="utf-8").startswith("Amazon EC2") else ""
    except (OSError, ValueError):
        return ""


def watch_notices(report: Callable[[float | None], None], url: str) -> None:
    """Poll in a thread, again and again, and report the seconds until the machine is taken, or None."""

    def go_round() -> None:
        while True:
            report(notice_s(url))
            time.sleep(POLL_S)

    threading.Thread(target=go_round, daemon=True, name="slacktide-notices").start()


def main(root: str, owner: str, lease_s: str, address: str = "127.0.0.1") -> None:
    """Answer messages until the input ends; workers then go on until their lease ends."""
    folder = Path(root) / owner
    processes = LocalProcesses(folder / "jobs", owner)
    agent = Agent(folder, processes, AgentLease(folder, owner, float(lease_s)), address)
    agent.watch()
    if url := metadata_service():
        watch_notices(agent.expect_end, url)
    # What a library prints must not get between the frames on the real standard output.
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            write_frame(answers, agent.handle(read_frame(sys.stdin.buffer)))
        except EOFError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:5])
