"""Sums that forget slowly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_WEIGHT = 1e100
"""Sums are scaled down when their weights grow beyond this ..."""
LEAST_SHARE = 1e-50
"""... and those below this share of a new one are dropped."""


@dataclass(slots=True)
class Fading:
    """Sums in which what is long past counts less and less."""

    memory: float
    """How many additions count, roughly."""
    weight: float = 1.0
    sums: dict[int, float] = field(default_factory=dict)

    def age(self) -> None:
        """Let what was added so far count a little less than what comes."""
        self.weight *= 1.0 + 1.0 / self.memory
        if self.weight > MOST_WEIGHT:
            scaled = {key: value / self.weight for key, value in self.sums.items()}
            self.sums = {key: value for key, value in scaled.items() if value > LEAST_SHARE}
            self.weight = 1.0

    def add(self, key: int, amount: float) -> None:
        """Add to the sum of a key."""
        self.sums[key] = self.sums.get(key, 0.0) + self.weight * amount

    def get(self, key: int) -> float:
        """Return a sum, in units of what is added now."""
        return self.sums.get(key, 0.0) / self.weight

    def remember(self) -> Mapping[str, Any]:
        """Return the sums as JSON values."""
        return {"weight": self.weight, "sums": [list(each) for each in self.sums.items()]}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take the sums that were written down."""
        self.weight, self.sums = memory["weight"], dict(memory["sums"])
