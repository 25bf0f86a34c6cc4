"""The environment variables by which Ray is configured where it has no other setting."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without it Ray replaces a loopback address by one that others can reach, and listens on all addresses."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""No usage data goes to Ray's makers, and it does not warn of GPUs that we do not request from it."""
CLIENT = "ray://"


def is_loopback(address: str) -> bool:
    """Whether `host:port` is this machine, for itself alone."""
    host = address.removeprefix(CLIENT).rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_environ(base: Mapping[str, str], token: Path | None) -> dict[str, str]:
    """Return variables with which Ray uses the token in a file; without a file, what the user has set."""
    if token is None:
        return dict(base)
    kept = {name: value for name, value in base.items() if name != "RAY_AUTH_TOKEN"}
    return {**kept, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}


def client_environ(base: Mapping[str, str], address: str, token: Path | None) -> dict[str, str]:
    """Return the variables of a client of the cluster at an address."""
    return {**token_environ(base, token), **QUIET, **(LOOPBACK if is_loopback(address) else {})}
