"""Sending one alert to one hook, once: what came of it, and nothing about when to try again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import TypeAlias

from slacktide.app.alerts.alert import Alert
from slacktide.app.alerts.hook import Hook
from slacktide.app.alerts.sending import payload
from slacktide.app.alerts.sending.answer import Answer
from slacktide.app.alerts.sending.command import run
from slacktide.app.alerts.sending.webhook import post

Sender: TypeAlias = Callable[[Hook, Alert, str], Answer]
"""Takes a hook, an alert, and where browsers find the dashboard."""


def send(hook: Hook, alert: Alert, dashboard: str, *, output: int | None = subprocess.DEVNULL) -> Answer:
    """Send an alert to a hook; raises nothing. `output` is where a command's own words go."""
    body = payload.body(alert, hook.format, dashboard)
    if hook.target is None:
        return run(hook.command, hook.folder, alert, body, payload.page(alert, dashboard), output)
    return post(hook.target, alert.id, body, hook.secret, private=hook.allow_private)
