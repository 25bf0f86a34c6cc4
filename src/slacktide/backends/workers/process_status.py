"""What is seen of a job's processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from slacktide.core.types import SavedEvidence

Phase: TypeAlias = Literal["none", "setting-up", "starting", "running", "stopping", "exited"]
"""none: nothing is held · setting-up: the set-up command runs · starting: workers are ordered and not all
have begun · running: all have begun and some live · stopping: they were requested to end, or ended by
themselves, and something of theirs still lives · exited: all ended, or the set-up failed, or the market took
the workers before they began."""


STRAY_GRACE_S = 10.0  # the patience with a process of which nothing but its marker is known


class ProcessStatus(NamedTuple):
    """What was there at the last tick.

    All of it is about `attempt`, which is the old one for as long as its workers have not gone: compare it
    with the attempt that was ordered. Workers that go on in another set (`reforming`) are of the new attempt
    as soon as that is written down.
    """

    attempt: int
    phase: Phase
    spot_gpus: int
    on_demand_gpus: int  # workers alive, of any attempt, including those that were requested to end
    pending_gpus: int  # workers that were ordered, have not begun and still may
    lost_spot_gpus: int
    lost_on_demand_gpus: int  # workers that ended without a note although we had not ended them
    exit_codes: tuple[int | None, ...]
    """By rank; None while it lives or when it never began, negative for the signal that ended it."""
    failed_rank: int | None
    """The first worker that ended with anything but 0 without a request to stop, while no other was lost."""
    failed_code: int | None  # what that one exited with
    finished: bool  # all ended with 0, untold, and the job said that all is done if it ever says how much is
    unfinished: bool  # all ended with 0, untold, but the job last said that less is done
    stopped: bool
    """The attempt was requested to stop, by anyone, or lost workers, or is not that of the order."""
    gone: bool  # nothing of the job is left on the machine
    gone_s: float | None
    """When the last worker of the attempt had gone, on the machine's own clock; None before."""
    before_gone_s: float | None  # the same of the attempt before, where an earlier controller began this one
    done_share: float
    checkpointed_share: float
    saved: SavedEvidence  # how that is known
    said_s: float | None  # seconds since the job last said how much is done; None when it never has
    spoken: bool  # whether it was the workers of this attempt who said so
    metrics: Mapping[str, float]
    began_s: float | None  # seconds since the attempt's workers were started; None when they were not
    silent_s: float
    """Seconds since reported progress last grew or the attempt's workers were started, whichever is less; 0
    while the job has never reported any."""
    setup_exit: int | None  # how the set-up ended by itself; None when it has not, or when there is none
    broken_lines: int  # lines of the progress file that were not read, since this controller began to read it
    newest_attempt: int  # the highest attempt that was ever begun here
    trouble: str  # what keeps the last order from being carried out; empty when nothing does
    reforming: bool = False
    """Whether workers of the set before are on the way into this one: until they are there, they go on as
    they were."""
    places_sent_s: float | None = None  # seconds since they received their places in it; None: they have not
    able: bool = False
    """Whether all workers of the attempt live and have said that they can go on in another set."""
    leaving: bool = False  # whether workers of an older attempt are left on the machine
    notice_s: float | None = None
    """Seconds until spot workers that the market takes are killed, or their machine ends; None: there was no
    warning."""


class Stray(NamedTuple):
    """A process that is to go and has not gone."""

    job_id: str
    attempt: int  # 0 for the set-up
    rank: int
    pid: int
