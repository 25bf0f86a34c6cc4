"""A process with all of Slacktide imported that forks commands from itself: a controller in milliseconds.

Reads requests from its standard input, one JSON object a line, and answers each with one. What it forks is
the command line itself, in a session of its own. When its input ends it kills what it started and leaves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

WARM = (
    "slacktide.app.jobs.controller", "slacktide.app.journal.journal", "slacktide.app.jobs.submission",
    "slacktide.backends.local", "slacktide.backends.replay", "slacktide.cli.commands.jobs",
    "slacktide.cli.commands.run", "slacktide.cli.commands.server", "slacktide.cli.shared.screens",
    "slacktide.engine.bills.bill",
    "slacktide.engine.bills.audit", "slacktide.market.formats.table",
    "slacktide.policies.maximal_spot", "slacktide.policies.on_demand",
    "slacktide.policies.uniform_progress", "slacktide.policies.deadline_guard",
    "slacktide.report.text.tables.jobs", "slacktide.report.live.lines", "slacktide.report.live.screen",
    "slacktide.report.text.bills.cost_report", "pyarrow.csv", "yaml",
)  # fmt: skip
"""What commands import when they need it; one that is not there any more is no harm, only slower."""


def main() -> None:
    """Serve until the input ends."""
    _import_all()
    children: set[int] = set()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "argv" in asked:
            pid = _forked(asked)
            children.add(pid)
            answer: dict[str, int | None] = {"pid": pid}
        else:
            answer = {"code": _code(asked["pid"])}
            if answer["code"] is not None:
                children.discard(asked["pid"])
        print(json.dumps(answer), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _import_all() -> None:
    import importlib
    from contextlib import suppress

    for name in WARM:
        with suppress(ImportError):
            importlib.import_module(name)


def _code(pid: int) -> int | None:
    """Return how a child ended, minus the signal that ended it; None while it lives."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _forked(asked: dict[str, Any]) -> int:
    """Start a command and return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        _hear_signals()
        _redirect(Path(asked["out"]))
        os.chdir(asked["cwd"])
        os.environ.update(asked["env"])
        if asked["die_at"]:
            _die_at(asked["die_at"], before=asked["before"])
        code = _run(asked["argv"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _hear_signals() -> None:
    """Begin as from a terminal, though whoever started the campaign may ignore some (nohup, a shell's &)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _run(argv: list[str]) -> int:
    from slacktide.cli import run

    return int(run(argv))


def _redirect(out: Path) -> None:
    """Let a child read nothing and print into files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, suffix in ((1, ".out"), (2, ".err")):
        handle = os.open(f"{out}{suffix}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
        os.close(handle)


def _die_at(number: int, *, before: bool) -> None:
    """Let this process be killed at its nth append to a journal, just before it or just after it."""
    from slacktide.journal.store.sqlite import SqliteStore

    append, left = SqliteStore.append, [number]

    def fragile(store: SqliteStore, events: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        records = append(store, events)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return records

    SqliteStore.append = fragile  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    main()
