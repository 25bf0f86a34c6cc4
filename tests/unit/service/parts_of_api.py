"""The application without a server: requests go in as ASGI does it, on a journal with a dry engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.jobs.controller import FilesRead, Intake
from slacktide.app.jobs.submission import Defaults, FleetText
from slacktide.app.markets.market import MarketSpec
from slacktide.app.tokens import tokens_of
from slacktide.backends.replay import Replay
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine
from slacktide.engine.job.journal_market import make_journal
from slacktide.journal.events import ClockSet, Opened
from slacktide.journal.store.env_values import values_of
from slacktide.journal.store.lease import JournalLease
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.policies.selection.policy_set import fresh
from slacktide.policies.selection.state_file import LearnedStateFile
from slacktide.service.access import Doorkeeper
from slacktide.service.handler_context import EngineWatch, HandlerContext
from slacktide.service.hub import Hub
from slacktide.service.journal_reader import JournalReader
from slacktide.service.metrics import Histogram
from slacktide.service.server import make_app
from slacktide.service.tasks.task_process import error_document
from slacktide.service.tasks.task_worker import QueuePosition, Setting, TaskError, TaskWorker
from slacktide.service.tasks.verbs import answer

JOB = """\
name: job
run: "true"
resources: {accelerators: "H100:1..4"}
work: 4 gpu-hours
deadline: 12h
policy: uniform-progress
market: synthetic:h100?days=4&slot=30m&seed=2
"""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Its body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What an error says."""
        return str(self.json["error"]["message"])


class StubRunner:
    """An engine thread that is always well."""

    is_well, steps, gaps = True, 7, Histogram("slacktide_engine_step_gap_seconds", "Gaps.")

    def now_hours(self) -> float:
        """Return where the market's clock stands."""
        return 1.0

    def hooks(self) -> list[HookStatus]:
        """Return where hooks for alerts stand: there are none."""
        return []


class DirectTasks:
    """Answers costly questions at once, in this process."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    async def run(
        self, verb: str, request: dict[str, Any], stamp: object = None, place: QueuePosition | None = None
    ) -> dict[str, Any]:
        """Answer a question as the process would."""
        try:
            return answer(self.setting, verb, request)
        except Exception as error:
            raise TaskError(error_document(error)) from error

    async def close(self) -> None:
        """End nothing."""


class House:
    """A journal with a dry engine that the test steps, and the application on it."""

    def __init__(
        self,
        folder: Path,
        market: MarketSpec | None = None,
        fleet: FleetText | None = None,
        **keeper: Any,
    ) -> None:
        self.path = folder / "journal.db"
        self.store = SqliteStore(self.path)
        make_journal(self.store)
        self.seconds = 0.0
        clock, files = Clock(3600.0, seconds=lambda: self.seconds), FilesRead()
        opened = Opened(at_hours=0.0, pid=1, host="here", version="0", backend="replay", machines="")
        self.store.append(
            [ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=3600.0), opened]
        )
        self.lease = JournalLease(self.path)
        self.lease.__enter__()
        self.engine = Engine(self.store, Replay(), open_job=files.job_context)
        self.engine.read_on()
        saved = LearnedStateFile(folder / "learn.json", fresh)
        self._intake = Intake(self.engine, clock, saved, files, values_of(self.path))
        self.tokens = tokens_of(self.path)
        self.submitter, self.reader = self.tokens.add("ann", "submit"), self.tokens.add("bob", "read")
        market = market or MarketSpec()
        self.journal_reader = JournalReader(self.path, fleet=fleet, market=market.source)
        self.said: list[str] = []
        hub = Hub(self.journal_reader)
        self.keeper = Doorkeeper(**{"tokens": self.tokens, "hosts": ("localhost", "127.0.0.1"), **keeper})
        learned = str(folder / "learn.json")
        setting = Setting(journal=str(self.path), market=market, fleet=fleet, learned=learned)
        tasks = cast(TaskWorker, DirectTasks(setting))
        self.defaults = Defaults(market=market, fleet=fleet)
        self.service = HandlerContext(
            self.journal_reader, cast(EngineWatch, StubRunner()), self.keeper, tasks, hub, self.said.append
        )
        self.app = make_app(self.service)

    def close(self) -> None:
        """Let go of the journal."""
        self.lease.__exit__(None, None, None)
        self.journal_reader.close()
        self.store.close()

    def take_in(self) -> None:
        """Answer what was asked, as a controller does."""
        self.engine.read_on()
        self._intake.answer(self.defaults)

    def live(self, hours: float) -> None:
        """Let market time pass."""
        self.seconds += hours
        self.engine.read_on()
        self.engine.step(self.seconds)

    def run_a_job(self) -> str:
        """Submit the everyday job, and have it taken in and decided about."""
        sent = self.ask("POST", "/api/v1/jobs?wait=0", {"text": JOB}, key="k")
        assert sent.status == 202, sent.body
        self.take_in()
        self.live(0.1)
        self.live(0.6)
        return "job"

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = "",
        key: str = "",
        **more: str,
    ) -> Answer:
        """Send a request, with the submitter's token unless another or none is given."""
        headers = {"host": "localhost", **{name.replace("_", "-"): value for name, value in more.items()}}
        if token is not None:
            headers["authorization"] = f"Bearer {token or self.submitter}"
        if key:
            headers["idempotency-key"] = key
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.send(method, path, headers, [raw])

    def send(self, method: str, path: str, headers: Mapping[str, str], pieces: list[bytes]) -> Answer:
        """Send a request in pieces, as ASGI does it."""
        return asyncio.run(called(self.app, method, path, headers, pieces))


def scope_of(method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return a request as ASGI says it."""
    place, _, query = path.partition("?")
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "path": place, "raw_path": place.encode(), "root_path": "", "scheme": "http",
        "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip


async def called(app: Any, method: str, path: str, headers: Mapping[str, str], pieces: list[bytes]) -> Answer:
    """Call an application once."""
    scope = scope_of(method, path, headers)
    left, sent = list(pieces), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], fields, b"".join(one.get("body", b"") for one in sent[1:]))
