"""What a back-test rests on, in sentences a reader can disagree with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slacktide.core.types import Job
from slacktide.report import words

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison

CLAIRVOYANT = (
    "The clairvoyant knows the market's whole future. It plans the cheapest run in hindsight, checkpoints "
    "just before every loss, and may exceed the maximum cost. It cannot be run: it is a bound, "
    "not a choice."
)
FORESIGHT = "Every policy saw only the present and the past of the market when it decided."
AVAILABLE = "On-demand GPUs were always available. What the job took did not change prices or availability."
AFTER_END = (
    "After the last slot of the market there is no spot, and on demand keeps its last price; only late "
    "runs get there, because every start leaves the whole deadline inside the market."
)


def assumptions(comparison: Comparison) -> list[str]:
    """Return what the source did not say and was assumed, then what the back-test itself assumes."""
    return [
        *(words.plain(sentence) for sentence in comparison.assumptions),
        CLAIRVOYANT,
        *(_roams(comparison) if comparison.roams else ()),
        FORESIGHT,
        AVAILABLE,
        _deadline(comparison.job),
        _changes(comparison.job),
        _money(comparison.job),
        AFTER_END,
        "The range p10–p90 leaves out the cheapest and the most expensive tenth of the starts.",
        "The start shown in detail is the one where the last policy's bill is the median of its bills.",
    ]


def _roams(comparison: Comparison) -> list[str]:
    seen = {
        "feed": "What every pool offered in a slot was known to policies that choose among pools.",
        "tried": "Of other pools only prices were known, and what tries showed; a failed try is free.",
    }
    return [
        "A job is in one pool at a time. When it continues in another pool its checkpoint is copied there, "
        "which takes time and money depending on its size.",
        "The clairvoyant over pools may move as well; × clairvoyant is relative to its bill.",
        seen[comparison.sight],
    ]


def _deadline(job: Job) -> str:
    late = words.late(job)
    if job.hard:
        guard = (
            "The deadline is hard, so the deadline guard protected every policy: at the last moment at "
            "which on demand alone is still on time, the guard rents on demand."
        )
        return f"{guard} {late}"
    worthless = words.duration(job.worthless_after_hours or job.deadline_hours)
    return f"The deadline is soft: a result loses value after it and is worthless after {worthless}. {late}"


def _changes(job: Job) -> str:
    shrink = job.restart_hours if job.shrink_hours is None else job.shrink_hours
    pause = (
        f"Adding workers costs {words.duration(job.restart_hours)} without progress, "
        f"removing some costs {words.duration(shrink)}."
    )
    if math.isinf(job.checkpoint_hours):
        return f"{pause} The job has no checkpoints: any change of its workers starts its work over."
    if job.checkpoint_hours > 0:
        every = words.duration(job.checkpoint_hours)
        return (
            f"{pause} A preemption takes the work since the last checkpoint, written every {every} of work."
        )
    return f"{pause} A preemption loses no finished work."


def _money(job: Job) -> str:
    billing = {
        "second": "GPUs are billed by the second.",
        "slot": "A slot in which GPUs are held is billed in full.",
    }[job.billing]
    if job.max_cost_usd is None:
        return billing
    return f"{billing} A job that reaches its maximum cost checkpoints and stops, done or not."
