"""Submitting a job: reads its file once, checks that it can be run, and makes its entry in the journal.

The entry holds everything that is needed to run the job, even after a crash or days later.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from slacktide.allocators.base import allocators
from slacktide.app.jobs.feasible import OVER_POOLS, check_feasible
from slacktide.app.markets.market import DEFAULT_MARKET, MarketSpec, open_named
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.core.yaml_tree import read_text
from slacktide.engine.fleet.fleets import (
    DEFAULT_ALLOCATOR,
    MARKET_ALLOCATOR,
    check_member,
    shares_market,
)
from slacktide.engine.job.journal_market import check_unchanged, job_in, same_market, standing, usable
from slacktide.engine.job.placement import cheapest, first_slot, placed, pool_bills, wanted_slot, whole_spec
from slacktide.files.fleet.fleet import FleetFile, parse_fleet
from slacktide.files.job import JobFile, parse_job, read_job_file
from slacktide.files.rewrite import (
    class_named,
    class_text,
    is_bare,
    with_class,
    with_tables,
    with_usual,
    without_secrets,
)
from slacktide.journal.events import Sight, SiteOpened, SubmissionAsked, Submitted
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import places_of
from slacktide.market.spec import is_feed
from slacktide.policies.base import policies, roams
from slacktide.policies.selection.policy_set import AUTO

ANY_OF_A_CLASS = "{resources: {accelerators: 'GPU:1'}, work: 1 gpu-hours, class: of-the-fleet}"
"""Stands in for the keys that a class supplies, as long as its fleet is not known."""
NOTHING: Mapping[str, str] = MappingProxyType({})


class FleetText(NamedTuple):
    """The fleet file of a stream: its text as it was read, and its path."""

    text: str
    path: str

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a fleet file without parsing it."""
        return cls(read_text(path), str(Path(path).absolute()))

    def parsed(self) -> FleetFile:
        """Parse the text; raises FileError."""
        return parse_fleet(self.text, path=self.path)

    def allocator(self, policy: Spec | None) -> Spec:
        """Return the allocator of its jobs: the given one, else the file's, else the default."""
        if policy is not None:
            return policy
        file = self.parsed()
        usual = DEFAULT_ALLOCATOR if file.market is None else MARKET_ALLOCATOR
        return usual if file.policy is None else file.policy

    def completed(self, text: str) -> str:
        """Return a job file's text, completed with keys of its class if it leaves its GPUs or work to that.

        Raises UnknownNameError, an InputError, for a class that the fleet does not have.
        """
        if not is_bare(text):
            return text
        name = class_named(text)
        classes = {template.name: template.job for template in self.parsed().templates}
        if name not in classes:
            raise UnknownNameError("a class", name, classes)
        usual = with_tables(class_text(self.text, name), self.path)
        return with_usual(with_usual(text, usual), f"resources: {{accelerators: '{_gpus(classes[name])}'}}")

    def takes(self, file: JobFile, policy: Spec | None, *, own_policy: bool) -> bool:
        """Whether a job belongs to the fleet, whose allocator is `policy` or else the file's.

        A job that names a class does. On a market every job does, unless it comes with a policy of its own.
        """
        return file.fleet_class is not None or (not own_policy and self.shares_market(policy))

    def shares_market(self, policy: Spec | None) -> bool:
        """Whether its jobs share a market of spot and on-demand GPUs; `policy` is as in `takes`."""
        return shares_market(self.parsed(), allocators.make(self.allocator(policy)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job to be run, without the values of its secrets: those are looked up where it runs."""

    file: JobFile
    text: str  # the same file as text
    envs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables whose values come from where the job is submitted; they are not written to the journal."""
    policy: Spec | None = None  # otherwise the job file's
    market: MarketSpec = field(default_factory=MarketSpec)
    """What it leaves open is taken from the journal's market or the job file."""
    fleet: FleetText | None = None  # the fleet that the job belongs to; None for a job by itself
    key: str = ""  # the request that it comes from; empty for a job that the controller's own process submits
    sight: Sight = "feed"  # what a job that may move is shown of its pools

    @classmethod
    def read(
        cls,
        path: str,
        *,
        policy: Spec | None = None,
        market: MarketSpec | None = None,
        fleet: FleetText | None = None,
        key: str = "",
        sight: Sight = "feed",
        job_class: str = "",
    ) -> Self:
        """Read a job file; raises InputError or InfeasibleError when it cannot be run anywhere.

        Without `fleet`, what a job of a class leaves to its fleet is filled with stand-ins.
        """
        text = read_text(path)
        text = text if fleet is None else fleet.completed(text)
        file = parse_job(checkable(text, job_class), path=path)
        check_runnable(file)
        return cls(
            file=_without_values(file, path),
            text=without_secrets(text),
            envs=taken_over(file.envs),
            policy=policy,
            market=market or MarketSpec(),
            fleet=fleet,
            key=key,
            sight=sight,
        )

    def at(self, now: datetime) -> JobFile:
        """Return the file as read at a moment, from which the hours until dates in it are counted."""
        if not self.file.dated:
            return self.file
        return _without_values(parse_job(self.text, path=self.file.path, now=now), self.file.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a controller uses for anything that a request leaves open."""

    market: MarketSpec = field(default_factory=MarketSpec)
    fleet: FleetText | None = None
    policy: Spec | None = None  # for the jobs of its fleet if it has one, else for all jobs

    def check(self) -> None:
        """Raise InputError if the market or the fleet file that is named cannot be read.

        Without this check the mistake would show only when the first job is refused. A feed is not checked,
        because it may start later.
        """
        if self.market.source is not None and not is_feed(self.market.source):
            self.market.open()
        if self.fleet is not None:
            allocators.make(self.fleet.allocator(self.policy))

    def submission(self, request: SubmissionAsked, taken_over: Mapping[str, str] = NOTHING) -> Submission:
        """Return the submission of a request; raises InputError when its job file cannot be read.

        `taken_over` are values of variables from the machine that sent it; requests of earlier versions hold
        them themselves.
        """
        text = with_class(request.text, request.job_class) if request.job_class else request.text
        text = text if self.fleet is None else self.fleet.completed(text)
        file = parse_job(text, path=request.path, now=datetime.now(UTC))
        if request.job_class and self.fleet is None:
            raise InputError(
                f"a class must be in the controller's fleet, got {request.job_class!r} and no fleet; "
                "start the controller with --fleet, or leave the class out"
            )
        fleet, usual = self.fleet, self.policy
        if fleet is not None and not fleet.takes(file, usual, own_policy=bool(request.policy)):
            fleet, usual = None, None
        return Submission(
            file=_without_values(file, request.path),
            text=text,
            envs={**request.envs, **taken_over},
            policy=json.loads(request.policy) if request.policy else usual,
            market=dataclasses.replace(self.market, pool=request.pool or self.market.pool),
            fleet=fleet,
            key=request.key,
            sight=request.sight,
        )


def checkable(text: str, job_class: str = "") -> str:
    """Return a job file's text that can be read without the fleet to which it leaves its GPUs or its work."""
    named = with_class(text, job_class) if job_class and not class_named(text) else text
    return with_usual(text, ANY_OF_A_CLASS) if is_bare(named) else text


def _gpus(job: Job) -> str:
    """Return the widths of a class as a job file writes them."""
    low, high = job.widths[0], job.widths[-1]
    whole = len(job.widths) == high - low + 1
    return f"GPU:{low}..{high}" if whole else f"GPU:{{{','.join(map(str, job.widths))}}}"


def request(submission: Submission, at_hours: float, job_class: str = "") -> SubmissionAsked:
    return SubmissionAsked(
        at_hours=at_hours,
        actor="user",
        key=submission.key,
        text=submission.text,
        path=submission.file.path,
        policy="" if submission.policy is None else json.dumps(submission.policy),
        pool=submission.market.pool or "",
        sight=submission.sight,
        job_class=job_class,
    )


def check_runnable(file: JobFile) -> None:
    """Raise InputError for a job with nothing to run, InfeasibleError if it cannot meet its deadline."""
    check_feasible(file.job)
    check_command(file)


def check_command(file: JobFile) -> None:
    """Raise InputError for a job with nothing to run."""
    if file.run is None:
        raise InputError(
            f"{file.path}: a job must have a command, got no 'run'; write 'run: python train.py'"
        )


def _without_values(file: JobFile, path: str) -> JobFile:
    """Return a file with an absolute path, and with the names of its secrets but not their values."""
    return dataclasses.replace(file, path=str(Path(path).absolute()), secrets=dict.fromkeys(file.secrets))


def taken_over(envs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables that a job file only names, with their values in this process's environment."""
    names = [name for name, value in envs.items() if value is None]
    for name in names:
        if name not in os.environ:
            must = f"variable {name} must be set here or given a value in the job file, got neither"
            raise InputError(must)
    return {name: os.environ[name] for name in names}


def journal_entry(
    submission: Submission,
    file: JobFile,
    *,
    job: str,
    at_hours: float,
    now: datetime,
    site: SiteOpened | None = None,
) -> Submitted:
    """Return the entry with which the journal can run a job; `file` is its file as read `now`.

    `site` is the market of the journal's other jobs. Raises InputError or InfeasibleError when the job
    cannot be run.
    """
    check_runnable(file)
    fleet, market = submission.fleet, submission.market
    # All jobs of a fleet are on its market.
    written = (None if fleet is None else fleet.parsed().market) or file.market
    options = market_options(market, written, site)
    opened = open_named(**options)
    check_unchanged(site, opened)
    policy = _policy(submission, file, opened)
    pools = _pools(submission, file, opened, policy)
    pool = opened.pool(pools[0]) if pools else _pool(market, file, opened, site, at_hours)
    entry = Submitted(
        job=job,
        at_hours=at_hours,
        actor="user",
        text=submission.text,
        submitted_utc=now.isoformat(),
        path=file.path,
        policy=json.dumps(policy if fleet is None else fleet.allocator(submission.policy)),
        learning=policy == AUTO and fleet is None,
        market=json.dumps(options),
        pool=pool.name,
        slot_hours=pool.slot_hours,
        start_slot=0,
        key=submission.key,
        pools=pools,
        sight=submission.sight if pools and fleet is None else "feed",
        fleet="" if fleet is None else fleet.text,
        fleet_path="" if fleet is None else fleet.path,
        fleet_class="" if fleet is None else file.fleet_class or "",
    )
    if fleet is not None:
        check_member(entry)
    elif file.job.deadline_hours == math.inf:
        raise InputError(f"{file.path}: a job without a deadline must be in a fleet; name it with --fleet")
    if site is not None:
        return placed(entry, file.job, pool, market.start, site)
    start_slot = first_slot(entry, file.job, pool, market.start, shared=market.shared)
    return dataclasses.replace(entry, start_slot=start_slot)


def may_move(path: str, policy: Spec | None, market: MarketSpec) -> bool:
    """Whether the job of a file may move between pools, provided that its market has several for it."""
    file = read_job_file(path)
    spec = file.policy if policy is None else policy
    roaming = bool(file.job.pools) if spec == AUTO else roams(policies.make(spec))
    return market.pool is None and roaming


def _policy(submission: Submission, file: JobFile, market: Market) -> Spec:
    """Return the policy of a job: the submission's, else its file's.

    The policies behind `auto` stay in one pool, so a job that names several pools of its market gets
    `roaming-horizon` instead.
    """
    policy: Spec = file.policy if submission.policy is None else submission.policy
    free = policy == AUTO and file.job.pools and submission.market.pool is None and submission.fleet is None
    return OVER_POOLS if free and len(usable(file.job, file.gpu, market)) > 1 else policy


def _pools(submission: Submission, file: JobFile, market: Market, policy: Spec) -> tuple[str, ...]:
    """Return the pools between which a job may move; none for one that stays in its pool.

    It may move if its policy moves jobs or its fleet shares a market, no pool was named for it, and it may
    use several.
    """
    if submission.market.pool:
        return ()
    if submission.fleet is not None:
        roaming = submission.fleet.shares_market(submission.policy)
    else:
        roaming = policy != AUTO and roams(policies.make(policy))
    names = usable(file.job, file.gpu, market) if roaming else ()
    return names if len(names) > 1 else ()


def _pool(
    market: MarketSpec, file: JobFile, opened: Market, site: SiteOpened | None, at_hours: float
) -> Pool:
    """Return the pool that is named, or else the one in which such jobs were cheapest lately."""
    if market.pool:
        return opened.pool(market.pool)
    if file.job.pools:  # only those that the job may use
        places = places_of(file.job, file.gpu, opened)
        opened = dataclasses.replace(opened, pools=tuple(opened.pool(place.pool) for place in places))

    def job_in_pool(pool: Pool) -> Job:
        return job_in(file.job, file.gpu, opened, pool.name) if file.job.pools else file.job

    def stands(pool: Pool) -> int | None:
        if site is not None:
            return standing(site, pool, at_hours).slot
        return wanted_slot(job_in_pool(pool), pool, market.start, shared=market.shared)

    return cheapest(opened, pool_bills(job_in_pool, opened, stands))


def market_options(market: MarketSpec, written: str | None, site: SiteOpened | None) -> dict[str, Any]:
    """Return how to open the market: the named one, else that of the other jobs, else the default."""
    named, options = market.source or written, market.options()
    if site is not None:
        return same_market(site, {**({"spec": whole_spec(named)} if named else {}), **options})
    return {"spec": whole_spec(named or market.usual or DEFAULT_MARKET), **options}
