"""What a campaign comes to: counts when all was well, a finding with its evidence when something was not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Tell: TypeAlias = Callable[[str], None]
"""Hears how far a campaign has come."""


class Finding(Exception):
    """Something that was promised did not hold."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.command = ""
        """Finds it again."""
        self.folder: Path | None = None
        """Holds the evidence; None where everything is in the sentence."""

    def __str__(self) -> str:
        """Say what was found, and how to see it again."""
        again = f"\n  again:    {self.command}" if self.command else ""
        return self.what + again + (f"\n  evidence: {self.folder}" if self.folder else "")


@contextmanager
def evidence(campaign: str, seed: int, count: int) -> Iterator[Path]:
    """Give a round of a campaign a folder, which is kept only if the round finds something.

    `count` is what the campaign needs to do the same round again.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"slacktide-{campaign}-{seed}-"))
    try:
        yield folder
    except Finding as finding:
        finding.command = f"python -m campaigns {campaign} --count {count} --seed {seed}"
        finding.folder = folder
        raise
    shutil.rmtree(folder, ignore_errors=True)
