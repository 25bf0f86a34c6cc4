"""Which jobs of a list are wanted; the same on a journal of one's own and behind a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.core.units import parse_duration_hours
from slacktide.journal.events import Status
from slacktide.results.status import JobStatus

ACTIVE = "active"
"""Stands for all states but those of jobs that have ended."""
ENDED: tuple[str, ...] = get_args(Status)
STATES = (
    ACTIVE, "pending", "starting", "running", "recovering", "cancelling", "released", "unattended", "blocked",
    *ENDED,
)  # fmt: skip
LATE = ("late", "late-expected")
AS_SHOWN = {"out-of-money": "budget_exhausted"}
"""States by the word that lists show, where that is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What must hold for a job to be listed; what is left out holds for all."""

    states: tuple[str, ...] = ()
    job_class: str | None = None
    owner: str | None = None
    since: datetime | None = None
    late: bool = False
    most: int | None = None
    """Only the newest of those that are left."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(AS_SHOWN.get(state, state) for state in self.states))
        for state in self.states:
            if state not in STATES:
                raise UnknownNameError("a state", state, STATES)

    def kept(self, listed: Sequence[JobStatus]) -> list[JobStatus]:
        """Return the jobs for which all of it holds, in the order they came."""
        found = [one for one in listed if self._keeps(one)]
        return found if self.most is None else found[max(0, len(found) - self.most) :]

    def _keeps(self, one: JobStatus) -> bool:
        return (
            (not self.states or one.status in self.states or (ACTIVE in self.states and _is_active(one)))
            and self.job_class in (None, one.job_class)
            and self.owner in (None, one.owner)
            and (self.since is None or datetime.fromisoformat(one.submitted_utc) >= self.since)
            and (not self.late or one.health in LATE or one.status == "deadline_missed")
        )


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """Read a moment: so long ago (`2d`), or a date or time in ISO form, UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return (now or datetime.now(UTC)) - timedelta(hours=parse_duration_hours(text))
    except (InputError, OverflowError):
        must = "--since must be a duration such as 2d, or a date such as 2026-01-31"
        raise InputError(f"{must}, got {shown(text)}") from None


def _is_active(one: JobStatus) -> bool:
    return one.status not in ENDED
