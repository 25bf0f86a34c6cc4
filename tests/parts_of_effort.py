"""On how many examples a slow law is tried: on all of them where there is time, else on a third."""

from __future__ import annotations

import os

THOROUGH = "SLACKTIDE_THOROUGH"
"""The variable that has all examples tried, as `make thorough` does; they are the same ones and more."""
USUAL_PART = 3


def examples(thorough: int) -> int:
    """Return how many examples to try of those that a thorough run tries."""
    return thorough if os.environ.get(THOROUGH) else -(-thorough // USUAL_PART)
