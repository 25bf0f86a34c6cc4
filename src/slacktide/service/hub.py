"""Events as they happen, to any number of listeners: a slow one holds up no other."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from slacktide.app.journal.listing import RecordedEvent
from slacktide.journal.codec import codec
from slacktide.journal.events import Ended, Submitted
from slacktide.report.wire import values
from slacktide.report.wire.events import as_json
from slacktide.service.uploads.server_paths import ServerPaths

STREAM = "text/event-stream"
KEPT = 4000
"""Of the last events that are kept at hand; who is further behind reads the journal."""
PAGE = 500
KNOWN_S = 1.0
"""How often it is looked whether a listener may still listen."""
STILL_HERE_S = 15.0
"""How often a listener hears something, so that a dead connection shows."""


class Frame:
    """An event as it is sent, written once for all listeners."""

    __slots__ = ("_paths", "_texts", "job", "seq", "told")

    def __init__(self, told: RecordedEvent, paths: ServerPaths) -> None:
        self._paths = paths
        self.told, self.seq, self.job = told, told.record.seq, told.record.event.job
        self._texts: dict[bool, str] = {}

    def text(self, exact: bool) -> str:
        """Return it as one message of a stream; `exact`: as the journal holds it."""
        if exact not in self._texts:
            data = json.dumps(document(self.told, exact, self._paths), allow_nan=False)
            self._texts[exact] = f"id: {self.seq}\ndata: {data}\n\n"
        return self._texts[exact]


def document(told: RecordedEvent, exact: bool, paths: ServerPaths) -> dict[str, Any]:
    """Return an event as documented, without folders of the server, or exactly as the journal holds it."""
    if not exact:
        shown = paths.out_of_event(told.record.event)
        return as_json(told.record._replace(event=shown), told.submitted)
    event = told.record.event
    if isinstance(event, Submitted) and event.envs:  # a journal of before holds their values
        event = without_values(event)
    return {
        "seq": told.record.seq,
        "time_utc": values.utc(told.record.time_utc),
        "event": json.loads(codec.encode(event)),
    }


def without_values(event: Submitted) -> Submitted:
    """Return an entry of an earlier version without the values of variables that it holds."""
    import dataclasses

    return dataclasses.replace(event, envs=dict.fromkeys(event.envs, ""))


async def nobody_knows(job: str) -> int | None:
    """Leave it to the events whether a job has ended."""
    return None


class Hub:
    """Keeps the last events at hand and wakes listeners when there are more."""

    def __init__(
        self,
        page: Callable[[int, str | None, int], Awaitable[Sequence[RecordedEvent]]],
        paths: ServerPaths,
        ended_by: Callable[[str], Awaitable[int | None]] = nobody_knows,
    ) -> None:
        """Say how events after a number are read from the journal, of one job or all, at most so many.

        `ended_by` tells a number by which a job had ended; None where it has not.
        """
        self._page, self._paths, self._ended_by = page, paths, ended_by
        self._frames: deque[Frame] = deque(maxlen=KEPT)
        self._more = asyncio.Event()
        self.seq = 0
        """The last event that listeners were told of."""
        self.closed = False

    def tell(self, news: Sequence[RecordedEvent], seq: int) -> None:
        """Hand on what is new; `seq` is the journal's last event."""
        self._frames.extend(Frame(told, self._paths) for told in news)
        self.seq = seq
        self._wake()

    def close(self) -> None:
        """Let every listener go."""
        self.closed = True
        self._wake()

    async def changed(self, seq: int, timeout_s: float) -> bool:
        """Wait until there is more than an event; return whether there is."""
        if self.seq > seq or self.closed:
            return True
        try:
            await asyncio.wait_for(self._more.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def stream(
        self,
        after: int,
        job: str | None,
        exact: bool,
        to_the_end: bool,
        may: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[str]:
        """Yield what happens after an event, until the listener leaves, or the job has ended.

        It ends, too, soon after `may` returns False.
        """
        yield "retry: 1000\n\n"
        over, looked_s, said_s = False, time.monotonic(), time.monotonic()
        # Who comes back may have heard of the end already, and would wait for it for ever.
        ended_by = await self._ended_by(job) if to_the_end and job is not None else None
        while not self.closed:
            if time.monotonic() - looked_s >= KNOWN_S:
                looked_s = time.monotonic()
                if not may():
                    return
            frames = await self._since(after, job)
            if frames:
                after = frames[-1].seq
                mine = [frame for frame in frames if job is None or frame.job == job]
                over = over or any(isinstance(frame.told.record.event, Ended) for frame in mine if job)
                if mine:
                    said_s = time.monotonic()
                    yield "".join(frame.text(exact) for frame in mine)
            elif to_the_end and (over or (ended_by is not None and self.seq >= ended_by)):
                yield "event: over\ndata: {}\n\n"
                return
            else:
                await self.changed(max(after, self.seq), KNOWN_S)
            if time.monotonic() - said_s >= STILL_HERE_S:  # also while others' jobs have all the news
                said_s = time.monotonic()
                yield ": still here\n\n"

    async def _since(self, after: int, job: str | None) -> list[Frame]:
        if after >= self.seq:
            return []
        if self._frames and self._frames[0].seq <= after + 1:
            return [frame for frame in self._frames if frame.seq > after]
        found = [Frame(told, self._paths) for told in await self._page(after, job, PAGE)]
        if not found and self._frames:  # nothing more of this job before what is at hand
            return [frame for frame in self._frames if frame.seq > after]
        return found

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()
