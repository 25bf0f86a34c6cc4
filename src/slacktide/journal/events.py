"""The types of events in a journal: everything that can happen, from which all state is folded.

Every event says when, to which job, who did it, and why. Hours are on the market's clock and slots are the
market's, except where they say otherwise. An event is a plain frozen value of numbers, texts and the nouns
of `slacktide.core.types` and `slacktide.physics.ledger`; a store keeps it and returns it
unchanged. Names are past participles: a fact, not an order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from slacktide.core.quotes import Quote
from slacktide.core.types import JobState, JsonText, Wish
from slacktide.physics.ledger import Priced
from slacktide.physics.pace import Pace

Actor: TypeAlias = Literal["engine", "market", "user", "worker"]
Status: TypeAlias = Literal["succeeded", "failed", "cancelled", "budget_exhausted", "deadline_missed"]
Ending: TypeAlias = Literal[Status, "released"]
"""What a job will be once its workers are gone: over in one of the ways above, or released to wait."""
Capacity: TypeAlias = Literal["spot", "on-demand"]  # how a machine is rented
Cause: TypeAlias = Literal[
    "", "no-capacity", "refused", "spent", "interrupted", "gone", "unlisted", "never-joined", "unfit",
    "not-wanted",
]  # fmt: skip
"""What closed a ticket; empty where that is unknown.

There was no machine (`no-capacity`, `refused`); it had come and gone before it was seen (`spent`), was taken
back (`interrupted`), ended otherwise (`gone`), or is not listed any more (`unlisted`); or it was given back.
"""
Sight: TypeAlias = Literal["feed", "tried"]
"""What a job that may move is shown of its pools: all they offer, or prices and what its tries showed."""
Health: TypeAlias = Literal["measuring", "on-time", "at-risk", "late-expected", "late"]
"""The outlook of a job, from its first minutes to a deadline that cannot be met any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened."""

    job: str = ""
    """The job's id; empty for an event that is not about one job."""
    at_hours: float
    """Hours on the market clock since the clock was set."""
    actor: Actor = "engine"
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalMade(Event):
    """A journal was begun; workers and machines carry its name, wherever its file lies."""

    id: str  # random: the owner of all workers and folders. If there are two, the first counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet(Event):
    """The market clock was set: hour 0 is `epoch_utc`, and it runs `speed` times as fast as the wall's."""

    epoch_utc: str
    speed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAnchored(Event):
    """The market clock stood at `at_hours` at this moment, and is counted on from here."""

    utc: str  # the moment by the wall clock
    boot_id: str  # which boot of the machine it was; empty where the system does not say
    boot_s: float  # the moment in seconds since that boot, sleep included


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(Event):
    """A controller took charge of the journal."""

    pid: int
    host: str
    version: str
    backend: str = "local"  # the back end that its workers run on
    machines: str = ""  # the machines file that it rents by; empty: it rents none


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Event):
    """A controller left the journal; it holds nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOpened(Event):
    """The first job fixed the market of all jobs, and which of its times is which hour of the clock."""

    market: JsonText  # what to open the market with, as JSON: source and options
    start_utc: str  # the market's own time at `at_hours`, when one of its slots begins
    digest: str = ""
    """SHA-256 of the market's numbers as it was opened, of a feed those before `start_utc`; empty in older
    journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAsked(Event):
    """A user requested that a job be run; the present or the next controller answers it once."""

    key: str  # names the request: another one with the same key is for the same job
    text: str  # the job file as it was read, without the values of its secrets
    path: str
    envs: Mapping[str, str] = field(default_factory=dict)
    """Variables taken over from the submitter, in older journals; now they are kept elsewhere."""
    policy: JsonText = ""  # the policy that is wanted, as JSON; empty: the controller's, else the job file's
    pool: str = ""  # the pool that is wanted; empty: the cheapest one
    job_class: str = ""
    """The class of the controller's fleet that it is of; empty: the job file's, if it names one."""
    sight: Sight = "feed"  # what it is to be shown of its pools, if it may move


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRefused(Event):
    """The controller refused a request, and `why`."""

    key: str
    exit_code: int  # what kind of refusal it is: 2 for bad input, 3 for what is infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    """A job was submitted."""

    text: str  # the job file as it was read
    submitted_utc: str  # when it was submitted, by the wall clock; absolute deadlines are counted from here
    path: str  # where the file was: paths in it are relative to its folder
    policy: JsonText  # the policy that will run it, as JSON: a name or {name: {parameter: value}}
    learning: bool = False  # whether the learner chose the policy and is to learn the outcome
    market: JsonText = ""  # what to open the market with, as JSON: source and options
    pool: str = ""  # where it runs; for a job that may move, the pool whose slots are counted
    slot_hours: float
    start_slot: int  # the slot of the market that is the job's own slot 0
    origin_hours: float | None = None
    """When that slot began, on the market's clock; None: exactly when the job was submitted."""
    fleet: str = ""
    """The text of the job's fleet file, as it was read; empty for a job without a fleet."""
    fleet_path: str = ""
    fleet_class: str = ""
    """Which of the fleet's classes the job is of; in older journals only its file says so."""
    envs: Mapping[str, str] = field(default_factory=dict)
    """Variables taken over from the submitter, in older journals; now they are kept elsewhere."""
    work_gpu_hours: float = 0.0
    """The job's work, so that a list of jobs need not read their files; 0 in older journals."""
    deadline_hours: float = math.inf  # from the submission on; infinite for a job without a deadline
    key: str = ""  # the request that this answers; empty if the controller's own process submitted the job
    pools: tuple[str, ...] = ()
    """The pools among which it may move, as its states number them; empty: it stays where it is."""
    sight: Sight = "feed"  # what it is shown of these pools


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted(Event):
    """Spot workers were taken away."""

    slot: int
    spot_before: int
    spot_left: int
    lost_gpu_hours: float  # work since the last checkpoint that went with them


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """What a job is to hold from `at_hours` on; written before anyone acts on it."""

    slot: int
    quote: Quote
    state: JobState  # what the job held and had done, without the spot that the market just took
    pool: str
    spot_gpus: int
    on_demand_gpus: int  # the GPUs the job will have: the wish, cut to what is available
    wanted_spot_gpus: int
    wanted_on_demand_gpus: int
    signals: Mapping[str, float] = field(default_factory=dict)  # what the rule in `why` read
    memory: tuple[float, ...] = ()
    attempt: int  # number of the set of workers; a new one begins whenever the set changes
    until_hours: float = math.inf
    """When stopping the workers must begin at the latest: because the money runs out, or because the job
    stops at its deadline."""
    ending: Ending | None = None
    """Set when the workers are being stopped for good: what the job will be once they are gone."""
    lost_gpu_hours: float = 0.0
    """Work that is thrown away by changing the workers: a job without checkpoints starts over."""
    wanted_pool: str = ""  # the pool of the first wish; empty for a job that stays in its pool
    instead: tuple[Wish, ...] = ()  # what was to be tried after the first wish, in this order
    missed: int = 0
    """How many wishes no pool had the GPUs for, before the one that is held; if all, nothing is held."""
    unstocked: tuple[int, ...] = ()  # which of those, counted from 0, had the spot and lacked on-demand GPUs
    moved_from: str = ""
    """The pool that it leaves for `pool`; empty if it stays or has not worked anywhere yet."""
    move_usd: float = 0.0  # what it will cost to take its checkpoint along
    move_hours: float = 0.0  # how long that takes, in addition to the restart
    notice_hours: float | None = None
    """In how many hours the job will lose spot, as it was warned at the decision; None: it was not warned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived(Event):
    """A stretch of time passed with one holding: what it did and cost. The bill is the sum of these."""

    priced: Priced
    state: JobState  # the job at the end of the stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Event):
    """What a job really holds changed; from `at_hours` on this is what it pays for, whatever was ordered."""

    attempt: int
    spot_gpus: int
    on_demand_gpus: int
    pending_gpus: int = 0  # ordered and not there yet: not paid for


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Event):
    """A set of workers was lost that the controller did not end: its machines disappeared, or it was stopped.

    This is not a failure of the job. Lost spot machines are noted as `Preempted`, too.
    """

    attempt: int
    on_demand_gpus: int = 0  # GPUs of on-demand machines that disappeared
    lost_gpu_hours: float = 0.0  # work since the last checkpoint that went with them
    checkpointed_gpu_hours: float = 0.0
    """Work that was safe at that moment; losses without more of it in between are in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Event):
    """Something blocks a job, and `why`; other jobs are not affected, and this one can be cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblocked(Event):
    """A job is not blocked any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedTroubled(Event):
    """The market's feed misbehaves, and `why`: its last good rows are used; empty: the trouble is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSized(Event):
    """A fleet requested this many nodes, those on their way included; it has no machines before the first."""

    fleet: str  # names the fleet
    nodes: int
    node_gpus: int
    provisioning_hours: float  # from requesting a node until it can be used
    idle_grace_hours: float  # how long an idle node is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Event):
    """Machines of a fleet were paid for that no job used: on their way, idle, or the rest of nodes in use."""

    fleet: str
    priced: Priced


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered(Event):
    """A fleet's allocator decided and wrote down all it knows; the rest it learns from later events."""

    fleet: str
    memory: JsonText = ""  # what it knows, as JSON; empty if nothing changed since it last wrote that
    reserved_usd: float | None = None
    """The money that it keeps for promised deadlines, in case all spot disappears; None if unknown."""
    usd_per_job_hour: float | None = None
    """What an hour of a job's waiting was worth to it; None if it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailed(Event):
    """A worker failed on its own: nobody stopped it, and its machine was not lost."""

    attempt: int
    rank: int
    exit_code: int  # negative: the signal that ended it
    checkpointed_gpu_hours: float
    """Work that was safe at that moment; failures without more of it in between are in a row."""
    lost_gpu_hours: float = 0.0  # work since the last checkpoint that has to be done again


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled(Event):
    """A job reported no progress for longer than it may."""

    attempt: int
    silent_s: float
    checkpointed_gpu_hours: float
    lost_gpu_hours: float = 0.0  # work since the last checkpoint that has to be done again


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(Event):
    """New workers were started for the same holding, after a failure or a loss."""

    attempt: int
    delay_s: float  # how long to wait before, in seconds of the wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionAsked(Event):
    """A user requested that spot workers be taken away, to see what happens."""

    spot_gpus: int | None = None  # how many; None means all


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationAsked(Event):
    """A user requested that a job be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChanged(Event):
    """The outlook of a job changed."""

    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Event):
    """All workers of a job were stopped though it has not ended: the controller stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped(Event):
    """The clock jumped, or slots passed without a step: those are billed as they were held."""

    from_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """A job is over."""

    status: Status
    finish_hours: float  # hours from the job's start until the work was done; infinite when it was not


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRevised(Event):
    """A job's pace was measured; `why` says it in words."""

    gpus: int  # the width on which it was measured
    measured_hours: float  # how long
    pace: Pace  # what is believed of it now


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Event):
    """The choice among policies learned from a job that ended."""

    policy: str
    share: float  # what it earned between the least and the most it could have, in [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """New workers reported how much work they go on from, so what was really lost is known."""

    attempt: int
    before_gpu_hours: float  # the most that was reported before
    after_gpu_hours: float  # what these workers reported first
    lost_gpu_hours: float  # the work in between, which was lost
    expected_gpu_hours: float
    """What losses since then had been expected to cost; the bill counts what was measured instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented(Event):
    """A machine is to be rented: a ticket for it was opened, before any provider is called with it."""

    ticket: str  # names the machine to its provider; never used twice
    capacity: Capacity
    pool: str
    gpus: int
    usd_per_hour: float  # what the whole machine costs, as far as was known


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """The machine of a ticket is ready for use."""

    ticket: str
    machine: str  # what its provider calls it
    address: str
    boot_hours: float  # from opening the ticket until now


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Event):
    """A ticket was closed, and `why`; written before its machine is ended, where it has one."""

    ticket: str
    left: bool = False  # whether a machine may still be there that has to be ended
    cause: Cause = ""  # the same as `why`, in one word
    ended_utc: str = ""
    """When its machine ended, by its provider's account; empty where that is unknown or not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaked(Event):
    """A machine still costs money though no open ticket explains it and its provider was called to end it."""

    machine: str  # what its provider calls it
    ticket: str  # the ticket that it carries, which is closed or was never in this journal
    capacity: Capacity
    pool: str
    gpus: int
    usd_per_hour: float  # what the whole machine costs, as far as is known
    stray_hours: float  # for how long it has been seen like this


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed(Event):
    """A machine that had leaked is not listed as running any more."""

    machine: str


KINDS: dict[str, type[Event]] = {
    name: kind
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
"""Every kind of event by its name, which is how a store writes it."""


class Record(NamedTuple):
    """An event in a journal, with its number and time."""

    seq: int
    """Its place; 1 is the first."""
    time_utc: datetime
    """When it was written, by the wall clock."""
    event: Event
