"""What a job's file promises, for whoever tells where the job is going: its deadline, and its work."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from slacktide.core.errors import SlacktideError
from slacktide.files.job import parse_job
from slacktide.physics.pace import UNKNOWN_SPREAD

KEPT_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """How a job's end is judged; None throughout where its file cannot be read any more."""

    deadline_kind: str | None = None
    """`hard`, `soft` (late work is worth less), or `none`."""
    after_deadline: str | None = None
    """What becomes of work that is left at the deadline: stop, finish-cheaply or finish-fast."""
    work_known: bool | None = None
    """Whether the file says how much work it is; otherwise that is guessed until it is measured."""


@lru_cache(maxsize=KEPT_FILES)
def terms_of(text: str, path: str) -> JobTerms:
    """Read the terms of a job from its file, once: pages ask again with every event."""
    try:
        job = parse_job(text, path=path).job
    except SlacktideError:  # another version took it in
        return JobTerms()
    kind = "none" if math.isinf(job.deadline_hours) else "hard" if job.hard else "soft"
    known = job.work_spread < UNKNOWN_SPREAD
    return JobTerms(deadline_kind=kind, after_deadline=job.after_deadline, work_known=known)
