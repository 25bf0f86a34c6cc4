"""Reads the journal for HTTP requests, which share one folded state and a few threads."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import math
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from slacktide.app.jobs import requests
from slacktide.app.jobs.submission import FleetText
from slacktide.app.journal.fleets import FleetTimelines, fleet_points, fleets
from slacktide.app.journal.journal import Journal
from slacktide.app.journal.listing import RecordedEvent, held_by, listed, projected, terms_of
from slacktide.app.journal.logs import LogLine
from slacktide.app.journal.timeline import (
    MOST_HISTORIES,
    MOST_TIMELINES,
    DecisionHistory,
    OfEachJob,
    Timeline,
    course_points,
)
from slacktide.app.task_requests import SubmitRequest
from slacktide.core.errors import InputError, shown
from slacktide.journal.events import Decided, Record, SubmissionAsked, Submitted
from slacktide.journal.state.jobs import AT_HAND, Jobs
from slacktide.journal.state.journal_state import JobRecord, JournalState, RequestAnswer
from slacktide.journal.state.snapshots import StateCache
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.paths import runs_of
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.report.text.sentences.reasons import because
from slacktide.report.text.sentences.why import why as explain
from slacktide.report.text.tables import jobs as jobs_report
from slacktide.report.wire import events as events_wire
from slacktide.report.wire import values
from slacktide.results.status import JobStatus
from slacktide.service.uploads.job_checks import is_alike
from slacktide.service.uploads.server_paths import ServerPaths
from slacktide.service.uploads.uploads import KEPT_DAYS, UploadHistory, Uploads

THREADS = 2  # more would wait for each other: most of their work holds the interpreter lock
IN_CHARGE_S = 0.5  # how long the result of a check for a controller is reused
NO_ADDRESS = ("/", "\\", "..")  # not allowed in a key, which must work in /api/v1/requests/KEY
WITHIN = 1024  # how many events before a job's first one are searched for its request at first
LOG_LINES, LOG_CHARACTERS = 2000, 512 * 1024  # the most of a log in one answer

Given = ParamSpec("Given")
Found = TypeVar("Found")


class KeyTakenError(InputError):
    """An idempotency key was already used for another request."""

    http_status = 409


class JournalReader:
    """Answers requests about a journal, from several threads at a time."""

    def __init__(
        self,
        path: Path,
        keep_days: float = KEPT_DAYS,
        fleet: FleetText | None = None,
        market: str | None = None,
    ) -> None:
        """Open a journal, with the server's own fleet and market, if any; see `Address` for `keep_days`."""
        self.path, self.paths = path, ServerPaths(path, market, fleet and fleet.path)
        self.store = SqliteStore(path, create=False)
        self.uploads = Uploads(runs_of(path), fleet)
        self.fleet_file = None if fleet is None else Path(fleet.path).name
        """The name of the fleet file of jobs that are submitted here."""
        self._history = UploadHistory(self.store, keep_days)
        self._news: deque[Record] = deque()
        self.fold = StateCache(self.store, self._news.append)
        self.journal = Journal(self.store, path, state=self.fold)
        self._histories = OfEachJob(self.store, DecisionHistory, MOST_HISTORIES)
        self._timelines = OfEachJob(self.store, Timeline, MOST_TIMELINES)
        self._fleet_timelines = FleetTimelines(self.store)
        self._explaining = threading.Lock()
        self._keys = [threading.Lock() for _ in range(64)]
        """A lock is held while a job is submitted; the hash of the key chooses which one."""
        self._rows = JobRows()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reader")
        self._in_charge = (-math.inf, False)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.store.close()

    async def run(self, do: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """Call a function that reads or writes the journal in a thread, so that other requests go on."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(do, *args, **kwargs))

    @contextmanager
    def state(self) -> Iterator[JournalState]:
        """Yield the current state of the journal, which does not change inside the block."""
        with self.fold.lock:
            yield self.fold()

    @property
    def in_charge(self) -> bool:
        """Whether a controller is running, checked at most IN_CHARGE_S seconds ago."""
        at_s, known = self._in_charge
        if time.monotonic() - at_s > IN_CHARGE_S:
            known = is_held(self.path)
            self._in_charge = time.monotonic(), known
        return known

    def news(self) -> tuple[list[RecordedEvent], int]:
        """Return the events since the last call, and the number of the journal's last event."""
        with self.state() as state:
            records = [self._news.popleft() for _ in range(len(self._news))]
            jobs = [state.jobs.get(record.event.job) for record in records]
            submitted = [None if job is None else job.submitted for job in jobs]
            return list(map(RecordedEvent, records, submitted)), state.seq

    def page(self, after: int, job: str | None, most: int) -> Sequence[RecordedEvent]:
        return list(self.journal.events(job, after=after, most=most))

    def check_known(self, job: str) -> None:
        with self.state() as state:
            requests.record_of(state, job)

    def ended_by(self, job: str) -> int | None:
        """Return the number of the last event if a job has ended by now; otherwise None."""
        with self.state() as state:
            return state.seq if job in state.jobs and job not in state.unended else None

    def jobs(self, keep: Callable[[Row], bool], most: int | None, *, active: bool = False) -> list[Row]:
        """List the newest `most` jobs (None: all) for which `keep` is true, in the order of submission.

        `active`: only jobs that have not ended.
        """
        in_charge = self.in_charge
        with self.state() as state:
            only = state.unended if active else None
            rows = self._rows.at_hand(state, in_charge, only)
            places = dict.fromkeys(state.unended, AT_HAND) if active else state.jobs.places.copy()
        # Packed jobs do not change, so they are unpacked without the lock.
        kept = filter(keep, self._rows.newest_first(places, rows, state))
        return [*islice(kept, most)][::-1]

    def job(self, job: str) -> dict[str, Any]:
        in_charge = self.in_charge
        with self.state() as state:
            record = requests.record_of(state, job)
            return {**self._rows.of(record, state, in_charge)[1], **_details(record)}

    def holdings(self) -> list[dict[str, Any]]:
        with self.state() as state:
            found = [(record, held_by(record)) for record in state.active]
        return [
            {
                "job": record.job,
                "pool": (record.holding.order or record.submitted).pool,
                "spot_gpus": held.spot_gpus,
                "on_demand_gpus": held.on_demand_gpus,
            }
            for record, held in found
            if held.gpus
        ]

    def why(self, job: str) -> list[str]:
        in_charge = self.in_charge
        with self.state() as state:
            status = listed(requests.record_of(state, job), state, in_charge=in_charge)
        with self._explaining:
            sentences = explain(status, self._histories.of(job).events())
        return [self.paths.out_of(sentence) for sentence in sentences]

    def course(self, job: str) -> dict[str, Any]:
        """Return the history of a job: points for pictures, and its last events."""
        in_charge = self.in_charge
        with self.state() as state:
            job_record = requests.record_of(state, job)
            status, _ = self._rows.of(job_record, state, in_charge)
            over, submitted = not job_record.active, job_record.submitted
        with self._explaining:
            timeline = self._timelines.of(job)
            points = course_points(timeline, status.spot_gpus, status.on_demand_gpus, over=over)
            happenings = [*timeline.happenings]
        done_share = status.progress_gpu_hours / status.work_gpu_hours
        return {
            "job": job,
            "hours": status.hours,
            "projected_hours": None if over else projected(status.hours, done_share),
            "points": values.plain(points),
            "happenings": [_happening(record, submitted, self.paths) for record in happenings],
        }

    def fleets(self) -> dict[str, Any]:
        """Return the fleets with their money, and the name of the server's fleet file."""
        with self.state() as state:
            return {"fleets": values.plain(fleets(state)), "file": self.fleet_file}

    def fleet_course(self, fleet: str) -> dict[str, Any]:
        """Return the history of a fleet for pictures; raises UnknownJobError if there is no such fleet."""
        with self._explaining:
            moments = [*self._fleet_timelines.of(fleet)]
        with self.state() as state:
            if fleet not in state.fleets:
                raise requests.UnknownJobError("a fleet", fleet, state.fleets)
            points = fleet_points(state.fleets[fleet], state, moments)
        return {"fleet": fleet, "points": values.plain(points)}

    def logs(
        self, job: str, rank: int | None, attempt: int | None, after: str, follow: bool
    ) -> tuple[list[LogLine], str, bool]:
        """Return lines that workers printed after a place, the place after them, and whether that is all.

        `follow`: the caller will ask again, so a line that is not complete yet is left for then.
        """
        with self.state() as state:
            over = not requests.record_of(state, job).active
        printed = self.journal.printed(job, rank, attempt, after)
        lines, length = [], 0
        for line in printed.more(last=over or not follow):
            lines.append(line)
            length += len(line.line)
            if len(lines) >= LOG_LINES or length >= LOG_CHARACTERS:
                return lines, printed.place, False
        return lines, printed.place, over

    def submit(self, request: SubmitRequest, key: str) -> None:
        """Ask the controller to run a job: once, however often this is called with the same key.

        Raises InputError or InfeasibleError if the controller would certainly refuse the job, and
        KeyTakenError if the key was used for another job.
        """
        requests.check_key(key)
        if any(part in key for part in NO_ADDRESS):
            raise InputError(f"a key must have none of {' '.join(NO_ADDRESS)} for a server, got {shown(key)}")
        with self._keys[hash(key) % len(self._keys)]:  # two requests with one key would write to one folder
            self._submit_once(request, key)

    def _submit_once(self, request: SubmitRequest, key: str) -> None:
        if self._is_known(request, key):
            return
        try:
            submission = self.uploads.submission(request, key)
            self.journal.submit(submission, job_class=request.job_class)
        except BaseException:
            if not self._is_known(request, key):
                self.uploads.drop(key)
            raise

    def _is_known(self, request: SubmitRequest, key: str) -> bool:
        with self.state() as state:
            earlier, answer = state.requests.waiting.get(key), state.requests.answers.get(key)
            if earlier is not None:
                before = earlier.text
            elif answer is not None and answer.job:
                before = state.jobs[answer.job].submitted.text
            else:
                return answer is not None
        if earlier is None and answer is not None:
            earlier = self._request_of(key, answer.job)
        if not self.uploads.is_same(request, before) or not (earlier is None or is_alike(request, earlier)):
            raise KeyTakenError("an Idempotency-Key must be for one job, got it with another; use a new one")
        return True

    def _request_of(self, key: str, job: str) -> SubmissionAsked | None:
        """Find the request that became a job; in the journal it is usually shortly before the job."""
        taken_in, within = next(iter(self.store.read(job=job))).seq, WITHIN
        while True:
            for record in self.store.read(after=max(0, taken_in - within), job=""):
                if isinstance(record.event, SubmissionAsked) and record.event.key == key:
                    return record.event
                if record.seq > taken_in:
                    break
            if within >= taken_in:
                return None
            within *= 8

    def tidy(self, now_s: float | None = None) -> None:
        """Remove uploaded files that no job needs any more."""
        now_s = time.time() if now_s is None else now_s
        self.uploads.sweep(now_s)
        # Listed before the journal is read, so that the folder of a job that comes meanwhile is not removed.
        folders = self.uploads.folders()
        with self.state() as state:
            unneeded = self._history.unneeded(state, folders, now_s)
        for name, older_than_s in unneeded.items():
            self.uploads.remove(name, older_than_s, now_s)

    def answer(self, key: str) -> RequestAnswer | None:
        """Return the controller's answer to a request, None while there is none; raises UnknownJobError."""
        with self.state() as state:
            if key not in state.requests.waiting and key not in state.requests.answers:
                raise requests.UnknownJobError("a request", key, state.requests.waiting)
            return state.requests.answers.get(key)


def _happening(record: Record, submitted: Submitted, paths: ServerPaths) -> dict[str, Any]:
    """Return an event as documented; for a decision also `because`, its rule in words."""
    event = paths.out_of_event(record.event)
    document = events_wire.as_json(record._replace(event=event), submitted)
    is_rule = isinstance(event, Decided) and event.why and " " not in event.why
    return {**document, "because": because(event.why)} if is_rule else document


def _details(record: JobRecord) -> dict[str, Any]:
    submitted = record.submitted
    return {
        **dataclasses.asdict(terms_of(submitted.text, submitted.path)),
        "key": submitted.key,
        "text": submitted.text,
        "home_pool": submitted.pool,
        "pools": list(submitted.pools),
        "class": submitted.fleet_class,
        "attempt": record.holding.attempt,
        "failures": record.progress.failures,
        "restarts": record.restarts,
        "lost_gpu_hours": record.progress.lost_gpu_hours,
        "spot_usd": record.money.bill.spot_usd,
        "on_demand_usd": record.money.bill.on_demand_usd,
        "began_hours": record.began_hours,
    }


Row = dict[str, Any]


class JobRows:
    """Makes the rows of the list of jobs, and caches those of jobs that have ended.

    Dashboards request the list all the time, so the rows of packed jobs are cached, too, compressed.
    """

    def __init__(self) -> None:
        self._ended: dict[str, tuple[JobStatus, Row]] = {}
        self._packed: dict[int, bytes] = {}

    def of(self, record: JobRecord, state: JournalState, in_charge: bool) -> tuple[JobStatus, Row]:
        known = self._ended.get(record.job)
        if known is None:
            status = listed(record, state, in_charge=in_charge)
            known = status, jobs_report.as_json(status)
            if record.ended is not None and record.job in state.jobs.at_hand:  # its row will not change
                self._ended[record.job] = known
        return known

    def at_hand(self, state: JournalState, in_charge: bool, only: Iterable[str] | None) -> dict[str, Row]:
        """Return the rows of jobs that are not packed: of all such jobs (None), or only of some."""
        records = state.jobs.at_hand
        for job in self._ended.keys() - records.keys():
            del self._ended[job]
        names = records if only is None else [job for job in only if job in records]
        return {job: self.of(records[job], state, in_charge)[1] for job in names}

    def newest_first(
        self, places: dict[str, int], rows: Mapping[str, Row], state: JournalState
    ) -> Iterator[Row]:
        """Yield the rows of the jobs in `places`: from `rows`, or from the block in which a job is packed."""
        opened: tuple[int, dict[str, Row]] = (AT_HAND, {})
        for job in reversed(places):
            if job in rows:
                yield rows[job]
                continue
            if opened[0] != places[job]:
                opened = places[job], self._unpacked(places[job], state)
            yield opened[1][job]

    def _unpacked(self, block: int, state: JournalState) -> dict[str, Row]:
        if block not in self._packed:
            self._packed[block] = zlib.compress(json.dumps(_rows(state.jobs, block, state)).encode(), 6)
        found: dict[str, Row] = json.loads(zlib.decompress(self._packed[block]))
        return found


def _rows(jobs: Jobs, block: int, state: JournalState) -> dict[str, Row]:
    """Return the rows of the jobs in a block; they have ended, so `in_charge` does not matter."""
    return {
        record.job: jobs_report.as_json(listed(record, state, in_charge=False))
        for record in jobs.unpacked(block)
    }
