"""How much a job may fail, be preempted or be silent before it is given up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How much a job may fail before it is given up."""

    failures: int = 3
    """Failures of its own in a row, without new checkpointed work between them."""
    preemptions: int | None = None
    """Times that spot workers may be taken; None means any number."""
    silent_s: float = 600.0
    """Seconds of the wall clock without progress after which it counts as hung."""
    backoff_s: float = 1.0
    """The wait before the first new try; it doubles with each failure in a row, up to a minute."""

    def delay_s(self, in_row: int) -> float:
        """Return how long to wait before the next try."""
        return float(min(60.0, self.backoff_s * 2.0 ** max(0, in_row - 1)))

    def preempted_too_often(self, times: int) -> bool:
        """Whether spot workers were taken more often than allowed."""
        return self.preemptions is not None and times > self.preemptions


USUAL = RetryLimits()
