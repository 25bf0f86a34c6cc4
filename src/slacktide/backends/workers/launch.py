"""How a job is started and what is known of it: its commands, the workers ordered, and their status."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from slacktide.backends.base import LaunchSpec
from slacktide.core.errors import InputError
from slacktide.core.types import SavedEvidence
from slacktide.journal.events import Capacity

LONGEST_TEXT_BYTES = 100_000
"""The longest command or variable of a job: Linux allows 128 KiB, and our own additions need some room."""

TAKE_S = 20.0  # how much longer than the grace workers may need to take their places once they received them
READY_S = 900.0  # how long workers that were added may need to be ready to meet the others

_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job as the machine that runs it needs it: with local folders and the values of its secrets."""

    spec: LaunchSpec
    workdir: Path
    checkpoint_dir: Path  # made when it is missing; the same for all attempts
    checkpoint_owner: str = ""
    """The owner under whose name a store keeps the checkpoints; empty: the owner of the workers."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that are never printed and never written to disk."""

    @property
    def job(self) -> str:
        """The job's name: letters, digits, dots, dashes and underscores, for it names a folder."""
        return self.spec.job

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the job declares."""
        return {**self.spec.env, **self.secrets}


class SetPart(NamedTuple):
    """The part of a set of workers that one machine runs, if other machines run the rest."""

    ranks: tuple[int, ...]
    addresses: tuple[str, ...]  # the machine of every rank of the set; rank 0's is where they meet
    master_port: int
    devices: tuple[str, ...] = ()  # the GPU of each of these ranks; empty on a machine without
    former: int = 0
    """The attempt from which workers go on in this one, here or on other machines; 0: all are started."""
    kept: tuple[tuple[int, int], ...] = ()
    """Workers that go on here: each one's rank, and its rank in the former attempt."""
    go: bool = False
    """Whether the workers of a re-formed set are ready on all machines, so that they may get their places."""


class WorkerOrder(NamedTuple):
    """The workers that a job is to hold."""

    attempt: int
    kinds: tuple[Capacity, ...]  # by rank; none: no workers at all
    not_before: float
    pool: str = ""  # where the GPUs are rented
    part: SetPart | None = None  # which part of a larger set this is; None: these are all of its workers
    void: bool = False
    """Whether none of its workers may start: the market took them before they began, or another order,
    unknown to the journal, has begun this attempt or a higher one."""
    short_spot: int = 0  # how many spot GPUs of it were not available

    def voided(self) -> WorkerOrder:
        """Return the order made void: none of its workers may start any more."""
        return self._replace(void=True)


Phase: TypeAlias = Literal["none", "setting-up", "starting", "running", "stopping", "exited"]
"""none: nothing is held · setting-up: the set-up command runs · starting: workers are ordered and not all
have begun · running: all have begun and some live · stopping: they were requested to end, or ended by
themselves, and something of theirs still lives · exited: all ended, or the set-up failed, or the market took
the workers before they began."""

STRAY_GRACE_S = 10.0  # the grace period of a process of which only the marker is known


class ProcessStatus(NamedTuple):
    """The state of a job's workers at the last tick.

    All of it is about `attempt`, which stays the old one until its workers have gone: compare it with the
    attempt that was ordered. Workers that go on in another set (`reforming`) count to the new attempt as
    soon as that is written down.
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
    """The first worker that exited with anything but 0, not told to stop, while no other was lost."""
    failed_code: int | None  # what that one exited with
    finished: bool
    """All exited with 0, not told to stop, and the job reported that all is done if it reports anything."""
    unfinished: bool  # all exited with 0, not told to stop, but the job last reported less
    stopped: bool
    """The attempt was told to stop by anyone, lost workers, or is not the one that was ordered."""
    gone: bool  # nothing of the job is left on the machine
    gone_s: float | None
    """When the last worker of the attempt had gone, on the machine's own clock; None before."""
    before_gone_s: float | None  # the same of the attempt before, where an earlier controller began this one
    done_share: float
    checkpointed_share: float
    saved: SavedEvidence  # how that is known
    reported_s: float | None  # seconds since the job last reported how much is done; None when it never has
    own_report: bool  # whether the workers of this attempt reported it
    metrics: Mapping[str, float]
    began_s: float | None  # seconds since the attempt's workers were started; None when they were not
    silent_s: float
    """Seconds since reported progress last grew or the attempt's workers were started, whichever is less; 0
    while the job has never reported any."""
    setup_exit: int | None  # how the set-up ended by itself; None when it has not, or when there is none
    newest_attempt: int  # the highest attempt that was ever begun here
    trouble: str  # what keeps the last order from being carried out; empty when nothing does
    reforming: bool = False
    """Whether workers of the set before are moving into this one: they work in the old set until they do."""
    places_sent_s: float | None = None  # seconds since they received their places in it; None: they have not
    able: bool = False
    """Whether all workers of the attempt are alive and have announced that they can re-form."""
    leaving: bool = False  # whether workers of an older attempt are left on the machine
    notice_s: float | None = None
    """Seconds until spot workers that the market takes are killed, or their machine ends; None: there was no
    warning."""


def script_of(launch: Launch) -> str:
    """Return a digest of what all workers of a set are started with; no variable's value goes into it."""
    folders = [str(launch.workdir), str(launch.checkpoint_dir)]
    parts = [launch.spec.run, *folders, f"{launch.spec.grace_s:g}", *sorted(launch.variables)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def lower_ranks_first(kinds: Sequence[Capacity], staying: Sequence[Capacity | None]) -> dict[int, int]:
    """Choose which workers stay when a set changes to these kinds; return their former ranks by new rank.

    `staying` has the kind of each former worker, None if it cannot stay. Workers stay only as the kind they
    are rented as, lower ranks first. The answer is empty for a set that both loses and gains workers: a new
    worker may need the GPU of one that leaves, so all have to be started again.
    """
    stay: dict[int, int] = {}
    for rank, kind in enumerate(kinds):
        alike = (former for former, its in enumerate(staying) if its == kind and former not in stay.values())
        former = next(alike, None)
        if former is not None:
            stay[rank] = former
    leave, come = len(staying) - len(stay), len(kinds) - len(stay)
    return stay if bool(leave) != bool(come) else {}


def check_name(what: str, name: str) -> None:
    """Raise InputError for a name that cannot safely be part of a path."""
    if not is_name(name):
        raise InputError(
            f"{what} must be 1 to 80 letters, digits, dots, dashes or underscores, got {name!r}; rename it"
        )


def is_name(name: str) -> bool:
    """Say whether a name can safely be part of a path."""
    return _NAME.fullmatch(name) is not None and name not in {".", ".."}


def check_launch(launch: Launch) -> None:
    """Make the checkpoint folder; raise InputError for a job that could not be started."""
    check_name("a job id", launch.job)
    if not (math.isfinite(launch.spec.grace_s) and launch.spec.grace_s >= 0):
        raise InputError(f"grace_s must be a number >= 0, got {launch.spec.grace_s}")
    _check_text("run", launch.spec.run)
    _check_text("setup", launch.spec.setup or "")
    for name, value in launch.variables.items():
        if not _VARIABLE.fullmatch(name):
            raise InputError(f"a variable's name must be letters, digits and underscores, got {name!r}")
        _check_text(f"variable {name}", value)
    if not launch.workdir.is_dir():
        raise InputError(f"workdir must be a folder, found none at {launch.workdir}; check the path")
    _check_writable(launch.checkpoint_dir)


def _check_text(what: str, text: str) -> None:
    """Raise InputError for text that a process cannot be given; not shown, as it may be a secret."""
    if "\0" in text:
        raise InputError(f"{what} must be text, got a zero byte in it; remove it")
    size = len(os.fsencode(text))
    if size > LONGEST_TEXT_BYTES:
        raise InputError(
            f"{what} must have at most {LONGEST_TEXT_BYTES} bytes, got {size}; put it into a file"
        )


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"the checkpoint folder must be writable, got: {error.strerror} at {folder}; choose another"
        ) from error
