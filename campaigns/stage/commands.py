"""Slacktide's own commands as real processes, forked from one that has everything imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from campaigns.waiting import wait_until

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a command that has ended said."""

    code: int
    """Minus the signal that ended it."""
    out: str
    err: str


class Command:
    """A command that runs, or has ended."""

    def __init__(self, nursery: Nursery, pid: int, out: Path) -> None:
        self.pid, self._nursery, self._out = pid, nursery, out
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        if self._code is None:
            self._code = self._nursery.ask({"pid": self.pid})["code"]
        return self._code

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self._printed(".out")

    @property
    def err(self) -> str:
        """What it has complained of so far."""
        return self._printed(".err")

    def _printed(self, suffix: str) -> str:
        path = Path(f"{self._out}{suffix}")
        # One that was killed at once may not have come to open its files.
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self, what: str = "") -> Said:
        """Wait until it has ended."""
        wait_until(lambda: self.code is not None, what or f"the end of {self._out.name}")
        assert self.code is not None
        return Said(self.code, self.out, self.err)

    def kill(self) -> None:
        """Kill it outright and see it gone."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.wait()


class Nursery:
    """Starts commands whose output goes into files of a folder."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder, self._count = folder, 0
        self._env = {**os.environ, **(env or {})}

    def __enter__(self) -> Self:
        path = os.pathsep.join(filter(None, [str(ROOT), self._env.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "campaigns.stage.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self._env, "PYTHONPATH": path},
            text=True,
            start_new_session=True,
        )
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(
        self, *argv: str, env: Mapping[str, str] | None = None, die_at: int = 0, before: bool = False
    ) -> Command:
        """Start a command; with `die_at` it is killed at its nth write into a journal, before it or after."""
        self._count += 1
        out = self.folder / f"{self._count:04d}-{argv[0]}"
        asked = {
            "argv": argv, "out": str(out), "cwd": str(self.folder), "env": dict(env or {}), "die_at": die_at,
            "before": before,
        }  # fmt: skip
        return Command(self, self.ask(asked)["pid"], out)

    def run(self, *argv: str) -> Said:
        """Run a command to its end."""
        return self.start(*argv).wait()

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Ask the nursery something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def tail(text: str, lines: int = 6) -> str:
    """Return the last lines of what a command printed, for a finding."""
    return " | ".join(text.strip().splitlines()[-lines:])


def nap(seconds: float) -> None:
    """Let time pass at random; nothing is expected to have happened by then."""
    time.sleep(seconds)


def words(argv: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return " ".join(["slacktide", *argv])
