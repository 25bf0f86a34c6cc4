"""Two runs of an allocator, compared decision by decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slacktide.checks.policy import CheckFailed


class Timed(Protocol):
    """Something that was decided at a time."""

    @property
    def now_hours(self) -> float: ...


def compare(one: Sequence[Timed], other: Sequence[Timed], until_hours: float, message: str) -> None:
    """Raise CheckFailed with this message unless all that was decided up to a time is the same."""
    left, right = ([each for each in all_of if each.now_hours <= until_hours] for all_of in (one, other))
    for before, after in zip(left, right, strict=False):
        if before != after:
            raise CheckFailed(f"{message}, got {before} and {after}")
    if len(left) != len(right):
        raise CheckFailed(f"{message}, got {len(left)} and {len(right)} decisions")
