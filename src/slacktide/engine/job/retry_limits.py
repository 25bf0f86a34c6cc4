"""How often a failed job is tried again, how long each try waits, and when a silent job counts as hung."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0  # between two tries of a job that failed


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How much a job may fail before it is given up."""

    failures: int = 3  # failures of its own in a row, without new checkpointed work between them
    preemptions: int | None = None  # times that spot workers may be taken; None means any number
    silent_s: float = 600.0  # seconds of the wall clock without progress after which it counts as hung

    def delay_s(self, in_row: int) -> float:
        """Return how long to wait before the next try: it doubles with each failure in a row."""
        return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** max(0, in_row - 1)))


USUAL = RetryLimits()
