"""Silence is not taken for a standstill: what takes long is told, what is quick is not."""

from __future__ import annotations

import io
import sys
import time

import pytest

from slacktide.cli.shared.output import waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _until(said: io.StringIO, text: str) -> None:
    while text not in said.getvalue():
        time.sleep(0.001)  # a condition is waited for, not a time


def test_what_is_quick_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("solving", patience_s=3600.0):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_log_is_told_once_and_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with waiting("solving", patience_s=0.0):
        _until(said, "\n")
    begun, done, rest = said.getvalue().split("\n")
    assert begun == "solving ..."
    assert done.startswith("solving: done after ")
    assert rest == ""


def test_a_terminal_counts_and_is_cleared_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Terminal()
    monkeypatch.setattr(sys, "stderr", said)

    def broken() -> None:
        with waiting("solving", patience_s=0.0):
            _until(said, "solving ... 0 s")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert said.getvalue().endswith("\r\033[K")
