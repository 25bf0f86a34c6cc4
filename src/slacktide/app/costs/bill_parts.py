"""The bill of a journal in parts: by owner, class, month or job, summed from the same stretches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from slacktide.app.journal.journal import Told
from slacktide.app.journal.listing import class_of, owner_of
from slacktide.core.errors import BackendError, UnknownNameError
from slacktide.journal.events import ClockSet, Kept, Lived, Record, Submitted
from slacktide.physics.ledger import CENT_USD, Priced, StretchSums, added
from slacktide.results.machines.bill_parts import BillPart

KEYS = ("owner", "class", "month", "job")
"""What a bill may be divided by."""


def parse_keys(text: str) -> tuple[str, ...]:
    """Read what a bill is to be divided by: one key, or several with commas; raises UnknownNameError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in KEYS:
            raise UnknownNameError("a part of a bill", name, KEYS)
    return names


def bill_parts(events: Iterable[Told], by: tuple[str, ...]) -> list[BillPart]:
    """Add up what every part of a journal cost; parts in the order of their names.

    A stretch belongs to the month (UTC) in which it began, on the market's clock. What no job used has no
    owner, class or job.
    """
    found: dict[tuple[str, ...], StretchSums] = {}
    for priced, submitted, month in _stretches(events):
        names = {
            "owner": "" if submitted is None else owner_of(submitted),
            "class": "" if submitted is None else class_of(submitted),
            "month": month,
            "job": priced.stretch.payer,
        }
        part = tuple(names[key] for key in by)
        found[part] = added(found.get(part, StretchSums()), priced)
    return [BillPart(part, found[part]) for part in sorted(found)]


def check_sum(parts: Iterable[BillPart], cost_usd: float) -> None:
    """Raise BackendError unless parts come to the whole bill, to the cent."""
    total = sum(one.bill.cost_usd for one in parts)
    if abs(total - cost_usd) >= CENT_USD:
        raise BackendError(
            f"the parts of a bill must add up to it, got {total:.2f} of {cost_usd:.2f} USD; "
            "the journal may have grown in between: ask again"
        )


def _stretches(events: Iterable[Told]) -> Iterator[tuple[Priced, Submitted | None, str]]:
    epoch: datetime | None = None
    for told in events:
        event = told.record.event
        if isinstance(event, ClockSet):
            epoch = datetime.fromisoformat(event.epoch_utc).astimezone(UTC)
        elif isinstance(event, Lived | Kept):
            month = _month(event.priced, told.record, epoch)
            yield event.priced, told.submitted if isinstance(event, Lived) else None, month


def _month(priced: Priced, record: Record, epoch: datetime | None) -> str:
    """Return the month of a stretch; in a journal without a clock, that in which it was written down."""
    hours = timedelta(hours=priced.stretch.from_hours)
    return f"{record.time_utc.astimezone(UTC) if epoch is None else epoch + hours:%Y-%m}"
