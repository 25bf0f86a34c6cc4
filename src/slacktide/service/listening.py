"""The address and port on which the server listens, and uvicorn's configuration and limits."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from slacktide.core.errors import BackendError, InputError, shown
from slacktide.service.uploads.uploads import KEPT_DAYS

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
CONNECTIONS = 256
HEADERS_S = 20.0  # how long a connection may take to send the headers of its request
HEADER_BYTES = 32 * 1024
KEEP_ALIVE_S = 15
SHUTDOWN_S = 3  # how long open requests may still take when the server stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the server listens, and under which names and protocol clients reach it."""

    host: str = "127.0.0.1"
    port: int = 8470
    names: tuple[str, ...] = ()  # host names that clients use besides localhost; browsers get the first
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False  # whether a proxy on this machine or network does TLS
    rate_per_s: float = field(default=200.0)
    warms_up: bool = True  # whether code for plans and back-tests is compiled before the first request
    keep_days: float = KEPT_DAYS
    """Days for which uploaded files of a job are kept after its end."""

    def check(self) -> None:
        """Raise InputError for options that do not fit, such as other machines reaching it without TLS."""
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
        """Whether browsers use TLS, the server's own or a proxy's."""
        return self.certificate is not None or self.behind_proxy

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*LOOPBACK_NAMES, *(name.lower() for name in self.names))

    def url(self, port: int) -> str:
        """Return the URL for browsers when the server listens on this port."""
        host = self.names[0] if self.names else shown_host(self.host)
        return f"{'https' if self.secure else 'http'}://{host}{'' if self.behind_proxy else f':{port}'}"

    @property
    def _is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Protocol(H11Protocol):
    """Closes a connection whose first request does not arrive within HEADERS_S."""

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
        """Install no signal handlers: the engine must release its GPUs before the server exits."""
        yield


def config_of(address: Address, app: Any) -> uvicorn.Config:
    """Return uvicorn's configuration, with limits on connections, headers and time."""
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


def take_port(address: Address) -> socket.socket:
    """Bind the port before anything is started; raises BackendError if it is in use or not allowed."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sets TCP_NODELAY only on sockets made with IPPROTO_TCP; without it small answers lag.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address.host, address.port))
    except OSError as error:
        raise BackendError(
            f"the server must be able to listen on {shown(address.host)} port {address.port}, got: "
            f"{error.strerror}; name another with --port"
        ) from error
    return made


def shown_host(host: str) -> str:
    """Return a host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
