"""A bill in parts."""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.physics.ledger import StretchSums


@dataclass(frozen=True, slots=True)
class BillPart:
    """What one owner, class, month or job cost."""

    names: tuple[str, ...]
    """Which part it is, in the order of the keys that the bill is divided by; empty: of no job."""
    bill: StretchSums
