"""Hooks, which receive alerts, and the contents of the alerts file that defines them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from slacktide.app.alerts.address import Target
from slacktide.app.alerts.alert import KINDS, TEST, Alert, Format, Kind
from slacktide.core.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A receiver of alerts: a webhook, or a command."""

    name: str
    target: Target | None = None  # the webhook's address; None: it is a command
    command: tuple[str, ...] = ()
    folder: Path = Path(".")  # where the command runs
    format: Format = "slacktide"
    on: tuple[Kind, ...] = KINDS
    jobs: tuple[str, ...] = ()  # patterns of the names of jobs; none: all jobs, and what is about no job
    owners: tuple[str, ...] = ()  # whose jobs; none: all owners', and what is about no job
    secret: bytes = field(default=b"", repr=False)  # what webhooks are signed with; empty: they are not
    allow_private: bool = False

    @property
    def shown(self) -> str:
        """Where it leads, as far as that may be shown: never the path, which may be a secret."""
        return f"command {Path(self.command[0]).name}" if self.target is None else self.target.shown

    def wants(self, alert: Alert) -> bool:
        """Whether an alert is to be sent to it."""
        if alert.kind == TEST:
            return True
        of_job = not self.jobs or any(fnmatchcase(alert.job, one) for one in self.jobs if alert.job)
        of_owner = not self.owners or alert.owner in self.owners
        return alert.kind in self.on and of_job and of_owner


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsFile:
    """The contents of an alerts file."""

    path: Path
    hooks: tuple[Hook, ...]
    dashboard: str = ""  # where browsers find the server; empty: where the server itself thinks they do
    notes: tuple[str, ...] = ()  # what its user should know, to be printed

    def hook(self, name: str) -> Hook:
        """Return the hook of a name; raises UnknownNameError."""
        found = next((hook for hook in self.hooks if hook.name == name), None)
        if found is None:
            raise UnknownNameError("a hook", name, [hook.name for hook in self.hooks])
        return found
