"""Bills as they are told: the same words and the same keys, whoever asks and from where."""

from __future__ import annotations

from typing import Any, NamedTuple

from slacktide.app.costs.costs import JobCost, SiteCost
from slacktide.report.text.bills import job as job_report
from slacktide.report.text.bills import machines as machines_report
from slacktide.report.text.bills import site as site_report


class CostTold(NamedTuple):
    """A bill with its audit, ready to be shown."""

    document: dict[str, Any]
    """Under its documented keys."""
    text: str
    notes: tuple[str, ...]
    """What must be said of the markets that it rests on."""
    clean: bool
    """Whether the audit found nothing wrong."""


def job_cost_told(cost: JobCost) -> CostTold:
    """Tell the bill of a job."""
    drawn, audit, notes = cost
    document = {**job_report.as_json(drawn), "audit": job_report.audit_json(audit)}
    text = f"{job_report.text(drawn)}\n\n{job_report.audit_text(audit, drawn.cost_usd)}"
    return CostTold(document, text, notes, audit.clean)


def site_cost_told(cost: SiteCost) -> CostTold:
    """Tell the bill of a whole journal, with that of rented machines where there were any."""
    found, notes, rented = cost
    text = site_report.text(found)
    if rented is not None:
        text += f"\n\n{machines_report.text(rented, found.total.cost_usd)}"
    machines = None if rented is None else machines_report.as_json(rented)
    return CostTold({**site_report.as_json(found), "machines": machines}, text, notes, found.audit.clean)
