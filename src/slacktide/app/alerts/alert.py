"""An alert: one event that people want to know of, in the form in which it is kept and sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias, get_args

from slacktide.journal.events import Record

Kind: TypeAlias = Literal["at-risk", "late", "done", "failed", "budget", "feed-stale", "machine-leaked"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # what a hook may be for
Format: TypeAlias = Literal["slacktide", "slack"]
FORMATS: tuple[Format, ...] = get_args(Format)  # in which form a webhook receives alerts
TEST = "test"  # the kind of the sample that `slacktide alerts test` sends
Detail: TypeAlias = str | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What happened that a hook wants to know of, reported once."""

    id: str  # the same each time it is sent, so that a receiver can drop it the second time
    kind: str  # one of KINDS, or TEST
    journal: str  # the id of the journal
    seq: int  # the number of the event that it is about
    time_utc: str  # when that event was written
    text: str  # a sentence
    job: str = ""  # the job that it is about; empty: it is about the fleet, the market or machines
    owner: str = ""  # whom the job's file names; empty: it names none
    details: Mapping[str, Detail] = field(default_factory=dict)

    def written(self) -> str:
        """Return it as it is kept."""
        return json.dumps(asdict(self), allow_nan=False)


def kept(body: str) -> Alert:
    """Return an alert that was kept."""
    return Alert(**json.loads(body))


def name_of(journal: str, record: Record, what: str) -> str:
    """Return the id of an alert about an event: its number, its kind, and a digest.

    The time is in the digest, because a journal that was restored from a copy counts its numbers again.
    """
    key = f"{journal}\0{record.seq}\0{record.time_utc.isoformat()}\0{what}"
    return f"{record.seq}-{what}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
