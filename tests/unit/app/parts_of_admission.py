"""A controller's intake without a controller: an engine on the dry back end, on any store, at any hour."""

from __future__ import annotations

from pathlib import Path

from slacktide.app.jobs.controller import FilesRead, Intake
from slacktide.app.jobs.submission import Defaults
from slacktide.app.journal.journal import Journal
from slacktide.backends.replay import Replay
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import values_of
from slacktide.policies.selection.policy_set import fresh
from slacktide.policies.selection.state_file import LearnedStateFile

MARKET = "synthetic:h100?days=4&slot=30m&seed=2"
JOB = f"""\
name: job
run: "true"
resources: {{accelerators: "H100:1..4"}}
work: 4 gpu-hours
deadline: 12h
policy: uniform-progress
market: {MARKET}
"""


def write_job(folder: Path, *, more: str = "", name: str = "job.yaml", **changes: str) -> str:
    """Write the everyday job with changes of keys, and return its path."""
    text = JOB
    for key, value in changes.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
        text = "\n".join([*lines, f"{key}: {value}", ""])
    path = folder / name
    path.write_text(text + more, encoding="utf-8")
    return str(path)


class Desk:
    """Takes jobs in as a controller does, with a clock that the test moves."""

    def __init__(self, store: Store, folder: Path, defaults: Defaults | None = None) -> None:
        self.seconds = 0.0
        clock = Clock(3600.0, seconds=lambda: self.seconds)
        files = FilesRead()
        self.engine = Engine(store, Replay(), open_job=files.job_context)
        path = folder / "journal.db"
        self.values = values_of(path)
        self.intake = Intake(
            self.engine, clock, LearnedStateFile(folder / "learn.json", fresh), files, self.values
        )
        self.journal = Journal(store, path)
        self.defaults = defaults or Defaults()

    def answer(self) -> None:
        """Hear what was asked, and answer it."""
        self.engine.read_on()
        self.intake.answer(self.defaults)
