"""One width for all: what most teams do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slacktide.allocators.base import SettledWays, SettledWidths, allocators, allowed_widths, at_least_one
from slacktide.budget.fleet import Fleet


@allocators.register
@dataclass(frozen=True, slots=True)
class OneWidth:
    """Give every job the same width at once, whatever its class.

    A class that may not have this width gets the next narrower one it may have.
    """

    gpus: int = 4

    def __post_init__(self) -> None:
        at_least_one("gpus", self.gpus)

    def begin(self, fleet: Fleet) -> SettledWidths:
        """Look up each class's width."""
        widths = allowed_widths(fleet, self.gpus)
        return SettledWidths(SettledWays(widths, widths, np.zeros(len(fleet.classes))))
