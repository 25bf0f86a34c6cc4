"""The server: one process, asyncio for requests and one thread for the engine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from slacktide.app.jobs.controller import Setup
from slacktide.app.jobs.submission import Defaults
from slacktide.app.task_requests import Setting
from slacktide.app.tokens import Tokens
from slacktide.core.errors import BackendError, InputError, shown
from slacktide.service.access.gate import Doorkeeper
from slacktide.service.access.limits import Rate
from slacktide.service.access.sessions import sessions_of
from slacktide.service.application import make_app
from slacktide.service.dashboard.pages import pages
from slacktide.service.hub import Hub
from slacktide.service.journal_reader import JournalReader
from slacktide.service.runner import Runner
from slacktide.service.service import Service
from slacktide.service.tasks.task_worker import TaskWorker
from slacktide.service.uploads.upload_history import KEPT_DAYS

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
CONNECTIONS = 256
HEADERS_S = 20.0
"""How long a connection may take to send the headers of its request."""
HEADER_BYTES = 32 * 1024
KEEP_ALIVE_S = 15
WAITING = 128
"""Connections that may wait to be accepted."""
SHUTDOWN_S = 3
"""How long open requests may take when the server stops."""
SWITCH_S = 0.0005
"""How long a thread may keep the interpreter while others want it: a tenth of Python's default. The engine
gives it up at every file access, and has to wait for it each time."""
WARM_AFTER_S = 5.0
"""The first seconds of a server are for the jobs that it resumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the server listens, and how it is reached from elsewhere."""

    host: str = "127.0.0.1"
    port: int = 8470
    names: tuple[str, ...] = ()
    """Host names that clients use, in addition to those of the loopback."""
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    """Whether a proxy on this machine or network does TLS."""
    rate_per_s: float = field(default=200.0)
    warms_up: bool = True
    """Whether plans and back-tests are compiled ahead of the first request for one."""
    keep_days: float = KEPT_DAYS
    """How many days the files of jobs that came over the network are kept after their end."""

    def check(self) -> None:
        """Raise InputError where it would be reached from elsewhere without TLS."""
        if (self.certificate is None) != (self.key is None):
            raise InputError("--tls-cert and --tls-key must be given together, got one of them")
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise InputError(f"a TLS file must be there, found none at {file}")
        if not (self._is_loopback or self.certificate or self.behind_proxy):
            raise InputError(
                f"a server off the loopback must have TLS, got --host {self.host} without; give --tls-cert "
                "and --tls-key, or --behind-proxy where a proxy does TLS"
            )
        if (self.behind_proxy or not self._is_loopback) and not self.names:
            raise InputError(
                "a server that others reach must know its name, got none; give --name, as in "
                "--name slacktide.example.org"
            )

    @property
    def secure(self) -> bool:
        """Whether browsers reach it by TLS."""
        return self.certificate is not None or self.behind_proxy

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a request may be for."""
        return (*LOOPBACK_NAMES, *(name.lower() for name in self.names))

    def url(self, port: int) -> str:
        """Return where browsers find it, listening on a port."""
        host = self.names[0] if self.names else _shown(self.host)
        return f"{'https' if self.secure else 'http'}://{host}{'' if self.behind_proxy else f':{port}'}"

    @property
    def _is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Protocol(H11Protocol):
    """Closes connections whose first request does not arrive in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HEADERS_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the engine must release its GPUs before the server ends."""
        yield


def serve(journal: Path, address: Address, setup: Setup, tokens: Tokens, say: Callable[[str], None]) -> None:
    """Run jobs and answer requests until SIGINT or SIGTERM; raises what ends the engine otherwise."""
    address.check()
    sys.setswitchinterval(SWITCH_S)
    with contextlib.closing(_socket(address)) as listening:
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
    # What is loaded by now lives as long as the server. Frozen, it is not scanned by the garbage collector,
    # which would hold up the engine for longer than a step may be late.
    gc.collect()
    gc.freeze()
    hub = Hub(
        lambda after, job, most: reader.run(reader.page, after, job, most),
        reader.paths,
        lambda job: reader.run(reader.ended_by, job),
    )
    keeper = Doorkeeper(
        tokens=tokens,
        hosts=address.hosts,
        secure=address.secure,
        sessions=sessions_of(journal),
        requests=Rate(address.rate_per_s, 2 * address.rate_per_s),
    )
    tasks = TaskWorker(_setting(journal, setup.defaults))
    service = Service(
        reader, runner, keeper, tasks, hub, say, warm_after_s=WARM_AFTER_S if address.warms_up else None
    )
    server = Server(config_of(address, make_app(service, pages())))
    try:
        with _stopping(runner, server, service):
            url = f"{'https' if address.certificate else 'http'}://{_shown(address.host)}"
            listening.listen(WAITING)  # before `ready` is printed: a client may connect at once
            say(f"ready on {url}:{listening.getsockname()[1]}")
            await server.serve([listening])
    finally:
        reader.close()


def _setting(journal: Path, defaults: Defaults) -> Setting:
    """Return what the task process must know of the server."""
    return Setting(
        journal=str(journal), market=defaults.market, fleet=defaults.fleet, allocator=defaults.policy
    )


@contextlib.contextmanager
def _stopping(runner: Runner, server: Server, service: Service) -> Iterator[None]:
    """Stop in order on a signal: the engine first, which may take a while, then the open requests."""
    loop = asyncio.get_running_loop()

    def leave() -> None:
        server.should_exit = True
        service.hub.close()
        service.tasks.stop()

    def watch() -> None:
        runner.done.wait()
        with contextlib.suppress(RuntimeError):  # the loop is over already
            loop.call_soon_threadsafe(leave)

    def on_signal(number: int, frame: types.FrameType | None) -> None:
        service.say("stopping: the workers checkpoint, then all GPUs are released")
        runner.stop()

    threading.Thread(target=watch, name="engine-watch", daemon=True).start()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def config_of(address: Address, app: Any) -> uvicorn.Config:
    """Return uvicorn's configuration: with limits on connections, headers and time."""
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=address.behind_proxy,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        h11_max_incomplete_event_size=HEADER_BYTES,
        ssl_certfile=None if address.certificate is None else str(address.certificate),
        ssl_keyfile=None if address.key is None else str(address.key),
    )


def _socket(address: Address) -> socket.socket:
    """Take the port before anything else is started, so that a taken one changes nothing."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sets TCP_NODELAY only on sockets that name TCP; without it small answers are delayed.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address.host, address.port))
    except OSError as error:
        raise BackendError(
            f"the server must be able to listen on {shown(address.host)} port {address.port}, got: "
            f"{error.strerror}; name another with --port"
        ) from error
    return made


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
