"""The audit of a whole journal: the stretches of all payers together, so that spot sold twice shows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from slacktide.engine.bills.bill import at_market, left_out
from slacktide.engine.bills.pricing import BillPricing
from slacktide.engine.step import STOPPING, UNSEEN
from slacktide.journal.events import ClockSet, Decided, Held, Kept, Lived, Record, SiteOpened
from slacktide.physics import ledger
from slacktide.physics.ledger import Audit
from slacktide.physics.tariff import BY_THE_SECOND

NOT_CHOSEN = (UNSEEN.rule, STOPPING.rule)  # reasons of what was held although no policy chose to hold it then


class _Reported(NamedTuple):
    """A stretch as it is in the journal."""

    seq: int
    event: Lived | Kept
    clock: int  # how often the clock had been set: hours of two clocks do not lie on one line
    shared: bool
    """Whether its slot was seen and decided, on a market that all jobs shared: only there can spot be sold
    twice."""


def site_audit(pricing: Mapping[str, BillPricing], records: Iterable[Record]) -> Audit:
    """Price every stretch of a journal again, and see that no spot was held by two.

    Slots without a step, and workers that are being stopped, are paid as they were held, and are no
    overselling.
    `pricing` says of every job at which quotes.
    """
    reported = list(_reported(records))
    found = [
        _clock_audit(list(group), pricing) for _, group in itertools.groupby(reported, lambda one: one.clock)
    ]
    return Audit(
        sum(one.cost_usd for one in found),
        (*(gap for one in found for gap in one.gaps), *_gaps(reported)),
        tuple(wrong for one in found for wrong in one.wrong),
        tuple(moment for one in found for moment in one.oversold),
    )


def _clock_audit(reported: list[_Reported], pricing: Mapping[str, BillPricing]) -> Audit:
    """Audit the stretches that lie on one clock."""
    quotes = {job: one.quote for job, one in pricing.items()}
    stretches = [at_market(one.event.priced, quotes.get(one.event.job)) for one in reported]
    again = ledger.audit(
        stretches,
        lambda payer: pricing[payer].tariff if payer in pricing else BY_THE_SECOND,
        name=lambda number: f"event {reported[number].seq}",
    )
    shared = [each.stretch for one, each in zip(reported, stretches, strict=True) if one.shared]
    return dataclasses.replace(again, oversold=tuple(ledger.oversold(shared)))


def _reported(records: Iterable[Record]) -> Iterator[_Reported]:
    clock, shared = 0, False
    chosen: dict[str, Decided] = {}
    older: dict[str, bool] = {}
    for seq, _, event in records:
        match event:
            case ClockSet():
                clock, shared = clock + 1, False
            case SiteOpened():
                shared = True
            case Decided():
                chosen[event.job] = event
            case Held() if event.job in chosen:
                older[event.job] = event.attempt < chosen[event.job].attempt
            case Lived():
                yield _Reported(seq, event, clock, shared and _is_chosen(event.job, chosen, older))
            case Kept():
                yield _Reported(seq, event, clock, shared)


def _is_chosen(job: str, chosen: Mapping[str, Decided], older: Mapping[str, bool]) -> bool:
    """Whether a job holds what was decided: neither without a decision, nor a set that is being stopped."""
    return (job not in chosen or chosen[job].why not in NOT_CHOSEN) and not older.get(job, False)


def _gaps(reported: list[_Reported]) -> list[str]:
    """Return where time is missing between two stretches of a job though GPUs were held."""
    lived = [(one.seq, one.event) for one in reported if isinstance(one.event, Lived)]
    by_job = sorted(lived, key=lambda one: one[1].job)  # stable, so each job's stay in order
    groups = itertools.groupby(by_job, key=lambda one: one[1].job)
    return [gap for _, group in groups for gap in left_out(list(group))]
