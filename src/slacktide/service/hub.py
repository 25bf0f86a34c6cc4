"""Live event streams: hands new events to any number of clients; a slow one does not delay the others."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from slacktide.app.journal.listing import RecordedEvent
from slacktide.journal.codec import codec
from slacktide.journal.events import Ended, SubmissionAsked, Submitted
from slacktide.report.wire import values
from slacktide.report.wire.events import as_json
from slacktide.service.journal_reader import JournalReader
from slacktide.service.uploads.server_paths import ServerPaths

STREAM = "text/event-stream"
KEPT = 4000  # events kept in memory; for a listener that is further behind, the journal is read
PAGE = 500  # how many events are then read at a time
KNOWN_S = 1.0  # how often it is checked whether a listener's token or session is still valid
STILL_HERE_S = 15.0  # a listener gets something at least this often, so that a dead connection is noticed


class Frame:
    """An event as text for streams, written once for all listeners."""

    __slots__ = ("_paths", "_texts", "entry", "job", "seq")

    def __init__(self, entry: RecordedEvent, paths: ServerPaths) -> None:
        self._paths = paths
        self.entry, self.seq, self.job = entry, entry.record.seq, entry.record.event.job
        self._texts: dict[bool, str] = {}

    def text(self, exact: bool) -> str:
        """Return one message of a stream; `exact`: the event as the journal holds it."""
        if exact not in self._texts:
            data = json.dumps(document(self.entry, exact, self._paths), allow_nan=False)
            self._texts[exact] = f"id: {self.seq}\ndata: {data}\n\n"
        return self._texts[exact]


def document(entry: RecordedEvent, exact: bool, paths: ServerPaths) -> dict[str, Any]:
    """Return an event as documented, without the server's folders, or if `exact` as the journal holds it."""
    if not exact:
        shown = paths.out_of_event(entry.record.event)
        return as_json(entry.record._replace(event=shown), entry.submitted)
    event = entry.record.event
    if (
        isinstance(event, SubmissionAsked | Submitted) and event.envs
    ):  # journals of earlier versions contain the values
        event = dataclasses.replace(event, envs=dict.fromkeys(event.envs, ""))
    return {
        "seq": entry.record.seq,
        "time_utc": values.utc(entry.record.time_utc),
        "event": json.loads(codec.encode(event)),
    }


class Hub:
    """Keeps the last events in memory and wakes listeners when there are more."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._frames: deque[Frame] = deque(maxlen=KEPT)
        self._more = asyncio.Event()
        self.seq = 0
        """The number of the last event that was published."""
        self.closed = False

    def publish(self, news: Sequence[RecordedEvent], seq: int) -> None:
        """Send new events to the listeners; `seq` is the number of the journal's last event."""
        self._frames.extend(Frame(entry, self._reader.paths) for entry in news)
        self.seq = seq
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    async def changed(self, seq: int, timeout_s: float) -> bool:
        """Wait until there are events after number `seq`, or the hub closes; return False on timeout."""
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
        """Yield the events after a number, of one job or (None) of all, and then new ones as they happen.

        `to_the_end`: stop when the job has ended. The stream also stops soon after `may` returns False.
        """
        yield "retry: 1000\n\n"
        over, looked_s, sent_s = False, time.monotonic(), time.monotonic()
        # A client that reconnects may have received the job's end already and would wait for it forever.
        ended_by = None
        if to_the_end and job is not None:
            ended_by = await self._reader.run(self._reader.ended_by, job)
        while not self.closed:
            if time.monotonic() - looked_s >= KNOWN_S:
                looked_s = time.monotonic()
                if not may():
                    return
            frames = await self._since(after, job)
            if frames:
                after = frames[-1].seq
                wanted = [frame for frame in frames if job is None or frame.job == job]
                over = over or any(isinstance(frame.entry.record.event, Ended) for frame in wanted if job)
                if wanted:
                    sent_s = time.monotonic()
                    yield "".join(frame.text(exact) for frame in wanted)
            elif to_the_end and (over or (ended_by is not None and self.seq >= ended_by)):
                yield "event: over\ndata: {}\n\n"
                return
            else:
                await self.changed(max(after, self.seq), KNOWN_S)
            if time.monotonic() - sent_s >= STILL_HERE_S:  # also while only other jobs have events
                sent_s = time.monotonic()
                yield ": still here\n\n"

    async def _since(self, after: int, job: str | None) -> list[Frame]:
        if after >= self.seq:
            return []
        if self._frames and self._frames[0].seq <= after + 1:
            return [frame for frame in self._frames if frame.seq > after]
        entries = await self._reader.run(self._reader.page, after, job, PAGE)
        if not entries and self._frames:  # no event of this job is missing from memory
            return [frame for frame in self._frames if frame.seq > after]
        return [Frame(entry, self._reader.paths) for entry in entries]

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()
