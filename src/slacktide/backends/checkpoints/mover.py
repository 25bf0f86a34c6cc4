"""Saves and loads checkpoints in a child process, for controllers and agents, which must not wait.

No call blocks. One request is under way at a time; while one is, only the newest other one is remembered. A
child that dies, or shows no sign of life for long, is killed and its request has failed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

# Not from the vault, which the child alone needs.
from slacktide.backends.checkpoints.folder import LoadedCheckpoint, SavedCheckpoint
from slacktide.core.child_process import ChildProcess
from slacktide.files.store_url import parse_url

SILENT_S = 120.0
"""Longer than it takes to give up on a store that is down: a child that is silent for this long hangs."""
Kind: TypeAlias = Literal["save", "load"]


class Done(NamedTuple):
    """A request that was carried out."""

    kind: Kind
    attempt: int
    saved: SavedCheckpoint | None = None
    loaded: LoadedCheckpoint | None = None  # none of a load: the store holds nothing
    untidy: str = ""  # why what is not needed any more could not be removed; empty when it could


class Failed(NamedTuple):
    """A request that was not, and why."""

    kind: Kind
    attempt: int
    why: str
    fenced: bool = False  # whether trying again is in vain, because newer workers have saved


class _Request(NamedTuple):
    kind: Kind
    folder: str
    attempt: int
    share: float = 0.0


@dataclass(slots=True, kw_only=True)
class Mover:
    """The checkpoints of one job on their way; raises InputError for a URL that is none."""

    url: str
    owner: str
    job: str
    keep: int = 2
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the child has in addition to our own: the job's credentials."""
    silent_s: float = SILENT_S
    _child: ChildProcess = field(init=False, repr=False)
    _under_way: _Request | None = field(default=None, init=False)
    _next: _Request | None = field(default=None, init=False)
    _unsent: list[Failed] = field(default_factory=list, init=False)
    """Requests that could not be handed to a child, until the next poll reports them."""
    _last_sign_s: float = field(default=0.0, init=False)
    """When the child last wrote anything, or was given a request."""
    _id: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parse_url(self.url)
        self._child = ChildProcess("slacktide.backends.checkpoints.child", self.env)

    @property
    def busy(self) -> bool:
        """Whether anything is under way or waits for that."""
        return self._under_way is not None or self._next is not None

    @property
    def pid(self) -> int | None:
        """The child's process, None while there is none."""
        return self._child.pid

    def save(self, folder: Path, attempt: int, share: float) -> None:
        """Copy a folder to the store, as soon as nothing else is under way."""
        self._request(_Request("save", str(folder), attempt, share))

    def load(self, folder: Path, attempt: int) -> None:
        """Make a folder ready for an attempt: bring the newest checkpoint unless the folder has it."""
        self._request(_Request("load", str(folder), attempt))

    def poll(self) -> list[Done | Failed]:
        """Return what was done or failed since the last poll, and begin what waits."""
        found: list[Done | Failed] = [*self._unsent]
        self._unsent.clear()
        found += self._answers()
        found += self._lost()
        if self._under_way is None and self._next is not None:
            request, self._next = self._next, None
            self._send(request)
        return found

    def close(self) -> None:
        """End the child; what is under way is not done, and what was saved stays."""
        self._child.close()
        self._under_way = self._next = None

    def _request(self, request: _Request) -> None:
        if self._under_way is None:
            self._send(request)
        else:
            self._next = request

    def _send(self, request: _Request) -> None:
        """Hand a request to the child, which is started if there is none."""
        self._under_way, self._last_sign_s = request, time.monotonic()
        self._id += 1
        about = {"id": self._id, "url": self.url, "owner": self.owner, "job": self.job, "keep": self.keep}
        try:
            self._child.send({**about, **request._asdict()})
        except OSError as error:
            self._child.close(0.0)
            self._under_way = None
            why = f"the process that copies could not be started: {error.strerror or error}"
            self._unsent.append(Failed(request.kind, request.attempt, why))

    def _answers(self) -> list[Done | Failed]:
        found: list[Done | Failed] = []
        for message in self._child.receive():
            self._last_sign_s = time.monotonic()
            # Signs of life have no id, and an id of before belongs to a request that was given up.
            if self._under_way is not None and message.get("id") == self._id:
                found.append(_outcome(self._under_way, message))
                self._under_way = None
        return found

    def _lost(self) -> list[Done | Failed]:
        """Clear a child away that has died or hangs; return the failure of what it had under way."""
        code = self._child.exit_code
        silent_s = time.monotonic() - self._last_sign_s
        if code is None and (self._under_way is None or silent_s < self.silent_s):
            return []
        request, self._under_way = self._under_way, None
        self._child.close(0.0)
        if request is None:
            return []
        why = f"it ended with {code}" if code is not None else f"it did nothing for {silent_s:.0f} seconds"
        return [Failed(request.kind, request.attempt, f"the process that copies was lost: {why}")]


def _outcome(request: _Request, message: dict[str, Any]) -> Done | Failed:
    if "failed" in message:
        return Failed(request.kind, request.attempt, str(message["failed"]), bool(message.get("fenced")))
    saved, loaded = message.get("saved"), message.get("loaded")
    return Done(
        request.kind,
        request.attempt,
        SavedCheckpoint(**saved) if saved else None,
        LoadedCheckpoint(**loaded) if loaded else None,
        str(message.get("untidy", "")),
    )
