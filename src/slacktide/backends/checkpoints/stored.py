"""Keeps a job's checkpoints in a store: loads them before workers start, saves them while they run and after.

Nothing here waits: a child process copies, and every step polls it for results. Work that the store has not
acknowledged does not count as checkpointed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from slacktide.backends.checkpoints.folder import STAMP, CheckpointCopy, has_files
from slacktide.backends.workers.job_folder import read_text, write_durably
from slacktide.backends.workers.launch import Launch
from slacktide.core.child_process import ChildProcess
from slacktide.files.store_url import parse_url

# Nothing is imported from the vault, which only the child needs.

SILENT_S = 120.0
"""A child that is silent for this long hangs: giving up on a store that is down takes less time."""
Action: TypeAlias = Literal["save", "load"]


class CopyResult(NamedTuple):
    """The result of a request."""

    kind: Action
    attempt: int
    checkpoint: CheckpointCopy | None = None  # None after a load: the store has none
    failure: str = ""  # why it failed; empty if it did not
    fenced: bool = False  # whether trying again is useless, because newer workers have saved


class _Request(NamedTuple):
    kind: Action
    folder: str
    attempt: int
    share: float = 0.0


@dataclass(slots=True, kw_only=True)
class Mover:
    """Copies one job's checkpoints through a child process; raises InputError for an invalid URL."""

    url: str
    owner: str
    job: str
    keep: int = 2
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the child gets in addition to our own: the job's credentials."""
    silent_s: float = SILENT_S
    _child: ChildProcess = field(init=False, repr=False)
    _under_way: _Request | None = field(default=None, init=False)
    _next: _Request | None = field(default=None, init=False)
    _unsent: list[CopyResult] = field(default_factory=list, init=False)
    """Requests for which no child could be started, until the next poll reports them."""
    _last_sign_s: float = field(default=0.0, init=False)
    """When the child last wrote anything, or was given a request."""
    _id: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parse_url(self.url)
        self._child = ChildProcess("slacktide.backends.checkpoints.vault", self.env)

    @property
    def busy(self) -> bool:
        """Whether a request is under way or waiting."""
        return self._under_way is not None or self._next is not None

    @property
    def pid(self) -> int | None:
        """The child's process, None while there is none."""
        return self._child.pid

    def save(self, folder: Path, attempt: int, share: float) -> None:
        """Copy a folder to the store once the request under way is done; replaces a request that waits."""
        self._request(_Request("save", str(folder), attempt, share))

    def load(self, folder: Path, attempt: int) -> None:
        """Load the newest checkpoint into a folder for an attempt, unless the folder already has it."""
        self._request(_Request("load", str(folder), attempt))

    def poll(self) -> list[CopyResult]:
        """Return which requests succeeded or failed since the last poll, and begin the one that waits."""
        unsent, self._unsent = self._unsent, []
        outcomes = [*unsent, *self._answers(), *self._lost()]
        if self._under_way is None and self._next is not None:
            request, self._next = self._next, None
            self._send(request)
        return outcomes

    def close(self) -> None:
        """End the child and drop its requests; what was saved stays."""
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
            self._unsent.append(CopyResult(request.kind, request.attempt, failure=why))

    def _answers(self) -> list[CopyResult]:
        outcomes = []
        for message in self._child.receive():
            self._last_sign_s = time.monotonic()
            # Signs of life have no id, and an older id belongs to a request that was given up.
            if self._under_way is not None and message.get("id") == self._id:
                outcomes.append(_outcome(self._under_way, message))
                self._under_way = None
        return outcomes

    def _lost(self) -> list[CopyResult]:
        """Remove a child that has died or hangs; return its request as failed."""
        code = self._child.exit_code
        silent_s = time.monotonic() - self._last_sign_s
        if code is None and (self._under_way is None or silent_s < self.silent_s):
            return []
        request, self._under_way = self._under_way, None
        self._child.close(0.0)
        if request is None:
            return []
        why = f"it ended with {code}" if code is not None else f"it did nothing for {silent_s:.0f} seconds"
        lost = f"the process that copies was lost: {why}"
        return [CopyResult(request.kind, request.attempt, failure=lost)]


def _outcome(request: _Request, message: dict[str, Any]) -> CopyResult:
    copy = message.get("checkpoint")
    return CopyResult(
        request.kind,
        request.attempt,
        CheckpointCopy(**copy) if copy else None,
        str(message.get("failed", "")),
        bool(message.get("fenced")),
    )


RETRY_S = 5.0  # how long to wait after a store could not be used
REST_S = 1.0  # how long to wait after a save: a job may report far more often than it should be copied
LAST_SAVE_S = 15.0
"""How much longer than the grace period the last save of an attempt may take before it is given up."""
LONGEST_REASON = 300  # the longest part of a store's error message that is shown
CREDENTIALS = ("AWS_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_")
"""Prefixes of the job's own variables that are used to open the store."""


class StoredCheckpoints:
    """The checkpoints of one job in its store, as far as they are known here."""

    def __init__(self, launch: Launch, owner: str, note: Path) -> None:
        spec = launch.spec
        assert spec.checkpoint_url is not None
        self.url = spec.checkpoint_url
        self.trouble = ""  # why the store cannot be used just now; empty when it can
        self.safe_share = read_note(note) or 0.0
        """How much work the newest checkpoint in the store holds."""
        self.over = 0  # the last attempt whose last save is over, whether it succeeded or not
        self._note = note
        self._folder, self._worked = launch.checkpoint_dir, spec.worked
        self._patience_s = spec.grace_s + LAST_SAVE_S
        self._mover = Mover(
            url=self.url,
            owner=owner,
            job=spec.job,
            keep=spec.checkpoint_keep,
            env={name: value for name, value in launch.variables.items() if name.startswith(CREDENTIALS)},
        )
        self._ready = 0  # the attempt for which the folder holds the newest checkpoint
        self._base_share = self.safe_share  # what the folder held when that attempt began
        self._not_before = -math.inf
        self._ending, self._give_up_at = 0, math.inf
        """The attempt whose workers have gone, and until when its last save is waited for."""

    def poll(self, now: float) -> None:
        """Take in the results of requests."""
        for outcome in self._mover.poll():
            if outcome.failure:
                self._failed(outcome, now)
            elif outcome.kind == "load":
                self._loaded(outcome, now)
            else:
                self._saved(outcome, now)

    def ready(self, attempt: int, reported_share: float, now: float) -> bool:
        """Whether the workers of an attempt may start; first loads the newest checkpoint for them.

        `reported_share` is the share of the work that was last reported to be saved.
        """
        if self._ready != attempt and not self._mover.busy and now >= self._not_before:
            self._worked |= reported_share > 0.0
            self._base_share = reported_share
            self._mover.load(self._folder, attempt)
        return self._ready == attempt

    def keep(self, attempt: int, reported_share: float | None, now: float) -> None:
        """Copy the folder if workers report to have saved what the store lacks; None: they report nothing."""
        if reported_share in (None, self.safe_share) or self._mover.busy or now < self._not_before:
            return
        self._mover.save(self._folder, attempt, reported_share or 0.0)

    def finish(self, attempt: int, reported_share: float | None, now: float) -> None:
        """Copy what workers left once all have gone; wait for that, but not forever."""
        if self.over == attempt:
            return
        share = self._base_share if reported_share is None else reported_share
        if self._ending != attempt:
            self._ending, self._give_up_at = attempt, now + self._patience_s
            self._save_last(attempt, share)
        elif now >= self._give_up_at:
            self.over = attempt
            self.close()
        elif not self._mover.busy and now >= self._not_before:
            self._save_last(attempt, share)

    def disown(self) -> None:
        """Note that no worker will save in this folder: the next attempt here loads from the store."""
        with suppress(FileNotFoundError):
            (self._folder / STAMP).unlink()

    def close(self) -> None:
        """End the child; a request under way is dropped."""
        self._mover.close()

    def rest(self) -> None:
        """End the child if it has nothing to do."""
        if not self._mover.busy:
            self._mover.close()

    def _save_last(self, attempt: int, share: float) -> None:
        if has_files(self._folder):
            self._mover.save(self._folder, attempt, share)
        else:  # they left nothing, or a user removed it: the store stays as it is
            self.over = attempt

    def _failed(self, outcome: CopyResult, now: float) -> None:
        verb = "loaded from" if outcome.kind == "load" else "saved to"
        reason = " ".join(outcome.failure.split())[:LONGEST_REASON]
        self.trouble = f"checkpoints could not be {verb} {self.url}: {reason}; retrying"
        self._not_before = now + RETRY_S
        if outcome.fenced and outcome.attempt == self._ending:
            self.over = outcome.attempt

    def _loaded(self, outcome: CopyResult, now: float) -> None:
        found = outcome.checkpoint
        if found is None and self._worked and not has_files(self._folder):
            self._not_before = now + RETRY_S
            self.trouble = (
                f"the store {self.url} must hold the checkpoints of a job that has worked, found none; put "
                f"them back there or into {self._folder}, or cancel the job and submit it to start over"
            )
            return
        self.trouble, self._ready = "", outcome.attempt
        if found is not None and found.copied:
            self._base_share = found.done_share
        self._acknowledge(0.0 if found is None else found.done_share)

    def _saved(self, outcome: CopyResult, now: float) -> None:
        assert outcome.checkpoint is not None
        self.trouble, self._not_before = "", now + REST_S
        self._acknowledge(outcome.checkpoint.done_share)
        if outcome.attempt == self._ending and not self._mover.busy:
            self.over = outcome.attempt

    def _acknowledge(self, share: float) -> None:
        self.safe_share = share
        with suppress(OSError):  # a full disk: the next controller only starts from an older, smaller share
            write_durably(self._note, f"{share!r}")


def read_note(path: Path) -> float | None:
    """Return the share of the work that a store was last known to hold; None if that was never known."""
    try:
        return float(read_text(path))
    except (OSError, ValueError):
        return None
