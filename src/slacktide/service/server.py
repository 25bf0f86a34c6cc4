"""The server: one process that answers HTTP requests on an asyncio loop and runs the engine in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.tokens import Tokens
from slacktide.core.errors import SlacktideError
from slacktide.report.live.lines import EventLines
from slacktide.service.access import Doorkeeper, Gate, Rate, refused, sessions_of
from slacktide.service.dashboard.pages import pages
from slacktide.service.handler_context import EngineWatch, HandlerContext, pumping
from slacktide.service.hub import Hub
from slacktide.service.journal_reader import JournalReader
from slacktide.service.listening import Address, Server, config_of, shown_host, take_port
from slacktide.service.routes.endpoints import Endpoint, Handler, caller_of
from slacktide.service.routes.jobs import JobRoutes
from slacktide.service.routes.openapi import described
from slacktide.service.routes.server import ServerRoutes
from slacktide.service.routes.submissions import SubmissionRoutes
from slacktide.service.tasks.task_worker import Setting, TaskError, TaskWorker

WAITING = 128  # connections that may wait to be accepted
SWITCH_S = 0.0005
"""How long a thread may keep the interpreter lock while others want it: a tenth of Python's default. The
engine releases the lock at every file access, and then has to wait for it."""
WARM_AFTER_S = 5.0  # the first seconds of a server are for the jobs that it resumes
OPENAPI = "/api/v1/openapi.json"


def serve(journal: Path, address: Address, setup: Setup, tokens: Tokens, say: Callable[[str], None]) -> None:
    """Run jobs and answer requests until SIGINT or SIGTERM; raises the error if one ends the engine."""
    address.check()
    sys.setswitchinterval(SWITCH_S)
    with contextlib.closing(take_port(address)) as listening:
        url = address.url(listening.getsockname()[1])
        runner = Runner(journal, replace(setup, dashboard=url), say)
        runner.start()
        try:
            asyncio.run(_serving(journal, address, setup, tokens, runner, listening, say))
        finally:
            runner.stop()
            runner.join()
    if runner.left:
        say(f"not ended: {', '.join(runner.left)}; `slacktide serve` resumes them")
    if runner.error is not None:
        raise runner.error


class Runner:
    """Runs the engine, a controller of the journal, in a thread until `stop` is called."""

    def __init__(self, journal: Path, setup: Setup, say: Callable[[str], None]) -> None:
        self._journal, self._setup, self._say = journal, setup, say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._ready = threading.Event()
        self.watch = EngineWatch()
        self.error: BaseException | None = None
        """The error that ended the engine; None if `stop` did."""
        self.left: tuple[str, ...] = ()
        """The jobs that had not ended when the engine stopped."""

    def start(self) -> None:
        """Start the engine, and return when it controls the journal; raises the error that prevents it."""
        self._thread.start()
        while not (self._ready.wait(0.05) or self.watch.done.is_set()):
            pass
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ask the engine to release all GPUs and end; `watch.done` is set when it has."""
        self._stop.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            with Controller(self._journal, self._setup) as running:
                self.watch.now_hours, self.watch.stepped_s = running.clock.hours, time.monotonic()
                self.watch.hooks = running.hooks
                event_lines, seq = EventLines(named=True, began=running.began()), running.opened_seq

                def show(now_hours: float) -> None:
                    nonlocal seq
                    self.watch.stepped()
                    for record in running.news(seq):
                        seq = record.seq
                        if line := event_lines.news(record.event):
                            self._say(line)

                self._ready.set()
                running.run(
                    staying=True, show=show, stopping=self._stop.is_set,
                    complain=lambda error: self._say(f"problem, retrying: {error}"), report=self._say,
                )  # fmt: skip
                self.left = tuple(running.journal.unfinished())
        except BaseException as error:
            self.error = error
        finally:
            self.watch.done.set()


async def _serving(
    journal: Path,
    address: Address,
    setup: Setup,
    tokens: Tokens,
    runner: Runner,
    listening: socket.socket,
    say: Callable[[str], None],
) -> None:
    reader = JournalReader(journal, address.keep_days, setup.defaults.fleet, setup.defaults.market.source)
    await reader.run(reader.fold)
    # Objects loaded by now live as long as the server. Frozen, they are not scanned by the garbage collector,
    # which would delay the engine by more than a step may be late.
    gc.collect()
    gc.freeze()
    keeper = Doorkeeper(
        tokens=tokens,
        hosts=address.hosts,
        secure=address.secure,
        sessions=sessions_of(journal),
        requests=Rate(address.rate_per_s, 2 * address.rate_per_s),
    )
    own = setup.defaults
    setting = Setting(journal=str(journal), market=own.market, fleet=own.fleet, allocator=own.policy)
    tasks, warm_s = TaskWorker(setting), WARM_AFTER_S if address.warms_up else None
    context = HandlerContext(reader, runner.watch, keeper, tasks, Hub(reader), say, warm_after_s=warm_s)
    server = Server(config_of(address, make_app(context, pages())))
    try:
        with _stopping(runner, server, context):
            url = f"{'https' if address.certificate else 'http'}://{shown_host(address.host)}"
            listening.listen(WAITING)  # before `ready` is printed: clients may connect from then on
            say(f"ready on {url}:{listening.getsockname()[1]}")
            await server.serve([listening])
    finally:
        reader.close()


@contextlib.contextmanager
def _stopping(runner: Runner, server: Server, context: HandlerContext) -> Iterator[None]:
    """On a signal stop the engine first, which may take a while, and then the open requests."""
    loop = asyncio.get_running_loop()

    def leave() -> None:
        server.should_exit = True
        context.hub.close()
        context.tasks.stop()

    def watch() -> None:
        runner.watch.done.wait()
        with contextlib.suppress(RuntimeError):  # the loop is already closed
            loop.call_soon_threadsafe(leave)

    def on_signal(number: int, frame: types.FrameType | None) -> None:
        context.say("stopping: the workers checkpoint, then all GPUs are released")
        runner.stop()

    threading.Thread(target=watch, name="engine-watch", daemon=True).start()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def endpoints_of(context: HandlerContext) -> list[Endpoint]:
    groups = (JobRoutes(context), ServerRoutes(context), SubmissionRoutes(context))
    return [endpoint for group in groups for endpoint in group.endpoints()]


def make_app(context: HandlerContext, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Build the application; `pages` are addresses outside the API, behind the same access control."""
    endpoints = endpoints_of(context)
    document = described(endpoints)
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    async def description(request: Request) -> Response:
        return JSONResponse(document)

    async def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return _refused(error)
        if isinstance(error, ClientDisconnect):  # nobody reads this answer, but it is counted
            return refused(400, "a body must come whole, got a part")
        return context.error_response(error)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pumping(context):
            yield

    behind = Starlette(
        routes=[
            *(
                Route(path, _behind(context, methods), methods=[*methods])
                for path, methods in by_path.items()
            ),
            Route(OPENAPI, description, methods=["GET"]),
            *pages,
        ],
        exception_handlers=dict.fromkeys(
            (SlacktideError, TaskError, HTTPException, ClientDisconnect, Exception), failed
        ),
        lifespan=lifespan,
    )
    return Gate(behind, context.keeper, context.counts.answered)


def _behind(context: HandlerContext, methods: Mapping[str, Endpoint]) -> Handler:
    """Return the handler of a path, which first checks the caller's role and times quick answers."""

    async def answer(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        if not caller_of(request).may(endpoint.role):
            if caller_of(request).role is None:
                return refused(401, "a request must have a token, got none")
            return refused(403, f"this needs a token with the role {endpoint.role}, got another")
        began = time.perf_counter()
        response = await endpoint.handler(request)
        if endpoint.timed:
            context.counts.reads.add(time.perf_counter() - began)
        return response

    return answer


def _refused(error: HTTPException) -> Response:
    """Return the answer to an error of the router, with a message in our own words."""
    messages = {404: "nothing was found at this address", 405: "this address does not support that method"}
    answer = refused(error.status_code, messages.get(error.status_code, error.detail))
    if error.headers:
        answer.headers.update(error.headers)
    if error.status_code == 405:
        answer.headers["allow"] = ", ".join(sorted(answer.headers["allow"].split(", ")))
    return answer
