"""How fast a server answers while its engine runs: many events, many listeners, a hundred requests a second.

`python -m benchmarks service`. The client, on the same machine, takes the times: they hold its work, too.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.snapshots import _lived_through, _renamed
from slacktide.app.tokens import tokens_of
from slacktide.journal.events import Decided, Ended, Event, Lived
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import keep
from slacktide.journal.store.sqlite import SqliteStore

EVENTS = int(os.environ.get("SLACKTIDE_BENCH_EVENTS", "1000000"))
JOBS, LISTENERS, RUNNING = 200, 20, 5
PER_S, SECONDS = 100.0, 30.0
SUBMITTED = int(os.environ.get("SLACKTIDE_BENCH_JOBS", "10000"))
AIM_S = 0.050
"""Of the slowest read in a hundred, and of what a step may be late."""
STEADY = 1.2
"""The memory after all jobs, as a share of that after a tenth of them."""
POLL_S = 0.05
IDLE = "(a thread of the client that only sleeps wakes so late)"
"""What the machine adds to times that are taken on it."""
JOB = """\
name: {name}
run: "true"
resources: {{accelerators: "H100:1..8"}}
work: {work} gpu-hours
deadline: 300h
policy: uniform-progress
"""
READS = (
    "/api/v1/jobs", "/api/v1/jobs?state=active", "/api/v1/jobs/job-7", "/api/v1/jobs/job-7/why",
    "/api/v1/jobs/job-7/events?limit=100", "/api/v1/jobs/job-7/logs", "/api/v1/events?limit=100",
    "/api/v1/events?after={any}&limit=100", "/api/v1/journal", "/api/v1/fleet",
    "/api/v1/markets?slots=100",    "/metrics", "/healthz",
)  # fmt: skip


def main() -> None:
    """Print the figures next to their aims."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.db")
        _written(path)
        with _Server(path) as server:
            print(f"ready after {server.ready_s:.1f} s, {server.rss_mb():.0f} MB")
            _cold_why(server)
            server.busy()
            listeners = [_Listener(server) for _ in range(LISTENERS)]
            quiet = server.gaps(lambda: time.sleep(SECONDS / 2))
            found: dict[str, list[float]] = {}
            loud = server.gaps(lambda: found.update(_loaded(server)))
            _print_reads(found)
            _print_steps(quiet, loud)
            print(
                f"{LISTENERS} listeners received {sum(one.received for one in listeners):,} events meanwhile"
            )
        with _Server(Path(folder, "many.db")) as server:
            _memory(server)


def _written(path: Path) -> None:
    """Write a journal of many events: jobs that lived through the same, again and again, until their end."""
    began, one = time.perf_counter(), list(_lived_through())
    begin = [event for event in one if not isinstance(event, Ended)]
    again = [event for event in one if isinstance(event, Lived | Decided)]
    state = JournalState()
    with SqliteStore(path) as store:
        for number in range(JOBS):
            events = [*begin, *_repeated(again, EVENTS // JOBS - len(one)), one[-1]]
            for record in store.append([_renamed(event, f"job-{number}") for event in events]):
                state.apply(record)
        keep(store, state)
    print(f"{state.seq:,} events of {JOBS} jobs written in {time.perf_counter() - began:.0f} s")


def _repeated(events: Sequence[Event], count: int) -> Iterator[Event]:
    for number in range(max(0, count)):
        yield dataclasses.replace(events[number % len(events)])


class _Server:
    """A server in a process of its own, on a dry back end."""

    def __init__(self, journal: Path) -> None:
        self._journal, self._log = journal, journal.with_suffix(".log")
        self.token = tokens_of(journal).add("bench", "submit")

    def __enter__(self) -> _Server:
        began = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slacktide", "serve", "--journal", str(self._journal), "--port", "0",
                 "--backend", "replay", "--speed", "60", "--rate", "100000"],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        while not (found := re.search(r"ready on (\S+)", self._log.read_text(encoding="utf-8"))):
            if self._process.poll() is not None:
                raise RuntimeError(self._log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        self._host = urlsplit(found[1]).netloc
        self.ready_s = time.perf_counter() - began
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that may be used again."""
        return http.client.HTTPConnection(self._host, timeout=300)

    def headers(self, **more: str) -> dict[str, str]:
        """Return the headers of a request."""
        return {
            "authorization": f"Bearer {self.token}",
            **{name.replace("_", "-"): each for name, each in more.items()},
        }

    def ask(
        self, connection: http.client.HTTPConnection, path: str, body: object = None, **more: str
    ) -> bytes:
        """Ask once, and see that it is answered."""
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, sent, self.headers(**more))
        answer = connection.getresponse()
        found = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {found[:200]!r}")
        return found

    def submit(self, connection: http.client.HTTPConnection, name: str, work: float, wait: int) -> None:
        """Submit a job."""
        body = {"text": JOB.format(name=name, work=work)}
        self.ask(connection, f"/api/v1/jobs?wait={wait}", body, idempotency_key=name)

    def busy(self) -> None:
        """Have jobs that run through all that follows."""
        connection = self.connection()
        for number in range(RUNNING):
            self.submit(connection, f"running-{number}", 400.0, 60)

    def rss_mb(self) -> float:
        """Return the memory of the process."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def gaps(self, do: Callable[[], object]) -> dict[float, float]:
        """Return how many gaps between steps were at most so long while something was done."""
        before = self._gaps()
        do()
        return {bound: count - before[bound] for bound, count in self._gaps().items()}

    def _gaps(self) -> dict[float, float]:
        text = self.ask(self.connection(), "/metrics").decode()
        rows = re.findall(r'step_gap_seconds_bucket\{le="([^"]+)"\} (\d+)', text)
        return {float(bound.replace("+Inf", "inf")): float(count) for bound, count in rows}


class _Listener(threading.Thread):
    """Reads a stream of events as long as there is one."""

    def __init__(self, server: _Server) -> None:
        super().__init__(daemon=True)
        self._server, self.received = server, 0
        self.start()

    def run(self) -> None:
        """Count the events received."""
        connection = self._server.connection()
        connection.request("GET", "/api/v1/events", headers=self._server.headers(accept="text/event-stream"))
        try:
            for line in connection.getresponse():
                self.received += line.startswith(b"id:")
        except (OSError, http.client.HTTPException, ValueError):
            return


def _cold_why(server: _Server) -> None:
    connection, times = server.connection(), []
    for number in range(10, 20):
        began = time.perf_counter()
        server.ask(connection, f"/api/v1/jobs/job-{number}/why")
        times.append(time.perf_counter() - began)
    said = f"why, of a job of {EVENTS // JOBS:,} events for the first time"
    print(f"{said}: {1e3 * max(times):.0f} ms at most")


def _loaded(server: _Server) -> dict[str, list[float]]:
    """Ask a hundred times a second, by turns and from four connections, and take the times."""
    for path in READS:
        server.ask(server.connection(), path.format(any=0))  # what is worked out once is worked out now
    found: dict[str, list[float]] = {path: [] for path in (IDLE, *READS)}
    askers = [threading.Thread(target=_asking, args=(server, number, found)) for number in range(4)]
    for one in askers:
        one.start()
    while any(one.is_alive() for one in askers):
        began = time.perf_counter()
        time.sleep(0.01)
        found[IDLE].append(time.perf_counter() - began - 0.01)
    return found


def _asking(server: _Server, first: int, found: dict[str, list[float]]) -> None:
    connection, until = server.connection(), time.perf_counter() + SECONDS
    due, number = time.perf_counter() + first / PER_S, first  # by turns, not all at once
    while due < until:
        time.sleep(max(0.0, due - time.perf_counter()))
        path, began = READS[number % len(READS)], time.perf_counter()
        server.ask(connection, path.format(any=7919 * (4 * number + first) % EVENTS))  # no page twice
        found[path].append(time.perf_counter() - began)
        due, number = due + 4 / PER_S, number + 1


def _print_reads(found: dict[str, list[float]]) -> None:
    count = sum(len(found[path]) for path in READS)
    load = f"{count / SECONDS:.0f} requests/s, {LISTENERS} listeners, {RUNNING} jobs running"
    print(f"{load}; ms, aim p99 <= {1e3 * AIM_S:.0f}:")
    for path, times in found.items():
        p50, p99 = (1e3 * float(np.percentile(times, share)) for share in (50, 99))
        missed = "" if path == IDLE or p99 <= 1e3 * AIM_S else "  MISSED"
        print(f"  p50 {p50:6.1f}  p99 {p99:6.1f}  n {len(times):4}  {path}{missed}")


def _print_steps(quiet: dict[float, float], loud: dict[float, float]) -> None:
    """Print how late steps were; what is late without requests, too, is the machine's doing."""
    for said, gaps in (("without requests", quiet), (f"at {PER_S:.0f} requests/s", loud)):
        total, late = gaps[float("inf")], gaps[float("inf")] - gaps[POLL_S + AIM_S]
        p50, p99, most = (_within_ms(gaps, share) for share in (0.5, 0.99, 1.0))
        print(
            f"steps {said}: {total:.0f}, late by p50 <= {p50}, p99 <= {p99}, at most <= {most} ms; "
            f"{late:.0f} by more than {1e3 * AIM_S:.0f} ms (aim 0)"
        )


def _within_ms(gaps: dict[float, float], share: float) -> str:
    """Return the bound within which a share of all steps came, after the pause that is meant."""
    bound = next(bound for bound, count in gaps.items() if count >= share * gaps[float("inf")])
    return f"{max(0.0, 1e3 * (bound - POLL_S)):.0f}"


def _memory(server: _Server) -> None:
    """Run many small jobs, and print the memory after the first tenth of them and after all."""
    connection, sizes = server.connection(), {0: server.rss_mb()}
    began = time.perf_counter()
    for number in range(1, SUBMITTED + 1):
        server.submit(connection, f"small-{number}", 0.01, 60 if number % 50 == 0 else 0)
        if number % (SUBMITTED // 10) == 0:
            sizes[number] = server.rss_mb()
    first, last = sizes[SUBMITTED // 10], sizes[SUBMITTED]
    words = ", ".join(f"{size:.0f}" for size in sizes.values())
    print(
        f"{SUBMITTED:,} jobs in {time.perf_counter() - began:.0f} s: {words} MB; {last / first:.2f} of what "
        f"it was after {SUBMITTED // 10:,} (aim {STEADY}), {1024 * (last - first) / (0.9 * SUBMITTED):.2f} "
        "KB a job (aim 1)"
    )


if __name__ == "__main__":
    main()
