"""Notes of a table of live prices: where its rows come from, and what is assumed.

A table in CSV has no place for it, so it stands in a small file next to it, `prices.csv.notes.json`. It is
written whole or not at all. Without it, or where it is damaged, a table is read like any other.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slacktide.core.files import write_whole
from slacktide.market.formats.reading.samples import ASSUMED_SPOT_GPUS, MAX_SPOT_GPUS

ENDING = ".notes.json"
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotes:
    """All that the notes of a table say."""

    feed: str = ""
    """The source that is followed, as `aws:p5.48xlarge`."""
    zones: tuple[str, ...] = ()
    slot_hours: float | None = None
    """How far apart rows are meant to be; None: as they are."""
    spot_gpus: int = ASSUMED_SPOT_GPUS
    """Spot GPUs that are assumed where nothing was seen of a pool."""
    notes: tuple[str, ...] = ()
    """What the source does not report, and what is assumed instead."""
    trouble: str = ""
    """What keeps the source from answering, in a sentence; empty when it answered last time."""
    answered_utc: str = ""
    """When it last answered."""


BEFORE = TableNotes()
"""Those of a table that has none."""


def notes_path(path: str | Path) -> Path:
    """Return where the notes of a table are."""
    return Path(f"{path}{ENDING}")


def write_notes(path: str | Path, notes: TableNotes) -> None:
    """Write the notes of a table; raises FileError."""
    write_whole(notes_path(path), (json.dumps(asdict(notes), indent=1) + "\n").encode())


def read_notes(path: str | Path) -> TableNotes | None:
    """Return the notes of a table; None where it has none that can be read."""
    try:
        with notes_path(path).open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        return _checked(found)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _checked(found: dict[str, Any]) -> TableNotes:
    """Make notes from what stands in a file; raises ValueError, TypeError or KeyError."""
    slot_hours, spot_gpus = float(found["slot_hours"]), int(found["spot_gpus"])
    if not (math.isfinite(slot_hours) and slot_hours > 0 and 0 <= spot_gpus <= MAX_SPOT_GPUS):
        raise ValueError("not a length of slots or a count")
    return TableNotes(
        feed=str(found["feed"]),
        zones=tuple(map(str, found["zones"])),
        slot_hours=slot_hours,
        spot_gpus=spot_gpus,
        notes=tuple(map(str, found["notes"])),
        trouble=str(found["trouble"]),
        answered_utc=str(found["answered_utc"]),
    )
