"""What receivers of alerts get: JSON under stable keys, or what Slack takes, and a signature."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import quote

from slacktide.app.alerts.alert import Alert, Format

VERSION = 1  # of the form of the JSON; keys may be added to it, none is taken away
SIGNATURE = "Slacktide-Signature"
SLACK_CHARACTERS = 3000  # the most that Slack shows of a text without folding it away
TITLES = {
    "at-risk": "At risk",
    "late": "Late",
    "done": "Done",
    "failed": "Failed",
    "budget": "Budget",
    "feed-stale": "Market feed",
    "machine-leaked": "Machine without owner",
    "test": "Test",
}


def body(alert: Alert, form: Format, dashboard: str = "") -> bytes:
    """Return what is sent for an alert; `dashboard` is where browsers find the server, empty: nowhere."""
    link = page(alert, dashboard)
    document_ = slack(alert, link) if form == "slack" else document(alert, link)
    return json.dumps(document_, allow_nan=False).encode()


def document(alert: Alert, link: str) -> dict[str, Any]:
    """Return an alert under its documented keys."""
    return {
        "version": VERSION,
        "id": alert.id,
        "kind": alert.kind,
        "text": alert.text,
        "job": alert.job or None,
        "owner": alert.owner or None,
        "time_utc": alert.time_utc,
        "journal": alert.journal,
        "seq": alert.seq,
        "url": link or None,
        "details": dict(alert.details),
    }


def slack(alert: Alert, link: str) -> dict[str, Any]:
    """Return an alert as Slack's incoming webhooks take it, and what is compatible with them."""
    text = _escaped(alert.text[:SLACK_CHARACTERS])
    more = f" (<{_escaped(link)}|open>)" if link else ""
    return {"text": f"*{TITLES[alert.kind]}*: {text}{more}"}


def page(alert: Alert, dashboard: str) -> str:
    """Return the page of the dashboard that an alert is about; empty where there is none."""
    if not dashboard:
        return ""
    base = dashboard.rstrip("/")
    if alert.job:
        return f"{base}/jobs/{quote(alert.job, safe='')}"
    places = {"budget": "/fleet", "feed-stale": "/markets", "machine-leaked": "/machines"}
    return f"{base}{places.get(alert.kind, '/')}"


def signature(secret: bytes, sent: bytes, at_s: int) -> str:
    """Return the value of the header by which a receiver checks that we sent it, and when."""
    digest = hmac.new(secret, f"{at_s}.".encode() + sent, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def _escaped(text: str) -> str:
    """Return a text in which Slack finds no links, mentions and channels of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
