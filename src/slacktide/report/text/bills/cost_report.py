"""Bills with their audits as text and as JSON, the same for the command line and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.report.text.bills import job, machines, site

if TYPE_CHECKING:
    from slacktide.results.bill import JobCost
    from slacktide.results.machines.site_bill import SiteCost


class CostReport(NamedTuple):
    """A bill with its audit, ready to be shown."""

    document: dict[str, Any]  # under its documented keys
    text: str
    notes: tuple[str, ...]  # what users should know of the markets that it rests on
    clean: bool  # whether the audit found nothing wrong


def job_cost_report(cost: JobCost) -> CostReport:
    """Format the bill of a job."""
    bill, audit, notes = cost
    document = {**job.as_json(bill), "audit": job.audit_json(audit)}
    text = f"{job.text(bill)}\n\n{job.audit_text(audit, bill.cost_usd)}"
    return CostReport(document, text, notes, audit.clean)


def site_cost_report(cost: SiteCost) -> CostReport:
    """Format the bill of a whole journal, with that of rented machines if there were any."""
    found, notes, rented = cost
    text = site.text(found)
    if rented is not None:
        text += f"\n\n{machines.text(rented, found.total.cost_usd)}"
    document = {**site.as_json(found), "machines": None if rented is None else machines.as_json(rented)}
    return CostReport(document, text, notes, found.audit.clean)
