"""What came of sending an alert to a hook."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said, or what kept it from saying anything."""

    accepted: bool
    said: str
    """In a few words, without anything secret."""
    wait_s: float = 0.0
    """How long the receiver asks to be left alone."""
    final: bool = False
    """Whether this alert will never be accepted."""
