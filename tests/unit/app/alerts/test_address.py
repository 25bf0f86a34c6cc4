"""A webhook leads only where it may: every address is judged, and the judged one is connected to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from slacktide.app.alerts.address import Forbidden, parse_target, refusal, resolved
from slacktide.app.alerts.sending import post
from slacktide.core.errors import InputError

from .parts_of_alerts import SECRET, receiver

PUBLIC = ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"]
OWN = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1",
    "2002:a00:1::", "::127.0.0.1", "198.18.0.1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "255.255.255.255", "240.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fd00:ec2::254", "100.100.100.200",
    "168.63.129.16", "::ffff:0.0.0.0",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_told(address: str) -> None:
    assert refusal(ipaddress.ip_address(address), private=False) == ""


@pytest.mark.parametrize("address", OWN)
def test_ones_own_network_must_be_allowed(address: str) -> None:
    assert "allow_private" in refusal(ipaddress.ip_address(address), private=False)
    assert refusal(ipaddress.ip_address(address), private=True) == ""


@pytest.mark.parametrize("address", NEVER)
def test_metadata_and_groups_are_never_told(address: str) -> None:
    assert refusal(ipaddress.ip_address(address), private=False)
    assert refusal(ipaddress.ip_address(address), private=True)


class Rebinding:
    """A name server that answers with another address every time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in self.answers.pop(0)]


def test_one_address_of_several_that_is_forbidden_forbids_all() -> None:
    target = parse_target("https://example.org/x")
    with pytest.raises(Forbidden, match=r"https://example\.org must not lead to a private address"):
        resolved(target, private=False, resolver=Rebinding(["8.8.8.8", "10.0.0.1"]))


def test_a_name_that_changes_its_mind_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = list[Any]()

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    names = Rebinding(["8.8.8.8"], ["127.0.0.1"])
    answer = post(parse_target("http://example.org/x"), "1", b"{}", b"", private=False, resolver=names)
    assert (names.asked, connected) == (1, [("8.8.8.8", 80)])
    assert (answer.accepted, answer.said) == (False, "Connection refused")


def test_what_was_looked_up_is_what_is_connected_to_and_the_host_is_the_name() -> None:
    with receiver() as server:
        port = server.server_address[1]
        target = parse_target(f"http://example.org:{port}/a?b=c")
        answer = post(target, "1", b"{}", SECRET, private=True, resolver=Rebinding(["127.0.0.1"]))
        assert answer.accepted
    (came,) = server.came
    assert (came.path, came.headers["Host"]) == ("/a?b=c", f"example.org:{port}")


def test_loopback_is_refused_by_name_and_in_odd_spellings() -> None:
    for host in ("localhost", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"):
        answer = post(parse_target(f"http://{host}/"), "1", b"{}", b"", private=False)
        assert not answer.accepted
        assert "must not lead to a private address" in answer.said


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://example.org/hush", "another scheme"),
        ("file:///hush", "another scheme"),
        ("https:///hush", "no host"),
        ("https://ann:hush@example.org/", "user or password"),
        ("https://example.org/hush#x", "after '#'"),
        ("https://example.org:99999/hush", "something else"),
        ("https://example.org/hu sh", "characters"),
        ("https://example.org/hush\r\nX: y", "characters"),
        ("https://exämple.org/hush", "characters"),
        ("http://[::1/hush", "something else"),
    ],
)
def test_other_addresses_are_refused_without_being_quoted(url: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_target(url)
    assert "hush" not in str(caught.value)


def test_only_scheme_and_host_are_shown() -> None:
    target = parse_target("https://hooks.slack.com/services/T/B/hush?x=hush")
    assert target.shown == "https://hooks.slack.com"
    assert "hush" not in repr(target)
    assert parse_target("http://[2001:db8::1]:8080/x").shown == "http://[2001:db8::1]:8080"
