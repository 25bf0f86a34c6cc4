"""Compiles the code of plans and back-tests ahead of the first request for one.

Started by a server with `python -m slacktide.service.tasks.warm_up`: the first time on a machine it
compiles for a minute or two, at low priority, and leaves the machine code on disk for the task process.
It ends with its input, so it never outlives the server.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from slacktide.app.task_requests import Setting
from slacktide.core.child_process import ParentProcess
from slacktide.service.tasks.verbs import answer

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
"""As many starts of the back-test as are needed for it to use compiled code."""


def warm_up() -> None:
    """Do one task of each kind and drop the result; an error will come again with a real request."""
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        setting = Setting(journal=str(Path(folder, "none.db")))
        for verb, request in REQUESTS:
            with contextlib.suppress(Exception):
                answer(setting, verb, request)


def main() -> None:
    """Warm up, unless the input ends first."""
    ParentProcess()  # its thread ends this process with the input
    with contextlib.suppress(OSError):
        os.nice(15)
    warm_up()


if __name__ == "__main__":
    main()
