"""The other side of the worker: asks it to try inputs, and ends it when one takes too much."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from campaigns.fuzz.verdict import Outcome

CPU_S = 45.0
"""Seconds of CPU after which an input is a hang; a plan for 4,000 GPUs takes half of it."""
WALL_S = 600.0
"""Seconds by the wall clock after which it is one, though it only waits: a machine may be busy."""
READY_S = 1800.0
"""How long a worker may take until it is ready, machine code included."""
LOOK_S = 0.5
INPUTS_A_WORKER = 1000
"""After this many a fresh worker goes on: what one input leaves in memory must not matter to the others."""
REPOSITORY = Path(__file__).parents[2]


class Watched:
    """A worker process that is begun when it is needed and begun again when it was ended."""

    def __init__(self, home: Path, seed: int, module: str = "campaigns.fuzz.worker") -> None:
        self._home, self._words = home, [sys.executable, "-m", module, str(seed)]
        self._process: subprocess.Popen[bytes] | None = None
        self._tried = 0

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def try_input(self, number: int) -> Outcome:
        """Have an input tried and return what became of it."""
        if self._tried >= INPUTS_A_WORKER:
            self._end()
        process = self._process or self._begin()
        self._tried += 1
        assert process.stdin is not None
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        return self._answer(process, CPU_S, WALL_S)

    def _begin(self) -> subprocess.Popen[bytes]:
        inputs = self._home / "inputs"
        inputs.mkdir(exist_ok=True)
        own = {"SLACKTIDE_HOME": str(self._home / "home"), "PYTHONPATH": str(REPOSITORY), "MPLBACKEND": "agg"}
        with (self._home / "worker.err").open("ab") as errors:
            self._process = subprocess.Popen(
                self._words,
                cwd=inputs,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **own},
            )
        self._tried = 0
        ready = self._answer(self._process, READY_S, READY_S)
        if ready.code != 0:
            raise RuntimeError(f"the worker must begin, got: {ready.trouble}")
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], cpu_s: float, wall_s: float) -> Outcome:
        """Wait for an answer, but for no longer than this."""
        assert process.stdout is not None
        began, used = time.monotonic(), _cpu_s(process.pid)
        while not select.select([process.stdout], [], [], LOOK_S)[0]:
            taken, passed = _cpu_s(process.pid) - used, time.monotonic() - began
            if taken > cpu_s or passed > wall_s:
                self._end()
                return Outcome(None, trouble=f"a hang: {taken:.0f} s of CPU, {passed:.0f} s by the clock")
        line = process.stdout.readline()
        if not line:
            self._end()
            said = (self._home / "worker.err").read_text(errors="replace")[-1500:]
            return Outcome(None, trouble=f"the end of the process (exit code {process.returncode}): {said}")
        return Outcome(*json.loads(line))

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
