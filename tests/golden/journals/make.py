"""Makes the journals of this folder with the engine on the replay back end, by a clock moved by hand.

`python -m tests.golden.journals.make` writes them anew; they stand for journals that users have.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slacktide.backend.replay import Replay
from slacktide.backtesting.selection import fresh
from slacktide.engine.engine import Engine
from slacktide.engine.lessons import begin_learning, learn_from
from slacktide.events import ClockSet, Closed, Opened
from slacktide.learn.saved import Saved
from slacktide.running import ask_cancellation, ask_preemption
from slacktide.store.sqlite import SqliteStore
from slacktide.submitting import submission

FOLDER = Path(__file__).parent
EPOCH = datetime(2026, 1, 5, 9, tzinfo=UTC)
PLACE = "/srv/jobs"
MARKET = "synthetic:volatile?seed=8&days=3&slot=30m&pools=2"
JOB = """\
name: {name}
run: python train.py
resources: {{accelerators: "H100:1..6"}}
work: 16 gpu-hours
speedup: {{amdahl: 0.96}}
deadline: 6h
restart: 6m
shrink: 3m
checkpoint: {{dir: ckpt, every: 15m}}
"""
MEMBER = """\
name: {name}
run: python train.py
class: {kind}
resources: {{accelerators: "H100:1..8"}}
work: {work} gpu-hours
speedup: {speedup}
restart: 3m
"""
FLEET = """\
budget: 7 gpus
classes:
  - {name: narrow, arrivals_per_hour: 1, work: 2 gpu-hours, speedup: {power: 0.6}, widths: 1..4}
  - {name: wide, arrivals_per_hour: 0.5, work: 4 gpu-hours, speedup: {amdahl: 0.95}, widths: 1..8}
"""


class Desk:
    """A controller of one journal whose clock is moved by hand."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.db"
        self.path.unlink(missing_ok=True)
        self.hours = 0.0
        self.store = SqliteStore(self.path, clock=lambda: EPOCH + timedelta(hours=self.hours))
        self.store.append([ClockSet(at_hours=0.0, epoch_utc=EPOCH.isoformat(), speed=1.0)])
        self.take_charge(4242)

    def take_charge(self, pid: int) -> None:
        """Begin as a new controller does, after a crash as well."""
        self.engine = Engine(self.store, Replay())
        opened = Opened(at_hours=self.engine.world.now_hours, pid=pid, host="desk", version="0.1.0")
        self.engine.write([opened])
        self.engine.recover()

    def submit(
        self, text: str, name: str, *, saved: Saved | None = None, fleet: str = "", **given: Any
    ) -> None:
        """Hand in a job file as the command line does."""
        now = EPOCH + timedelta(hours=self.hours)
        with tempfile.TemporaryDirectory() as folder:
            if fleet:
                given["fleet"] = str(Path(folder) / "fleet.yaml")
                Path(given["fleet"]).write_text(fleet, encoding="utf-8")
            asked = submission(
                text, f"{PLACE}/{name}.yaml", {"market": MARKET, **given}, job_id=name,
                at_hours=self.hours, now=now,
            )  # fmt: skip
        if fleet:
            asked = dataclasses.replace(asked, fleet_path=f"{PLACE}/fleet.yaml")
        self.engine.submit(asked if saved is None else begin_learning(asked, name, saved))

    def step(self, times: Iterable[float]) -> None:
        """Step at these hours, until all jobs have ended."""
        for hours in times:
            self.hours = hours
            self.engine.step(hours)
            if not self.engine.world.active:
                return

    def close(self, *, in_charge: bool = False) -> None:
        """Let go of the journal, or die in charge of it; the file is whole by itself afterwards."""
        if not in_charge:
            self.engine.write([Closed(at_hours=self.engine.world.now_hours)])
        self.store.close()
        with sqlite3.connect(self.path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("VACUUM")
        database.close()


def ticks(begin: float, end: float, every: float = 0.25) -> list[float]:
    """Return moments at which a controller looks."""
    return [begin + every * count for count in range(round((end - begin) / every) + 1)]


def finished() -> None:
    """A job whose policy the learner chose, which a crash of the controller interrupted, done in time."""
    desk = Desk("finished")
    with tempfile.TemporaryDirectory() as folder:
        saved = Saved(Path(folder) / "learned.json", fresh)
        desk.submit(JOB.format(name="finished"), "finished", saved=saved, policy="auto", start=60)
        desk.step(ticks(0.0, 2.0))
        desk.take_charge(4343)
        desk.step(ticks(3.6, 12.0))
        learn_from(desk.engine, desk.engine.world.jobs["finished"], saved)
    desk.close()


def unfinished() -> None:
    """A job half-way, whose controller is gone without a word."""
    desk = Desk("unfinished")
    desk.submit(JOB.format(name="unfinished"), "unfinished", policy="uniform-progress", start=90)
    desk.step(ticks(0.0, 2.75))
    desk.close(in_charge=True)


def stream() -> None:
    """Three jobs of a stream on the widths of their classes."""
    desk = Desk("stream")
    speedups = {"narrow": "{power: 0.6}", "wide": "{amdahl: 0.95}"}
    arrivals = [("one", "narrow", 2.0, 0.0), ("two", "wide", 4.0, 0.7), ("three", "narrow", 1.5, 1.25)]
    for name, kind, work, at_hours in arrivals:
        desk.step(ticks(desk.hours, at_hours, 0.05))
        desk.hours = at_hours
        text = MEMBER.format(name=name, kind=kind, work=work, speedup=speedups[kind])
        desk.submit(text, name, fleet=FLEET, policy="fixed-width")
    desk.step(ticks(desk.hours, 12.0, 0.05))
    desk.close()


def cancelled() -> None:
    """A job that the market and then a user preempted, and a user cancelled."""
    desk = Desk("cancelled")
    desk.submit(JOB.format(name="cancelled"), "cancelled", policy="maximal-spot", start=66)
    desk.step(ticks(0.0, 2.25))
    ask_preemption(desk.store, "cancelled", 1)
    desk.step(ticks(2.4, 3.15))
    ask_cancellation(desk.store, "cancelled")
    desk.step((3.2, 3.25))
    desk.close()


def whole_slots() -> None:
    """A job that pays whole slots, with a preemption, looked at when slots begin."""
    _whole_slots("whole-slots", ticks(0.0, 12.0, 0.5))


def whole_slots_unclean() -> None:
    """The same, looked at inside slots too: its last slot is billed to the moment of that look only."""
    _whole_slots("whole-slots-unclean", ticks(0.0, 12.0))


def _whole_slots(name: str, times: list[float]) -> None:
    desk = Desk(name)
    desk.submit(JOB.format(name=name) + "billing: slot\n", name, policy="uniform-progress", start=60)
    desk.step(times)
    desk.close()


MAKERS: tuple[Callable[[], None], ...] = (
    finished,
    unfinished,
    stream,
    cancelled,
    whole_slots,
    whole_slots_unclean,
)

if __name__ == "__main__":
    for make in MAKERS:
        make()
