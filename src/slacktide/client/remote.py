"""A journal behind a server: the same verbs as on a local journal, for users with a token."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.jobs.submission import Submission, checkable
from slacktide.app.journal.journal import Journal
from slacktide.app.journal.listing import RecordedEvent
from slacktide.app.journal.logs import LogLine
from slacktide.app.markets.market import MarketSpec
from slacktide.app.task_requests import BacktestRequest, LearnRequest, PlanRequest, PoolName, SubmitRequest
from slacktide.backends.machines.launch_package import zipped
from slacktide.client.http import (
    Client,
    Document,
    OnProgress,
    ServerError,
    document,
    ignore_progress,
    strange,
)
from slacktide.core.errors import InputError, shown
from slacktide.core.yaml_tree import read_text
from slacktide.engine.job.launch_spec import secrets_of
from slacktide.files.job import parse_job
from slacktide.files.rewrite import with_tables, without_secrets
from slacktide.journal.codec import codec
from slacktide.journal.events import Ended, Record, Submitted
from slacktide.market.base import Market
from slacktide.market.formats.whole_market import whole_bytes
from slacktide.market.spec import is_feed, is_synthetic, parts_of
from slacktide.report.text.bills.cost_report import CostReport
from slacktide.results.bill import Bill
from slacktide.results.status import JobStatus, MachineStatus

WAIT_S = 20
JOBS = "/api/v1/jobs"
LEARNED = "/api/v1/learned"
Row = TypeVar("Row")
TaskRequest: TypeAlias = PlanRequest | BacktestRequest | LearnRequest
TASKS: dict[type[TaskRequest], str] = {
    PlanRequest: "/api/v1/plan", BacktestRequest: "/api/v1/backtest", LearnRequest: LEARNED,
}  # fmt: skip


class Waiting(NamedTuple):
    """A request that no controller has answered yet."""

    key: str
    path: str


class RemoteJournal:
    """Reads a journal through its server, and writes requests to its controller: the verbs of `Journal`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: no connection stays open between requests."""

    @property
    def in_charge(self) -> bool:
        return bool(self._journal()["in_charge"])

    def submit(self, submission: Submission, *, job_class: str = "") -> str:
        """Send a job with everything it needs from this machine, and return the key of the request."""
        key = submission.key or secrets.token_hex(8)
        if not key.isascii():
            raise InputError(
                f"a key for a server must be of ASCII letters, digits and signs, got {shown(key)}"
            )
        file = submission.file
        folder = zipped(Path(file.path).parent / (file.workdir or "."))
        request = _to_send(submission, job_class, self._uploaded("/api/v1/uploads", folder))
        body, headers = msgspec.to_builtins(request), {"idempotency-key": key}
        self._client.post(f"{JOBS}?wait=0", body, headers, again=True)
        return key

    def wait(self, key: str) -> str | None:
        while True:
            job = self._client.get(f"/api/v1/requests/{quote(key)}", wait=WAIT_S)["job"]
            if job is not None or not self.in_charge:
                return None if job is None else str(job)

    def cancel(self, job: str) -> bool:
        """Request that a job be ended; return whether it was a waiting submission, now withdrawn."""
        return bool(self._client.post(f"{JOBS}/{quote(job)}/cancel", {})["withdrawn"])

    def preempt(self, job: str, spot_gpus: int | None = None) -> None:
        self._client.post(f"{JOBS}/{quote(job)}/preempt", {"gpus": spot_gpus})

    def jobs(self) -> list[JobStatus]:
        return _all(JobStatus, self._client.get(JOBS)["jobs"])

    def waiting(self) -> list[Waiting]:
        return _all(Waiting, self._journal()["waiting"])

    def unfinished(self) -> dict[str, str]:
        """Return the jobs that have not ended, each with an empty path: only the server knows their files."""
        return dict.fromkeys(self._journal()["unfinished"], "")

    def events(
        self, job: str | None = None, *, follow: bool = False, after: int = 0
    ) -> Iterator[RecordedEvent]:
        known: dict[str, Submitted] = {}
        over = False
        for row in self._pages("/api/v1/events" if job is None else f"{JOBS}/{quote(job)}/events", after):
            recorded = _recorded(row, known)
            after, over = recorded.record.seq, over or isinstance(recorded.record.event, Ended)
            yield recorded
        if not follow or (over and job is not None):
            return
        until = {} if job is None else {"job": job, "until": "ended"}
        for frame in self._client.stream("/api/v1/events", after, form="journal", **until):
            if frame.kind != "over":
                yield _recorded(document(frame.data), known)

    def why(self, job: str) -> list[str]:
        return list(map(str, _rows(self._client.get(f"{JOBS}/{quote(job)}/why")["why"])))

    def logs(
        self, job: str, *, rank: int | None = None, attempt: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        place, wait = "", {"follow": "true"} if follow else {}
        while True:
            found = self._client.get(
                f"{JOBS}/{quote(job)}/logs", after=place, rank=rank, attempt=attempt, **wait,
                wait=WAIT_S if follow and place else None,
            )  # fmt: skip
            yield from _all(LogLine, found["lines"])
            same, place = place == found["next"], found["next"]
            if found["over"] or (not follow and same):
                return
            if follow and same and not place:
                time.sleep(0.2)

    def cost_report(self, job: str | None = None) -> CostReport:
        path = "/api/v1/cost" if job is None else f"{JOBS}/{quote(job)}/cost"
        found = self._client.request("GET", path, text="true")
        text, notes = str(found.pop("text")), tuple(_rows(found.pop("notes")))
        return CostReport(found, text, notes, found["audit"]["clean"])

    def bill(self, job: str) -> Bill:
        return read_bill(self.cost_report(job).document)

    def answer(self, request: TaskRequest, on_progress: OnProgress = ignore_progress) -> dict[str, Any]:
        """Plan or back-test a job, or learn from it, on the server; `made` has the forms that it `wants`."""
        path, again = TASKS[type(request)], not isinstance(request, LearnRequest)
        body = msgspec.to_builtins(request)
        found = self._client.request("POST", path, body, on_progress, again=again)
        return _with_made(found, request.wants)

    def learned(self, pool_of: PoolName | None = None, wants: Sequence[str] = ()) -> dict[str, Any]:
        """Return which policies have earned trust on the server; `made` has the forms in `wants`."""
        found = self._client.request("GET", LEARNED, pool_of=pool_of, wants=",".join(wants) or None)
        return _with_made(found, wants)

    def forget(self) -> None:
        """Delete what the server has learned about policies."""
        self._client.delete(LEARNED)

    def page(self, job: str) -> bytes:
        """Return the run of a job as an HTML page."""
        return self._client.file(f"{JOBS}/{quote(job)}/report")

    def picture(self, job: str, form: str) -> bytes:
        """Return the run of a job as a picture: png, svg or pdf."""
        return self._client.file(f"{JOBS}/{quote(job)}/plot", form=form)

    def job(self, job: str) -> dict[str, Any]:
        """Return one job with more details than `jobs` gives, under the documented keys."""
        return self._client.get(f"{JOBS}/{quote(job)}")

    def course(self, job: str) -> dict[str, Any]:
        """Return the course of a job so far, under the documented keys."""
        return self._client.get(f"{JOBS}/{quote(job)}/course")

    def speed(self) -> float:
        """Return how many times as fast as real time the server's clock runs."""
        return float(self._journal()["speed"] or 1.0)

    def machines(self) -> list[MachineStatus]:
        return _all(MachineStatus, self._client.get("/api/v1/machines")["machines"])

    def hooks(self) -> list[HookStatus]:
        return _all(HookStatus, self._client.get("/api/v1/alerts")["hooks"])

    def _journal(self) -> Document:
        return self._client.get("/api/v1/journal")

    def _pages(self, path: str, after: int) -> Iterator[dict[str, Any]]:
        place: int | None = after
        while place is not None:
            page = self._client.get(path, after=place, form="journal")
            yield from _rows(page["events"])
            place = page["next"]

    def send_market(self, market: Market) -> str:
        """Upload a market for plans and back-tests, unless the server has it, and return its digest."""
        return self._uploaded("/api/v1/uploads/markets", whole_bytes(market))

    def _uploaded(self, folder: str, content: bytes) -> str:
        """Send a file, unless the server has it, and return its digest."""
        digest = hashlib.sha256(content).hexdigest()
        try:
            self._client.get(f"{folder}/{digest}")
        except ServerError as error:
            if error.http_status != 404:
                raise
            self._client.put(f"{folder}/{digest}", content)
        return digest


def _to_send(submission: Submission, job_class: str, workdir: str) -> SubmitRequest:
    """Return a job as it is sent, with the values that its variables and secrets have on this machine."""
    file = parse_job(checkable(read_text(submission.file.path), job_class), path=submission.file.path)
    if submission.market.source or submission.fleet:
        raise InputError("a job for a server must leave its market and fleet to the server, got one")
    values = secrets_of(file, submission.envs)
    return SubmitRequest(
        text=with_tables(submission.text, file.path),
        name=Path(file.path).name,
        envs={name: values[name] for name, value in file.envs.items() if value is None},
        secrets={name: values[name] for name in file.secrets},
        policy=None if submission.policy is None else json.dumps(submission.policy),
        pool=submission.market.pool,
        sight=submission.sight,
        job_class=job_class,
        workdir=workdir,
    )


def text_to_send(path: str) -> str:
    """Return a job file as it is sent for a plan: with measured speedups, without the values of secrets."""
    return with_tables(without_secrets(read_text(path)), path)


def own_market(job: str, market: MarketSpec, *, read_own_way: bool) -> Market | None:
    """Return the market chosen for a job, or else named in its file, if it must be sent; None if it need not.

    A server has its own market and synthetic ones. With `read_own_way`, the user gave options for reading it,
    so a synthetic one is sent, too. Raises InputError for a live feed or a market that cannot be read.
    """
    named = market.source or parse_job(checkable(read_text(job)), path=job).market
    if named is None or (all(map(is_synthetic, parts_of(named))) and not read_own_way):
        return None
    if is_feed(named):
        raise InputError(
            f"a market for a server must be complete, got the live feed {named}; leave it out for the "
            "server's own, or name its file without 'feed:'"
        )
    return market.open(named)


def read_bill(document: Mapping[str, Any]) -> Bill:
    """Return a bill from its documented keys, where null stands for an infinite time or an unknown cost."""
    known = {field.name: document[field.name] for field in fields(Bill) if field.name in document}
    endless = {name: math.inf for name in ("finish_hours", "deadline_hours") if known[name] is None}
    gone = known["on_demand_alone_usd"] is None and known["clairvoyant_usd"] is None
    return Bill(**{**known, **endless, "pools": tuple(known.get("pools", ())), "market_gone": gone})


def _recorded(row: Mapping[str, Any], known: dict[str, Submitted]) -> RecordedEvent:
    try:
        event = codec.from_tree(row["event"])
        record = Record(int(row["seq"]), datetime.fromisoformat(row["time_utc"]), event)
    except InputError as error:  # the server is newer than this client
        raise ServerError(str(error), 4, 502) from error
    except (TypeError, ValueError) as error:
        raise strange("another form of event") from error
    if isinstance(event, Submitted):
        known[event.job] = event
    return RecordedEvent(record, known.get(event.job))


def _with_made(found: dict[str, Any], wants: Sequence[str]) -> dict[str, Any]:
    """Return the answer; raises ServerError if it lacks one of the forms in `wants`."""
    if wants and not (isinstance(found["made"], Mapping) and set(wants) <= set(found["made"])):
        raise strange("one without the requested forms")
    return found


def _rows(found: object) -> list[Any]:
    """Return a list in an answer; raises ServerError for anything else."""
    if not isinstance(found, list):
        raise strange("something else than a list")
    return found


def _all(kind: Callable[..., Row], found: object) -> list[Row]:
    """Return the rows of an answer; raises ServerError for rows of another form."""
    try:
        return [kind(**row) for row in _rows(found)]
    except TypeError as error:
        raise strange("rows of another form") from error


def open_server(
    url: str, token: str | None = None, notify: Callable[[str], None] = lambda line: None
) -> RemoteJournal:
    """Open the journal of a server; the token is taken from the environment unless it is given.

    `notify` gets a line when the server does not answer for a while.
    """
    return RemoteJournal(Client(url, token, notify))


AnyJournal = Journal | RemoteJournal  # a journal on this machine, or one behind a server
