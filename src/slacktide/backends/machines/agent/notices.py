"""Polls a machine's own cloud for a warning that the machine is about to be taken; today that of Amazon."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slacktide.providers.ec2.boot import METADATA, notice_s

POLL_S = 5.0
"""Amazon gives two minutes of notice, and recommends polling no more often than this."""
VARIABLE = "SLACKTIDE_METADATA"
"""Where a metadata service like Amazon's is, on machines that are not Amazon's."""
VENDOR = Path("/sys/class/dmi/id/sys_vendor")


def service(environ: Mapping[str, str] = os.environ, vendor: Path = VENDOR) -> str:
    """Return where this machine's metadata service is; empty: it is of no cloud that we know."""
    if environ.get(VARIABLE):
        return environ[VARIABLE]
    try:
        return METADATA if vendor.read_text(encoding="utf-8").startswith("Amazon EC2") else ""
    except (OSError, ValueError):
        return ""


def watch(report: Callable[[float | None], None], url: str) -> None:
    """Poll again and again in a thread, and report how many seconds are left, or None."""

    def go_round() -> None:
        while True:
            report(notice_s(url))
            time.sleep(POLL_S)

    threading.Thread(target=go_round, daemon=True, name="slacktide-notices").start()
