"""The last that a job said of its own work, kept for the next controller.

It is known on the machines, but they may be gone; and a controller that has just begun would take the first
answer for the first report of workers that have reported for hours.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.workers.owned_folders import read_text
from slacktide.core.types import SavedEvidence

WRITE_S = 1.0  # how often it is written down at the most
SAVED: dict[str, SavedEvidence] = {"said": "said", "assumed": "assumed", "unknown": "unknown"}


class LastReport(NamedTuple):
    """The last that a job said of its own work, of whichever attempt."""

    done_share: float = 0.0
    checkpointed_share: float = 0.0
    saved: SavedEvidence = "said"
    metrics: Mapping[str, float] = {}
    at: float | None = None  # when, on the controller's clock; None: it never has
    grown_at: float = -math.inf
    attempt: int = 0
    part: str | None = None  # which machine sent it


class LastReportFile:
    """A note in the job's folder; one that cannot be written or read is no trouble, only less is known."""

    def __init__(self, place: Path) -> None:
        self._path = place / "said.json"
        self._kept = LastReport()
        self._kept_at = -math.inf

    def keep(self, said: LastReport, now: float) -> None:
        """Write down what is new, now and then."""
        fresh = said[:4] != self._kept[:4] or said.attempt != self._kept.attempt
        if said.at is None or not fresh or now - self._kept_at < WRITE_S:
            return
        self._kept, self._kept_at = said, now
        fact = {
            **said._asdict(), "metrics": dict(said.metrics), "at": time.time() - (now - said.at),
            "grown_at": time.time() - (now - said.grown_at),
        }  # fmt: skip
        draft = self._path.with_name(f".{self._path.name}")
        with suppress(OSError):
            draft.write_text(json.dumps({"format": 1, **fact}), encoding="utf-8")
            os.replace(draft, self._path)

    def read(self, now: float) -> LastReport:
        """Return what an earlier controller wrote down, with times on this one's clock."""
        try:
            fact = json.loads(read_text(self._path))
            ago_s = max(0.0, time.time() - float(fact["at"]))
            grown_s = max(0.0, time.time() - float(fact["grown_at"]))
            metrics = {str(name): float(value) for name, value in fact["metrics"].items()}
            self._kept = LastReport(
                float(fact["done_share"]), float(fact["checkpointed_share"]), SAVED[fact["saved"]], metrics,
                now - ago_s, now - grown_s, int(fact["attempt"]), str(fact["part"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return LastReport()
        return self._kept
