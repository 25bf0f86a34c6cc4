"""The task process: makes plans, back-tests, bills and the like for the server; each takes seconds.

The server starts `python -m slacktide.service.tasks.task_process`, which reads one request per line of input
and writes progress and the answer as lines of output. With the argument `warm-up` it compiles the code of
plans and back-tests before the first request for one, at low priority: the first time on a machine that takes
a minute or two, and the machine code stays on disk. Either way the process ends when its input is closed,
even in the middle of a request, so it never outlives the server.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slacktide.app.task_requests import OutOfMemoryError, as_request
from slacktide.core.child_process import ParentProcess
from slacktide.core.errors import SlacktideError
from slacktide.service.tasks.task_worker import Setting
from slacktide.service.tasks.verbs import answer
from slacktide.simulation.compare import Progress

SHARE_OF_MEMORY = 0.5
"""The share of the machine's memory for this process: the controller and its workers need the rest."""
WARM_UP = "warm-up"  # the argument with which this process only compiles
REPORT_S = 0.2  # the least time between two reports of a request's progress


def main() -> None:
    """Answer requests until the input ends, or with the argument `warm-up` only compile."""
    parent = ParentProcess()  # its thread ends this process with the input
    if sys.argv[1:] == [WARM_UP]:
        with contextlib.suppress(OSError):
            os.nice(15)
        warm_up()
    else:
        answer_requests(parent)


def answer_requests(parent: ParentProcess) -> None:
    """Answer requests until the input ends; its first line is the server's `Setting`."""
    with contextlib.suppress(OSError):
        os.nice(5)  # the controller and the requests that the server answers itself come first
    _leave_memory()
    lines = parent.requests()
    setting: Setting = as_request(Setting, next(lines))
    for line in lines:
        parent.send(_answered(setting, line["verb"], line["request"], _now_and_then(parent.send)))


def _leave_memory() -> None:
    """Limit the memory of this process, so that a request that needs too much fails, and nothing else."""
    with contextlib.suppress(OSError, ValueError):  # memory size unknown, or the limit is lower already
        most = int(SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with contextlib.suppress(OSError):  # out of memory, Linux should kill this process first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _now_and_then(send: Callable[[dict[str, Any]], None]) -> Progress:
    """Return a callback that sends the progress of a request, at most once every REPORT_S."""
    due_s = time.monotonic() + REPORT_S

    def progress(done: int, total: int) -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + REPORT_S
            send({"progress": [done, total]})

    return progress


def _answered(setting: Setting, verb: str, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    try:
        return {"answer": answer(setting, verb, request, progress)}
    except Exception as error:  # any error is sent as the answer; the process goes on
        return {"error": error_document(error)}


def error_document(error: Exception) -> dict[str, Any]:
    """Return an error as data: its kind, its message, its exit code and its HTTP status."""
    if isinstance(error, MemoryError):
        error = OutOfMemoryError(
            "a request must be answered with half of the machine's memory, got one that needs more; request "
            "less: longer slots, fewer starts or an earlier deadline"
        )
    known = error if isinstance(error, SlacktideError) else SlacktideError()
    return {
        "kind": type(error).__name__ if error is known else "InternalError",
        "message": str(error) if error is known else f"something went wrong: {type(error).__name__}",
        "exit_code": known.exit_code,
        "status": known.http_status,
    }


JOB = """\
name: warm-up
resources: {accelerators: "H100:1..4"}
work: 6 gpu-hours
deadline: 4h
restart: 6m
checkpoint: {every: 10m}
market: synthetic:h100?days=4&slot=30m
"""
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("plan", {"text": JOB}),
    ("backtest", {"text": JOB, "starts": 40}),
)
"""The back-test has enough starts to use compiled code."""


def warm_up() -> None:
    """Do one task of each kind and ignore its result; an error would come again with a real request."""
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        setting = Setting(journal=str(Path(folder, "none.db")))
        for verb, request in REQUESTS:
            with contextlib.suppress(Exception):
                answer(setting, verb, request)


if __name__ == "__main__":
    main()
