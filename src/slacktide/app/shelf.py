"""Files that were sent to a server and wait there to be used, named by what is in them."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from slacktide.errors import BackendError, InputError, shown
from slacktide.files import make_private_folder

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A folder of such files: each of a bounded size, all together, and for a bounded time."""

    folder: Path
    what: str
    """What they are, in the plural."""
    most_bytes: int
    """Of one."""
    most_kept_bytes: int
    """Of all."""
    kept_s: float
    """How long one may wait."""

    def has(self, digest: str) -> bool:
        """Whether a file of this digest is here."""
        return self.path(digest).is_file()

    def path(self, digest: str) -> Path:
        """Return where a file of this digest is, or would be; raises InputError for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise InputError(f"an upload must be named by its SHA-256 in hex, got {shown(digest)}")
        return self.folder / digest

    def draft(self) -> Path:
        """Return where a file is written while it comes; raises BackendError where there is no room."""
        make_private_folder(self.folder)
        self.tidy()
        held = sum(one.stat().st_size for one in self.folder.iterdir() if one.is_file())
        if held + self.most_bytes > self.most_kept_bytes:
            raise BackendError(
                f"{self.what} that wait must have at most {self.most_kept_bytes >> 20} MB in all, got more; "
                "wait until some are used or removed"
            )
        return self.folder / f".draft-{os.urandom(8).hex()}"

    def keep(self, draft: Path, digest: str, said: str) -> None:
        """Keep a file that has come whole; raises InputError where it is another than was said."""
        if digest != said:
            draft.unlink(missing_ok=True)
            raise InputError(f"an upload must have the SHA-256 that it is sent under, got {digest[:12]}...")
        os.replace(draft, self.path(digest))

    def tidy(self, now_s: float | None = None) -> None:
        """Remove files that have waited for too long."""
        until = (time.time() if now_s is None else now_s) - self.kept_s
        for one in self.folder.glob("*") if self.folder.is_dir() else ():
            if one.stat().st_mtime < until:
                one.unlink(missing_ok=True)
