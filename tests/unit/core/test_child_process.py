"""A child process starts when needed, answers in lines, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.core.child_process import ChildProcess

PATIENCE_S = 60.0
CODE = """\
import os, signal, time
from slacktide.core.child_process import ParentProcess
parent = ParentProcess()
for request in parent.requests():
    print("what a library prints")
    if request.get("hang"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        time.sleep(1000)
    if request.get("die"):
        os._exit(7)
    for number in range(request.get("answers", 1)):
        parent.send({"id": request["id"], "number": number, "env": os.environ.get("GIVEN")})
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChildProcess]:
    (tmp_path / "echo_child.py").write_text(CODE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    made = ChildProcess("echo_child", {"GIVEN": "value"})
    yield made
    made.close(0.0)


def answers(child: ChildProcess, count: int) -> list[dict[str, object]]:
    """Wait until this many messages have come."""
    found: list[dict[str, object]] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until and not child.closed_output:
        found += child.receive(1.0)
    return found


def test_messages_come_in_order_and_what_is_printed_is_none(child: ChildProcess) -> None:
    assert child.receive() == []
    assert child.pid is None
    child.send({"id": 1, "answers": 3})
    assert [one["number"] for one in answers(child, 3)] == [0, 1, 2]
    child.send({"id": 2})
    assert answers(child, 1) == [{"id": 2, "number": 0, "env": "value"}]


def test_a_child_that_died_is_noticed_and_replaced(child: ChildProcess) -> None:
    child.send({"id": 1, "die": True})
    assert answers(child, 1) == []
    assert child.closed_output
    until = time.monotonic() + PATIENCE_S
    while child.exit_code is None and time.monotonic() < until:
        time.sleep(0.01)
    assert child.exit_code == 7
    child.send({"id": 2})
    assert [one["id"] for one in answers(child, 1)] == [2]


def test_a_child_that_hangs_ends_with_its_input_or_is_killed(child: ChildProcess) -> None:
    child.send({"id": 1, "hang": True})
    pid = child.pid
    assert pid is not None
    assert child.receive() == []
    child.close()
    assert child.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    child.send({"id": 2})
    stopped = child.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    child.close(0.0)
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


def test_a_child_ends_with_the_object_that_began_it(child: ChildProcess) -> None:
    other = ChildProcess("echo_child")
    other.send({"id": 1})
    pid = other.pid
    assert pid is not None
    del other
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
