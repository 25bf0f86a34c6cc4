"""Output that nobody takes any more: what is printed while jobs run neither fails nor waits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slacktide.cli.shared import interruptions
from slacktide.cli.shared.interruptions import steady_output, until_pipe_closes


@contextmanager
def piped() -> Iterator[int]:
    """Let stdout lead into a pipe; lent is the end at which it is read."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield read


def test_what_is_printed_arrives() -> None:
    with piped() as pipe:
        with steady_output():
            print("one")
            sys.stdout.flush()
            assert os.read(pipe, 99) == b"one\n"
            print("two")
        assert os.read(pipe, 99) == b"two\n"
        os.close(pipe)


def test_row_10_a_reader_that_is_gone_is_no_failure() -> None:
    with piped() as pipe:
        with steady_output():
            os.close(pipe)
            for _ in range(100):
                print("x" * 1000, flush=True)
        print("x", flush=True)  # nor afterwards


def test_row_10_a_reader_that_sleeps_is_not_waited_for_and_told_what_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interruptions, "STALLED_S", 0.01)
    with piped() as pipe, steady_output():
        for number in range(1000):
            print(f"{number:0500}", flush=True)
        seen = os.read(pipe, 1 << 20)
        print("again", flush=True)
        later = os.read(pipe, 1 << 20)
        os.close(pipe)
    assert seen.startswith(b"0" * 500)
    assert 10_000 < len(seen) < 400_000
    assert later == interruptions.LEFT_OUT + b"again\n"


def test_row_10_a_full_disk_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with steady_output():
            for _ in range(9):
                print("x" * 1000, flush=True)


def test_results_end_with_their_reader() -> None:
    with piped() as pipe:
        os.close(pipe)
        with until_pipe_closes():
            print("x" * 100_000)
        print("x", flush=True)


def test_streams_that_lead_nowhere_are_left_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with steady_output():
        print("seen")
    assert capsys.readouterr().out == "seen\n"
    monkeypatch.setattr(sys, "stdout", None)
    with steady_output(), until_pipe_closes():
        print("unseen")
