"""Which addresses a webhook may lead to: a host is looked up once, and only checked addresses are used.

A name that an attacker controls must not lead into the network of the controller (SSRF), not even when it
answers differently the second time it is looked up (DNS rebinding): there is no second time.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from slacktide.core.errors import BackendError, InputError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[..., Sequence[tuple[Any, ...]]]  # what `socket.getaddrinfo` is
PORTS = {"http": 80, "https": 443}
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
COMPATIBLE = ipaddress.IPv6Network("::/96")
"""IPv6 addresses that end with an IPv4 address, which is then the one that is reached."""
METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))
"""Where clouds hand credentials to machines; most use a link-local address, these do not."""


class Forbidden(BackendError):
    """An address to which nothing may be sent."""


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook's address; only scheme and host are ever shown, because the rest may be a secret."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The part of it that may be shown."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        """The host, with its port where that is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """Read a webhook's address; raises InputError, which does not quote it."""
    must = "must be http://HOST/PATH or https://HOST/PATH"
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise InputError(f"{must}, got characters that an address does not have; write them as %20 or xn--")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"{must}, got something else (not shown)") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise InputError(f"{must}, got another scheme or no host")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"{must}, got a user or password in it; use a secret instead")
    if parts.fragment:
        raise InputError(f"{must}, got a part after '#', which is never sent; leave it out")
    query = f"?{parts.query}" if parts.query else ""
    host = parts.hostname.partition("%")[0]
    return Target(parts.scheme, host, port or PORTS[parts.scheme], f"{parts.path or '/'}{query}")


def resolved(target: Target, *, private: bool, resolver: Resolver | None = None) -> list[Address]:
    """Look up the host, once; raises Forbidden if one of its addresses is not allowed.

    `private`: addresses of private networks are allowed. Raises OSError if the name is unknown.
    """
    look_up = resolver or socket.getaddrinfo
    rows = look_up(target.host, target.port, type=socket.SOCK_STREAM)
    found = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    for address in found:
        why = refusal(address, private=private)
        if why:
            raise Forbidden(f"{target.shown} must not lead to {why}, got {address}")
    return list(dict.fromkeys(found))


def refusal(address: Address, *, private: bool) -> str:
    """Return what is wrong with an address to which nothing may be sent; empty if sending is allowed."""
    inner = embedded(address)
    if inner is not None:
        return refusal(inner, private=private)
    if address in METADATA or address.is_link_local:
        return "a link-local address or a cloud's metadata"
    if address.is_multicast or address.is_unspecified or (address.is_reserved and not address.is_loopback):
        return "a multicast, unspecified or reserved address"
    if not address.is_global and not private:
        return "a private address without allow_private = true"
    return ""


def embedded(address: Address) -> Address | None:
    """Return the IPv4 address that an IPv6 address stands for; None if it does not stand for one."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None or address.sixtofour is not None:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    is_compatible = address in COMPATIBLE and not (address.is_loopback or address.is_unspecified)
    if address in NAT64 or is_compatible:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def literal(host: str) -> Address | None:
    """Return the address that a host is written as; None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
