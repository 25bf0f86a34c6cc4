"""An alert, in the form in which it is kept and sent, and the hooks that receive it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from slacktide.app.alerts.address import Target
from slacktide.core.errors import UnknownNameError
from slacktide.journal.events import Record

Kind: TypeAlias = Literal["at-risk", "late", "done", "failed", "budget", "feed-stale", "machine-leaked"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # what a hook may be for
Format: TypeAlias = Literal["slacktide", "slack"]
FORMATS: tuple[Format, ...] = get_args(Format)  # in which form a webhook receives alerts
TEST = "test"  # the kind of the sample that `slacktide alerts test` sends
Detail: TypeAlias = str | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that happened in a journal and that hooks are notified of, once."""

    id: str  # the same each time it is sent, so that a receiver can drop it the second time
    kind: str  # one of KINDS, or TEST
    journal: str  # the id of the journal
    seq: int  # the number of the event that it is about
    time_utc: str  # when that event was written
    text: str  # a sentence
    job: str = ""  # the job that it is about; empty: it is about the fleet, the market or machines
    owner: str = ""  # the owner that the job's file names; empty: it names none
    details: Mapping[str, Detail] = field(default_factory=dict)

    def written(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)


def name_of(journal: str, record: Record, what: str) -> str:
    """Return the id of an alert about an event: its number, its kind, and a digest.

    The time is in the digest, because a journal that was restored from a copy uses its numbers again.
    """
    key = f"{journal}\0{record.seq}\0{record.time_utc.isoformat()}\0{what}"
    return f"{record.seq}-{what}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A receiver of alerts: a webhook, or a command."""

    name: str
    target: Target | None = None  # the webhook's address; None: it is a command
    command: tuple[str, ...] = ()
    folder: Path = Path(".")  # where the command runs
    format: Format = "slacktide"
    on: tuple[Kind, ...] = KINDS
    jobs: tuple[str, ...] = ()  # patterns of job names; none: all jobs, and alerts about no job
    owners: tuple[str, ...] = ()  # whose jobs; none: all owners', and alerts about no job
    secret: bytes = field(default=b"", repr=False)  # signs what is sent to a webhook; empty: it is not signed
    allow_private: bool = False

    @property
    def shown(self) -> str:
        """The command's name, or the webhook's scheme and host: never the path, which may be a secret."""
        return f"command {Path(self.command[0]).name}" if self.target is None else self.target.shown

    def wants(self, alert: Alert) -> bool:
        if alert.kind == TEST:
            return True
        of_job = not self.jobs or any(fnmatchcase(alert.job, pattern) for pattern in self.jobs if alert.job)
        of_owner = not self.owners or alert.owner in self.owners
        return alert.kind in self.on and of_job and of_owner


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsFile:
    """The contents of an alerts file."""

    path: Path
    hooks: tuple[Hook, ...]
    dashboard: str = ""  # where browsers find the server; empty: as the server says
    notes: tuple[str, ...] = ()  # warnings to print to the user

    def hook(self, name: str) -> Hook:
        """Return the hook with this name; raises UnknownNameError."""
        hooks = {hook.name: hook for hook in self.hooks}
        if name not in hooks:
            raise UnknownNameError("a hook", name, hooks)
        return hooks[name]
