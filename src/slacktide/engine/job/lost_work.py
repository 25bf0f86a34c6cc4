"""What a loss of workers really cost: where the old ones had come to, and where new ones go on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slacktide.backends.base import BackendStatus
from slacktide.journal.events import Resumed
from slacktide.journal.state.journal_state import JobRecord

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine


def note_resumed(engine: Engine, track: JobRecord, facts: BackendStatus, now_hours: float) -> None:
    """Write down where a new set of workers goes on, when it first says so."""
    order, begun, progress = track.order, track.begun, facts.progress
    if not track.unheard or order is None or begun is None or order.ending or progress is None:
        return
    if facts.attempt != order.attempt or math.isinf(progress.at_hours):
        return
    after = progress.done_share * engine.lane(track).terms.work_gpu_hours
    engine.write(
        [
            Resumed(
                job=track.job,
                at_hours=max(begun.from_hours, min(now_hours, progress.at_hours)),
                actor="worker",
                attempt=order.attempt,
                before_gpu_hours=track.told_gpu_hours,
                after_gpu_hours=after,
                lost_gpu_hours=max(0.0, track.told_gpu_hours - after),
                expected_gpu_hours=track.expected_lost_gpu_hours,
            )
        ]
    )
