"""A measurement as a table, as lines for a job file and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.report import words
from slacktide.report.wire.values import document, picked

if TYPE_CHECKING:
    from slacktide.results.measured import Measurement


SIZES = (5, 12, 8, 4, 8, 7)


def page(found: Measurement) -> str:
    """Return what was measured at each width as text, with notes."""
    rows = [("GPUs", "work an hour", "speedup", "+-", "restart", "reports")]
    for width in found.widths:
        pace, restart = width.pace, words.about(width.restart_hours)
        measured = f"{pace.share_per_hour:.3%}", f"{found.speedup(width):.3g}", percent(pace.spread_share)
        rows.append((str(width.gpus), *measured, restart, str(width.reports)))
    table = ["  ".join(f"{cell:>{size}}" for cell, size in zip(row, SIZES, strict=True)) for row in rows]
    return "\n".join([*table, *_notes(found)])


def _notes(found: Measurement) -> list[str]:
    most = found.widths[-1].gpus
    notes = []
    if found.gpus_found < most:
        shared = (
            f"the {found.gpus_found} GPUs of this machine"
            if found.gpus_found
            else "the processors of this machine"
        )
        notes.append(f"{most} workers shared {shared}: with a GPU each, the speedup may differ.")
    saving = [width.checkpoint_hours for width in found.widths if width.checkpoint_hours is not None]
    if saving:
        notes.append(f"A checkpoint took {words.about(max(saving))}: write `takes` under `checkpoint`.")
    return notes


def keys(found: Measurement) -> dict[str, str]:
    """Return the values for a job file by its keys."""
    points = ", ".join(f"{width.gpus}: {found.speedup(width):.3g}" for width in found.widths)
    return {
        "work": f"{found.work_gpu_hours:.3g} gpu-hours +-{percent(found.work_spread)}",
        "speedup": f"{{table: {{{points}}}}}",
        "restart": _whole_seconds(found.restart_hours[1]),
    }


def _whole_seconds(hours: float) -> str:
    return format_duration(max(1, math.ceil(hours * 3600)) / 3600)


def lines(found: Measurement) -> str:
    """Return the lines for a job file; spreads that have no place in its keys are comments."""
    others = [f"+-{percent(found.speedup_spread(width))} at {width.gpus}" for width in found.widths[1:]]
    shortest, longest = (_whole_seconds(hours) for hours in found.restart_hours)
    starts = f"{shortest} to {longest} in {len(found.widths)} starts; the longest is used"
    comments = {"speedup": ", ".join(others), "restart": starts}
    return "\n".join(
        f"{key}: {value}" + (f"  # {comment}" if (comment := comments.get(key)) else "")
        for key, value in keys(found).items()
    )


def as_json(found: Measurement) -> dict[str, Any]:
    """Return the measurement under its documented keys."""
    return document(
        {
            "job": found.job,
            "work_gpu_hours": found.work_gpu_hours,
            "work_spread_share": found.work_spread,
            "restart_hours": {"shortest": found.restart_hours[0], "longest": found.restart_hours[1]},
            "widths": [
                {
                    "gpus": width.gpus,
                    "share_per_hour": width.pace.share_per_hour,
                    "speedup": found.speedup(width),
                    "speedup_spread_share": found.speedup_spread(width),
                    **picked(width, "restart_hours", "checkpoint_hours", "reports"),
                }
                for width in found.widths
            ],
            "gpus_found": found.gpus_found,
            "lines": lines(found).splitlines(),
        }
    )


def percent(share: float) -> str:
    """Write a spread in whole percent, rounded up."""
    return f"{math.ceil(share * 100 - 1e-9)}%"
