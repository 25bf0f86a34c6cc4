"""Saves and loads in a child process, for those who must not wait: controllers and agents.

No call blocks. One request is under way at a time; while one is, only the newest other one is remembered. A
child that dies, or shows no sign of life for long, is killed and its request has failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from slacktide.backends.checkpoints.vault import Loaded, Saved
from slacktide.files.store_url import parse_url

SILENT_S = 120.0
"""Longer than a store that is down takes to be given up: who is silent for this long hangs."""
END_S = 1.0
"""How long a child may take to end when its input does."""
Kind: TypeAlias = Literal["save", "load"]


class Done(NamedTuple):
    """A request that was carried out."""

    kind: Kind
    attempt: int
    saved: Saved | None = None
    loaded: Loaded | None = None
    """None of a load: the store holds nothing."""
    untidy: str = ""
    """Why what is not needed any more could not be removed; empty when it could."""


class Failed(NamedTuple):
    """A request that was not, and why."""

    kind: Kind
    attempt: int
    why: str
    fenced: bool = False
    """Whether trying again is in vain, because newer workers have saved."""


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
    """Variables of the child beside our own: the job's credentials."""
    silent_s: float = SILENT_S
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _under_way: _Request | None = field(default=None, init=False)
    _next: _Request | None = field(default=None, init=False)
    _told: list[Failed] = field(default_factory=list, init=False)
    """What failed outside of a poll."""
    _rest: bytes = field(default=b"", init=False)
    _heard_s: float = field(default=0.0, init=False)
    _id: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parse_url(self.url)

    @property
    def busy(self) -> bool:
        """Whether anything is under way or waits for that."""
        return self._under_way is not None or self._next is not None

    @property
    def pid(self) -> int | None:
        """The child's process, None while there is none."""
        return None if self._child is None else self._child.pid

    def save(self, folder: Path, attempt: int, share: float) -> None:
        """Copy a folder to the store, as soon as nothing else is under way."""
        self._ask(_Request("save", str(folder), attempt, share))

    def load(self, folder: Path, attempt: int) -> None:
        """Make a folder ready for an attempt: bring the newest checkpoint unless the folder has it."""
        self._ask(_Request("load", str(folder), attempt))

    def poll(self) -> list[Done | Failed]:
        """Return what was done or failed since the last poll, and begin what waits."""
        found: list[Done | Failed] = [*self._told]
        self._told.clear()
        if self._child is not None:
            found += self._heard(self._read())
            found += self._lost(self._child)
        if self._under_way is None and self._next is not None:
            request, self._next = self._next, None
            self._send(request)
        return found

    def close(self) -> None:
        """End the child; what is under way is not done, and what was saved stays."""
        self._end(END_S)
        self._under_way = self._next = None

    def _ask(self, request: _Request) -> None:
        if self._under_way is None:
            self._send(request)
        else:
            self._next = request

    def _send(self, request: _Request) -> None:
        """Hand a request to the child, begun if need be."""
        self._under_way, self._heard_s = request, time.monotonic()
        self._id += 1
        about = {"id": self._id, "url": self.url, "owner": self.owner, "job": self.job, "keep": self.keep}
        if self._child is not None and self._child.poll() is not None:
            self._end(0.0)  # it died with nothing under way
        try:
            child = self._child or self._begin()
            assert child.stdin is not None
            child.stdin.write(json.dumps({**about, **request._asdict()}).encode() + b"\n")
            child.stdin.flush()
        except OSError as error:
            self._end(0.0)
            self._under_way = None
            why = f"the process that copies could not be started: {error.strerror or error}"
            self._told.append(Failed(request.kind, request.attempt, why))

    def _begin(self) -> subprocess.Popen[bytes]:
        # Nothing of the folder that we are in is imported, and a terminal's Ctrl-C is not for the child.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "slacktide.backends.checkpoints.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.env},
            start_new_session=True,
        )
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._rest = b""
        return self._child

    def _read(self) -> list[dict[str, Any]]:
        """Return the whole lines that the child has written meanwhile."""
        assert self._child is not None
        assert self._child.stdout is not None
        found = bytearray(self._rest)
        with suppress(BlockingIOError):
            while part := os.read(self._child.stdout.fileno(), 1 << 16):
                found += part
        *lines, self._rest = bytes(found).split(b"\n")
        if lines:
            self._heard_s = time.monotonic()
        return [json.loads(line) for line in lines]

    def _heard(self, facts: list[dict[str, Any]]) -> list[Done | Failed]:
        found: list[Done | Failed] = []
        for fact in facts:
            request = self._under_way
            if request is not None and fact.get("id") == self._id:
                found.append(_outcome(request, fact))
                self._under_way = None
        return found

    def _lost(self, child: subprocess.Popen[bytes]) -> list[Done | Failed]:
        """Return the failure of what a child had under way that died or hangs, and clear it away."""
        code = child.poll()
        silent_s = time.monotonic() - self._heard_s
        if code is None and (self._under_way is None or silent_s < self.silent_s):
            return []
        request, self._under_way = self._under_way, None
        self._end(0.0)
        if request is None:
            return []
        why = f"it ended with {code}" if code is not None else f"it did nothing for {silent_s:.0f} seconds"
        return [Failed(request.kind, request.attempt, f"the process that copies was lost: {why}")]

    def _end(self, patience_s: float) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(OSError):  # what it was not told any more
            assert child.stdin is not None
            child.stdin.close()
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _outcome(request: _Request, fact: dict[str, Any]) -> Done | Failed:
    if "failed" in fact:
        return Failed(request.kind, request.attempt, str(fact["failed"]), bool(fact.get("fenced")))
    saved, loaded = fact.get("saved"), fact.get("loaded")
    return Done(
        request.kind,
        request.attempt,
        Saved(**saved) if saved else None,
        Loaded(**loaded) if loaded else None,
        str(fact.get("untidy", "")),
    )
