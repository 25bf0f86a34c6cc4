"""The types that all packages share: jobs, what they hold and have done, and what policies want.

Per-slot values are NamedTuples, so compiled code reads them as they are; what users submit is
a frozen dataclass that checks its values when it is created.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import CONCAVE, Linear, Speedup, check_rate, is_rate
from slacktide.core.units import MAX_GPUS

JsonText: TypeAlias = Annotated[str, "JSON"]
"""JSON as text, or empty; a journal stores the decoded value, not the text."""
Billing: TypeAlias = Literal["second", "slot"]

AfterDeadline: TypeAlias = Literal["finish-fast", "finish-cheaply", "stop"]
AFTER_DEADLINE: tuple[AfterDeadline, ...] = ("finish-fast", "finish-cheaply", "stop")
"""What may become of work that is left at the deadline: it is done on the fastest width on demand; or on spot
while there is some, else on the narrowest width on demand; or the job checkpoints and stops."""
FINISH_FAST, FINISH_CHEAPLY, STOP = range(3)
"""Their indexes in AFTER_DEADLINE, which compiled code uses."""

TIME_TOLERANCE_HOURS = 1e-6
"""Two times closer than this (3.6 ms) are the same time."""

ANY_WIDTH = tuple(range(1, 1025))
"""The widths of a job that names none."""


class Reason(NamedTuple):
    """Why a policy decided as it did: the rule that fired and the signals it read."""

    rule: str
    signals: Mapping[str, float] = {}

    def __str__(self) -> str:
        signals = ", ".join(f"{name}={value:.4g}" for name, value in self.signals.items())
        return f"{self.rule} ({signals})" if signals else self.rule


class Wish(NamedTuple):
    """GPUs to request in one pool."""

    spot_gpus: int = 0
    on_demand_gpus: int = 0
    pool: str | None = None
    """The pool to be in; None means the one the job is in."""

    @property
    def gpus(self) -> int:
        """The width wanted: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus


class Allocation(NamedTuple):
    """What a policy wants to hold during the coming slot."""

    spot_gpus: int = 0
    on_demand_gpus: int = 0
    pool: str | None = None
    """The pool to be in; None means the one the job is in, or the only one."""
    reason: Reason = Reason("unexplained")
    memory: tuple[float, ...] = ()
    """Numbers that the policy gets back at the next slot; policies keep no other memory."""
    instead: tuple[Wish, ...] = ()
    """What to request instead, in this order, when a pool does not have the spot GPUs; the last must always
    be possible: on demand, or nothing."""

    @property
    def gpus(self) -> int:
        """The width wanted: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """All requests, in the order in which they are tried."""
        return (Wish(self.spot_gpus, self.on_demand_gpus, self.pool), *self.instead)


class JobState(NamedTuple):
    """What a job holds and has done at the start of a slot."""

    spot_gpus: int = 0
    on_demand_gpus: int = 0
    pool: int = 0
    """Index of the pool that the workers are in."""
    pause_hours: float = 0.0
    """Hours without progress still to come, from the last change of workers."""
    progress_gpu_hours: float = 0.0
    checkpointed_gpu_hours: float = 0.0
    """Work that survives any loss of workers."""
    since_checkpoint_hours: float = 0.0
    """Productive hours since the last checkpoint."""
    cost_usd: float = 0.0
    finish_hours: float = math.inf
    """When the work was done; infinite while it is not."""
    exhausted: bool = False
    """Whether the job was stopped before its work was done, because its money or its time ran out."""

    @property
    def gpus(self) -> int:
        """The width held: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to this job any more."""
        return self.exhausted or self.finish_hours < math.inf


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a job that scales in one way: an epoch, or a batch size."""

    work_gpu_hours: float
    """Work on one reference GPU."""
    speedup: Speedup = field(default_factory=Linear)

    def __post_init__(self) -> None:
        _positive("work_gpu_hours", self.work_gpu_hours)


class PoolChoice(NamedTuple):
    """Pools that a job may use: a GPU type, perhaps only in some places."""

    gpu: str
    """The GPU type, such as H100."""
    infra: str = ""
    """Where: a cloud, region or zone, or several of them joined by `/`; empty means anywhere."""
    widths: tuple[int, ...] = ()
    """The widths the job may have there; empty means the job's own."""
    speed: float = 1.0
    """How fast one such GPU is for the job, in multiples of the reference GPU that its work is counted in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training job: its work, how it scales, and what its result is worth when.

    Give `work_gpu_hours` and `speedup`, or `phases` where a job scales differently as it goes on. Raises
    InputError for a number that is out of range.
    """

    widths: tuple[int, ...] = ANY_WIDTH
    """The widths the job may have, ascending; 0 is always allowed."""
    work_gpu_hours: float = math.nan
    """All its work; with phases, the sum over them."""
    deadline_hours: float = math.inf
    """Hours from submission until the result is due; infinite for a job that just wants to be done soon."""
    name: str = "job"
    speedup: Speedup = field(default_factory=Linear)
    phases: tuple[Phase, ...] = ()
    """The job's phases in order; without any, the whole job is one phase."""
    restart_hours: float = 0.0
    """Hours without progress after workers were added, the first start included."""
    shrink_hours: float | None = None
    """Hours without progress after workers were only lost; None means the same as a restart."""
    checkpoint_hours: float = 0.0
    """Productive hours between checkpoints; 0 means that a forced loss costs no work, infinity that there
    are none: any change of its workers starts it over."""
    value_usd: float = 0.0
    """What a result in time is worth."""
    worthless_after_hours: float | None = None
    """When a late result is worth nothing; None makes the deadline hard."""
    max_cost_usd: float | None = None
    billing: Billing = "second"
    work_spread: float = 0.0
    """How far `work_gpu_hours` may be off, as a share: 0.3 for +-30 %. The pace is then measured as the job
    runs, and the deadline is kept with a margin until it is known; 0: the number is taken as exact."""
    after_deadline: AfterDeadline = "finish-fast"
    """What becomes of work that is left at the deadline."""
    pools: tuple[PoolChoice, ...] = ()
    """The pools it may use, the preferred ones first; none: any pool, at the job's own widths."""
    checkpoint_gb: float = 0.0
    """The size of a checkpoint, which is copied when the job moves to another pool."""

    def __post_init__(self) -> None:
        if self.phases:
            object.__setattr__(self, "work_gpu_hours", sum(phase.work_gpu_hours for phase in self.phases))
        _positive("work_gpu_hours", self.work_gpu_hours)
        _must(self.deadline_hours > 0, "deadline_hours", "> 0", self.deadline_hours)
        _not_negative("restart_hours", self.restart_hours)
        _not_negative("work_spread", self.work_spread)
        _must(self.checkpoint_hours >= 0, "checkpoint_hours", ">= 0", self.checkpoint_hours)
        _not_negative("value_usd", self.value_usd)
        _not_negative("checkpoint_gb", self.checkpoint_gb)
        self._check_widths()
        self._check_pools()
        if self.shrink_hours is not None:
            _not_negative("shrink_hours", self.shrink_hours)
            rule = f"<= restart_hours ({self.restart_hours:g})"
            _must(self.shrink_hours <= self.restart_hours, "shrink_hours", rule, self.shrink_hours)
        late = self.worthless_after_hours
        if late is not None:
            rule = f">= deadline_hours ({self.deadline_hours:g})"
            _must(self.deadline_hours <= late < math.inf, "worthless_after_hours", rule, late)
        if self.max_cost_usd is not None:
            _positive("max_cost_usd", self.max_cost_usd)
        _must(self.billing in ("second", "slot"), "billing", "'second' or 'slot'", self.billing)
        rule = "'stop', 'finish-cheaply' or 'finish-fast'"
        _must(self.after_deadline in AFTER_DEADLINE, "after_deadline", rule, self.after_deadline)

    def _check_widths(self) -> None:
        if not self.widths:
            raise InputError("widths must name at least one width, got none", field="widths")
        # Jobs that name no widths share one tuple, which tables made of it are kept by.
        if self.widths is not ANY_WIDTH:
            object.__setattr__(self, "widths", tuple(sorted(set(self.widths))))
        least, most = self.widths[0], self.widths[-1]
        in_range = 1 <= least <= most <= MAX_GPUS
        _must(in_range, "a width", f"in 1..{MAX_GPUS}", least if least < 1 else most, "widths")
        for phase in self.parts:
            self._check_speedup(phase.speedup)

    def _check_pools(self) -> None:
        for choice in self.pools:
            possible = 0 < choice.speed < math.inf
            _must(possible, f"the speed of {choice.gpu}", "> 0 and finite", choice.speed, "pools")
            strange = sorted(set(choice.widths) - set(self.widths))
            if strange:
                raise InputError(
                    f"the widths of a pool must be widths of the job, got {strange[0]} for {choice.gpu}",
                    field="pools",
                )

    def _check_speedup(self, speedup: Speedup) -> None:
        # A concave speedup is a number at every width if it is one at both ends.
        ends = self.widths[0], self.widths[-1]
        if type(speedup) in CONCAVE and all(is_rate(speedup(width)) for width in ends):
            return
        for width in self.widths:
            check_rate(speedup(width), f"the speedup at {width} GPUs", "speedup")

    @property
    def parts(self) -> tuple[Phase, ...]:
        """The job's phases; without any, the whole job as one phase."""
        return self.phases or (Phase(self.work_gpu_hours, self.speedup),)

    def work_hours(self, width: int) -> float:
        """Return how long all the work takes on a width, without any pause."""
        return sum(phase.work_gpu_hours / phase.speedup(width) for phase in self.parts)

    @property
    def money_usd(self) -> float:
        """The most that the job may cost; infinite if no limit is given."""
        return math.inf if self.max_cost_usd is None else self.max_cost_usd

    @property
    def max_gpus(self) -> int:
        """The greatest width that the job may have."""
        return self.widths[-1]

    @property
    def fastest_width(self) -> int:
        """The smallest width on which the work is done soonest: the one for emergencies."""
        return _fastest_width(self)

    @property
    def hard(self) -> bool:
        """Whether a late result is a failure rather than a cheaper success; never without a deadline."""
        if self.deadline_hours == math.inf:
            return False
        return self.worthless_after_hours is None or self.worthless_after_hours <= self.deadline_hours

    def with_speedups(self, change: Callable[[Speedup], Speedup]) -> Job:
        """Return the job with another speedup in place of each of its own."""
        phases = tuple(replace(phase, speedup=change(phase.speedup)) for phase in self.phases)
        return replace(self, speedup=change(self.speedup), phases=phases)

    def value_at(self, finish_hours: float) -> float:
        """Return what a result at this time is worth, in USD."""
        if finish_hours <= self.deadline_hours + TIME_TOLERANCE_HOURS:
            return self.value_usd
        if self.worthless_after_hours is None or finish_hours >= self.worthless_after_hours:
            return 0.0
        late = (finish_hours - self.deadline_hours) / (self.worthless_after_hours - self.deadline_hours)
        return self.value_usd * (1.0 - late)

    def on_time(self, finish_hours: float) -> bool:
        """Whether a result at this time meets the deadline."""
        return finish_hours <= self.deadline_hours + TIME_TOLERANCE_HOURS

    def line_gpu_hours(self, hours: float) -> float:
        """Return the work done by this time on the straight line to the deadline."""
        return self.work_gpu_hours * min(max(hours, 0.0), self.deadline_hours) / self.deadline_hours


@lru_cache(maxsize=256)  # read at every decision, and thousands of widths take milliseconds
def _fastest_width(job: Job) -> int:
    return min(job.widths, key=lambda width: (job.work_hours(width), width))


def _must(holds: bool, what: str, rule: str, came: float | str, field: str = "") -> None:
    """Raise InputError about a field, which is `what` the message names unless another one is given."""
    if not holds:
        got = f"{came:g}" if isinstance(came, float) else shown(came)
        raise InputError(f"{what} must be {rule}, got {got}", field=field or what)


def _positive(name: str, number: float) -> None:
    _must(0 < number < math.inf, name, "> 0", number)


def _not_negative(name: str, number: float) -> None:
    _must(0 <= number < math.inf, name, ">= 0", number)


class Refusal(NamedTuple):
    """Why a job's deadline cannot be promised, and what would make a promise possible."""

    why: str
    deadline_hours: float | None = None
    """From submission: the earliest deadline that could be promised."""
    budget_usd: float | None = None
    """The budget of a period with which it could be promised as it is."""
    gpus: int | None = None
    """The width that the job would need to be allowed."""


SavedEvidence: TypeAlias = Literal["said", "assumed", "unknown"]
"""How a job's saved work is known: the job reported it · it reported only its progress · it reported nothing,
and its progress was read from what it printed."""


class Order(NamedTuple):
    """What a job is to hold from now on."""

    job: str
    attempt: int
    """Number of the set of workers, which only increases: the same order again changes nothing, a new number
    starts a new set, and anything with an older number is out of date."""
    pool: str
    spot_gpus: int
    on_demand_gpus: int
    until_hours: float = math.inf
    """Without a new order the GPUs are let go at this time of the market's clock: the money or time ends."""
    ending: bool = False
    """Whether all GPUs are being let go; they are paid for until they are gone."""
    delay_s: float = 0.0
    """Wait this long before new workers are started, in seconds of the wall clock."""

    @property
    def gpus(self) -> int:
        """The width: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus
