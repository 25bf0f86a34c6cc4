"""What is to run, and what is seen of it: a job's commands, the workers of an order, and their status."""

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
"""An argument or variable of a new process may have 128 KiB on Linux; some room is left for our own."""

TAKE_S = 20.0  # how much longer than the grace workers may need to take their places once they received them
READY_S = 900.0  # how long workers that were added may need to be ready to meet the others

_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job as its machine needs to know it: with folders that are there, and the values of its secrets."""

    spec: LaunchSpec
    workdir: Path
    checkpoint_dir: Path  # made when it is missing; the same for all attempts
    checkpoint_owner: str = ""
    """Whose the checkpoints are in a store; empty: the owner's whose workers these are."""
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
    """The part of a set of workers that one machine carries, where other machines carry the rest."""

    ranks: tuple[int, ...]
    addresses: tuple[str, ...]  # the machine of every rank of the set; rank 0's is where they meet
    master_port: int
    devices: tuple[str, ...] = ()  # the GPU of each of these ranks; empty on a machine without
    former: int = 0
    """The attempt from which workers go on in this one, here or on other machines; 0: all are started."""
    kept: tuple[tuple[int, int], ...] = ()
    """Those who go on here: their rank, and the one that they had in the former attempt."""
    go: bool = False
    """Whether the workers of such a set are ready on all machines, so that they may be given their places."""


class WorkerOrder(NamedTuple):
    """The workers that a job is to hold."""

    attempt: int
    kinds: tuple[Capacity, ...]  # by rank; none: no workers at all
    not_before: float
    pool: str = ""  # where the GPUs are rented
    part: SetPart | None = None  # which part of a larger set this is; None: these are all of its workers
    void: bool = False
    """Whether nothing of it may begin: the market took its workers before they did, or another order, of
    which the journal knows nothing, has begun an attempt of this number or a higher one."""
    short_spot: int = 0  # how many spot GPUs of it were not available

    def voided(self) -> WorkerOrder:
        """Return the order with nothing that may begin any more."""
        return self._replace(void=True)


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
    finished: bool
    """All ended with 0, without a request to stop, and the job reported all done if it reports at all."""
    unfinished: bool  # all ended with 0, without a request to stop, but the job last reported less
    stopped: bool
    """The attempt was requested to stop, by anyone, or lost workers, or is not that of the order."""
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
    """Whether workers of the set before are on the way into this one: until they are there, they go on as
    they were."""
    places_sent_s: float | None = None  # seconds since they received their places in it; None: they have not
    able: bool = False
    """Whether all workers of the attempt live and have said that they can go on in another set."""
    leaving: bool = False  # whether workers of an older attempt are left on the machine
    notice_s: float | None = None
    """Seconds until spot workers that the market takes are killed, or their machine ends; None: there was no
    warning."""


def script_of(launch: Launch) -> str:
    """Return a digest of what the workers of a set have in common; no value of a variable goes into it."""
    folders = [str(launch.workdir), str(launch.checkpoint_dir)]
    parts = [launch.spec.run, *folders, f"{launch.spec.grace_s:g}", *sorted(launch.variables)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def lower_ranks_first(kinds: Sequence[Capacity], staying: Sequence[Capacity | None]) -> dict[int, int]:
    """Return who of a set stays in one of these kinds: new ranks with the former ones.

    `staying` has the kind of each former worker, None where it cannot stay. Workers stay what they are rented
    as, the lower ranks before the higher. The answer is empty for a set that both loses and gains workers: a
    worker that comes may need the GPU of one that goes, so all are started anew.
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
    """Refuse a name that cannot safely be part of a path; raises InputError."""
    if not is_name(name):
        raise InputError(
            f"{what} must be 1 to 80 letters, digits, dots, dashes or underscores, got {name!r}; rename it"
        )


def is_name(name: str) -> bool:
    """Say whether a name can safely be part of a path."""
    return _NAME.fullmatch(name) is not None and name not in {".", ".."}


def check_launch(launch: Launch) -> None:
    """Refuse what could not be started, and make the checkpoint folder; raises InputError."""
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
    """Refuse what a process cannot be given; the text itself is not shown, for it may be a secret."""
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
