"""What keeps single jobs from going on: noted as it is met, and told in the journal where it changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from slacktide.core.errors import SlacktideError
from slacktide.journal.events import Blocked, Event, Unblocked
from slacktide.journal.state.journal_state import JobRecord

Source: TypeAlias = Literal["market", "launch", "machine", "policy"]
"""Where trouble comes from: its market or file cannot be opened, its workers cannot be started as they are to
be, the machine they run on, who decides about it."""


class Troubles:
    """What is wrong with which job, as far as is known now."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Source, str]] = {}

    def note(self, job: str, source: Source, why: str) -> None:
        """Say what is wrong; nothing when it is empty."""
        if why:
            self._found.setdefault(job, {})[source] = why
        elif job in self._found:
            self._found[job].pop(source, None)
            if not self._found[job]:
                del self._found[job]

    def of(self, job: str) -> str:
        """Return all that is wrong with a job, in one sentence; empty when nothing is."""
        return "; ".join(self._found.get(job, {}).values())

    def has(self, job: str, source: Source) -> bool:
        """Whether a job has trouble from there."""
        return source in self._found.get(job, {})

    def having(self, source: Source) -> list[str]:
        """Return the jobs that have trouble from there."""
        return [job for job, found in self._found.items() if source in found]

    def news(self, tracks: Iterable[JobRecord], at_hours: float) -> list[Event]:
        """Say of which jobs the trouble is new, another one, or over."""
        told: list[Event] = []
        for track in tracks:
            why = self.of(track.job)
            if why and why != track.progress.blocked:
                told.append(Blocked(job=track.job, at_hours=at_hours, why=why))
            elif track.progress.blocked and not why:
                told.append(Unblocked(job=track.job, at_hours=at_hours))
        return told


def said(error: Exception) -> str:
    """Say what an error says; of one that is not ours, what kind it is too."""
    return str(error) if isinstance(error, SlacktideError) else f"{type(error).__name__}: {error}"
