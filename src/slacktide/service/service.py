"""What every request handler has at hand: the journal's reader, the engine, tokens, tasks and counters."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from slacktide.core.errors import SlacktideError
from slacktide.journal.state.requests import RequestAnswer
from slacktide.service.access.gate import Doorkeeper
from slacktide.service.access.limits import Slots
from slacktide.service.hub import Hub
from slacktide.service.journal_reader import JournalReader
from slacktide.service.metrics import Counts
from slacktide.service.runner import Runner, is_writable
from slacktide.service.tasks.task_worker import TaskWorker

PUMP_S = 0.1
"""How often new events are read for streams and for requests that wait."""
TIDY_S = 600.0
"""How often files that no job needs any more are removed."""
DISK_S = 5.0
"""How long the last check of the disk is trusted."""
LISTENERS, LISTENERS_EACH = 64, 32
SENDERS, SENDERS_EACH = 12, 4
"""Uploads at a time: each is given room on the disk for the largest that it may be."""


@dataclass(slots=True)
class Service:
    """All parts of a server that handlers need."""

    reader: JournalReader
    runner: Runner
    keeper: Doorkeeper
    tasks: TaskWorker
    hub: Hub
    say: Callable[[str], None]
    counts: Counts = field(default_factory=Counts)
    listeners: Slots = field(default_factory=lambda: Slots(LISTENERS, LISTENERS_EACH, "listeners"))
    senders: Slots = field(default_factory=lambda: Slots(SENDERS, SENDERS_EACH, "uploads at a time"))
    warm_after_s: float | None = None
    """How long after its start the server has machine code made; None: never."""
    _disk: tuple[float, bool] = (float("-inf"), True)

    async def pump(self) -> None:
        """Read the journal on for as long as the server runs."""
        while True:
            with contextlib.suppress(OSError, SlacktideError):  # it may be readable later
                news, seq = await self.reader.run(self.reader.news)
                if news or seq > self.hub.seq:
                    self.hub.publish(news, seq)
            await asyncio.sleep(PUMP_S)

    async def tidy(self) -> None:
        """Remove files that no job needs any more, again and again."""
        while True:
            with contextlib.suppress(OSError, SlacktideError):
                await self.reader.run(self.reader.tidy)
            await asyncio.sleep(TIDY_S)

    async def warm_up(self) -> None:
        """Compile the code of costly tasks in another process, at low priority.

        It reads a pipe from this process, so that it ends with the server, however that ends.
        """
        if self.warm_after_s is None:
            return
        await asyncio.sleep(self.warm_after_s)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "slacktide.service.tasks.warm_up",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def answered(self, key: str, wait_s: float) -> RequestAnswer | None:
        """Wait for the answer to a request for up to `wait_s`; None where it did not come."""
        until = time.monotonic() + wait_s
        while True:
            seq, answer = self.hub.seq, await self.reader.run(self.reader.answer, key)
            left = until - time.monotonic()
            if answer is not None or left <= 0 or self.hub.closed:
                return answer
            await self.hub.changed(seq, left)

    def disk_is_writable(self) -> bool:
        """Whether the disk of the journal can be written, as of a moment ago."""
        at_s, known = self._disk
        if time.monotonic() - at_s > DISK_S:
            known = is_writable(self.reader.path.parent)
            self._disk = time.monotonic(), known
        return known

    def without_paths(self, message: str) -> str:
        """Take the server's own folders out of a message: clients must not learn of them."""
        return self.reader.paths.out_of(message)


@contextlib.asynccontextmanager
async def pumping(service: Service) -> AsyncIterator[None]:
    """Read the journal on while the block runs."""
    tasks = [asyncio.create_task(each) for each in (service.pump(), service.tidy(), service.warm_up())]
    try:
        yield
    finally:
        service.hub.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await service.tasks.close()
