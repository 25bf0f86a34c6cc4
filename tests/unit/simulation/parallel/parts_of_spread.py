"""Tasks for tests, in a module that other processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path


def note_and_wait(folder: str, _: int) -> None:
    """Write down the process that does this, and stay in it."""
    path = Path(folder) / "pid"
    (path.parent / "new").write_text(str(os.getpid()))
    os.rename(path.parent / "new", path)
    time.sleep(600)
