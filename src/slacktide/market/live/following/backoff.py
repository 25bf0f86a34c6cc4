"""How long to wait before a source is asked again: twice as long each time, up to a cap, never in step."""

from __future__ import annotations

import random

FIRST_S = 2.0
LONGEST_S = 900.0
LEAST_SHARE = 0.5


class Backoff:
    """Counts failures in a row, and says how long to wait after each.

    The wait is drawn from its upper half: whoever follows one source from many machines asks apart.
    """

    def __init__(
        self, first_s: float = FIRST_S, longest_s: float = LONGEST_S, seed: int | None = None
    ) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._random = random.Random(seed)
        self.failures = 0

    def after_failure(self, retry_after_s: float = 0.0) -> float:
        """Return how long to wait now, and not less than the source asks for."""
        wait_s = min(self._longest_s, self._first_s * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return max(retry_after_s, wait_s * self._random.uniform(LEAST_SHARE, 1.0))

    def worked(self) -> None:
        """Begin anew."""
        self.failures = 0
