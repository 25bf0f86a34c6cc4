"""Whether something listens at the address of a Ray cluster: Ray itself would wait for it without an end."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from urllib.parse import urlsplit

from slacktide.core.errors import InputError, shown

PATIENCE_S = 5.0
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, this keeps Ray at 127.0.0.1; it must be set before Ray is imported."""


def check_installed() -> None:
    """Raise InputError unless Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("--on ray must find Ray, got none; pip install 'slacktide[ray]'")


def reach(address: str) -> None:
    """See that something listens there; raises InputError for what is no address, OSError where nothing does.

    Ray takes 127.0.0.1 for this machine's address in its network. A cluster that listens on loopback alone is
    not there, so in that case Ray is made to keep to the loopback.
    """
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return
    host, port = host_and_port(address)
    _knock(host, port)
    if host in ("127.0.0.1", "localhost") and not _listens(_own_address(), port):
        os.environ[LOOPBACK_ONLY] = "0"


def host_and_port(address: str) -> tuple[str, int]:
    """Read `HOST:PORT` or `ray://HOST:PORT`; raises InputError."""
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InputError(f"the address of a Ray cluster must be HOST:PORT, got {shown(address)}")
    return host, port


def _knock(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=PATIENCE_S).close()


def _listens(host: str, port: int) -> bool:
    try:
        _knock(host, port)
    except OSError:
        return False
    return True


def _own_address() -> str:
    """Return this machine's address in its network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 80))
        except OSError:  # no network at all
            return "127.0.0.1"
        return str(one.getsockname()[0])
