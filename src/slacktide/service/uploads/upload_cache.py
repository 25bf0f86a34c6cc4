"""A folder of uploaded files that wait to be used, each named by the SHA-256 of its content."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import BackendError, InputError, shown
from slacktide.core.files import make_private_folder

STALE_S = 600.0
"""A draft that has not grown for this long was abandoned; a server waits for a piece for a tenth of it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DRAFT = ".draft-"


class _File(NamedTuple):
    at_s: float
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadCache:
    """A folder of such files: each of a bounded size, all together, and for a bounded time.

    Where there is no room for another, the oldest file of the sender who holds most is removed.
    """

    folder: Path
    what: str  # what they are, in the plural
    most_bytes: int  # of one
    most_kept_bytes: int  # of all
    kept_s: float  # how long a file may wait since it was last requested
    _senders: dict[str, str] = field(default_factory=dict)
    """Who sent which file; the sender of one from before a restart is unknown."""
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held while room is made

    def has(self, digest: str) -> bool:
        """Whether a file of this digest is here; if so, it is kept for as long as a new one."""
        try:
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    def path(self, digest: str) -> Path:
        """Return where a file of this digest is, or would be; raises InputError unless it is a digest."""
        if not _DIGEST.fullmatch(digest):
            raise InputError(f"an upload must be named by its SHA-256 in hex, got {shown(digest)}")
        return self.folder / digest

    def draft(self) -> Path:
        """Make the file that an upload is written to at first; raises BackendError where there is no room."""
        make_private_folder(self.folder)
        draft = self.folder / f"{_DRAFT}{os.urandom(8).hex()}"
        with self._lock:
            self.tidy()
            self._make_room()
            draft.touch(mode=0o600, exist_ok=False)
        return draft

    def keep(self, draft: Path, digest: str, said: str, sender: str = "") -> None:
        """Keep a file that has arrived completely; raises InputError where its content has another digest."""
        if digest != said:
            draft.unlink(missing_ok=True)
            raise InputError(f"an upload must have the SHA-256 that it is sent under, got {digest[:12]}...")
        os.replace(draft, self.path(digest))
        self._senders[digest] = sender

    def tidy(self, now_s: float | None = None) -> None:
        """Remove files that have waited for too long, and abandoned drafts."""
        now_s = time.time() if now_s is None else now_s
        for one in self._files():
            is_draft = one.name.startswith(_DRAFT)
            if one.at_s < now_s - (min(STALE_S, self.kept_s) if is_draft else self.kept_s):
                self._remove(one)

    def _make_room(self) -> None:
        """Remove files until there is room for another of the largest size."""
        files = self._files()
        coming = sum(one.name.startswith(_DRAFT) for one in files)
        kept = sorted(one for one in files if not one.name.startswith(_DRAFT))
        over = sum(one.size_bytes for one in kept) - self.most_kept_bytes + (coming + 1) * self.most_bytes
        while over > 0:
            if not kept:
                raise BackendError(
                    f"{self.what} that wait must have at most {self.most_kept_bytes >> 20} MB, got more that "
                    "come at the same time; send it again later"
                )
            gone = self._oldest_of_most(kept)
            kept.remove(gone)
            self._remove(gone)
            over -= gone.size_bytes

    def _oldest_of_most(self, kept: list[_File]) -> _File:
        """Return the oldest file of the sender who holds most."""
        held: Counter[str] = Counter()
        for one in kept:
            held[self._senders.get(one.name, "")] += one.size_bytes
        most = max(held, key=lambda sender: held[sender])
        return next(one for one in kept if self._senders.get(one.name, "") == most)

    def _files(self) -> list[_File]:
        found: list[_File] = []
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):  # others come and go meanwhile
                about = path.stat()
                found.append(_File(about.st_mtime, path.name, about.st_size))
        return found

    def _remove(self, one: _File) -> None:
        (self.folder / one.name).unlink(missing_ok=True)
        self._senders.pop(one.name, None)
