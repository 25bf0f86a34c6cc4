"""The options of `run`, `controller`, `serve` and `demo`, and the requests made from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import say
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.jobs.setup import Setup
    from slacktide.app.jobs.submission import Defaults, FleetText, Submission
    from slacktide.app.markets.market import MarketSpec
    from slacktide.app.task_requests import JobTask, PlanRequest
    from slacktide.core.register import Spec
    from slacktide.journal.events import Sight

controller_options = common.together(
    click.option(
        "--backend",
        metavar="NAME",
        help="Where workers run; default: local. `slacktide backends` lists them.",
    ),
    click.option(
        "--machines",
        type=common.FILE,
        metavar="FILE",
        help="Rent machines by this file, as many as jobs need, for back end ray; see `slacktide machines`.",
    ),
    click.option(
        "--speed", type=float, metavar="X", help="How many times as fast as real time the clock runs."
    ),
    click.option(
        "--notice",
        type=common.Duration(),
        default="0s",
        help="How long before a preemption workers get notice, in real time.",
    ),
    click.option(
        "--on-hangup",
        type=click.Choice(["stop", "continue"]),
        default="stop",
        help="When the terminal is closed: release all GPUs, or continue without a screen.",
    ),
)
"""The options for how a controller runs jobs."""
staying_options = common.together(
    common.market_options,
    common.policy_option("The policy for jobs submitted without one"),
    click.option(
        "--fleet", type=click.Path(), metavar="FLEET",
        help="The fleet file of jobs that name a class; of all jobs where it is on a market.",
    ),
    click.option(
        "--start", type=int, metavar="SLOT",
        help="The slot that a market of the past starts in; default: its middle, or 0 with --fleet.",
    ),
    click.option(
        "--alerts", type=common.FILE, metavar="FILE",
        help="Send alerts to the hooks of this file; see `slacktide alerts`.",
    ),
    controller_options,
)  # fmt: skip
"""The options of a controller that runs submitted jobs until it is stopped."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run jobs: market, policy and fleet."""

    market: MarketSpec
    policy: Spec | None = None
    fleet: FleetText | None = None
    sight: Sight = "feed"  # what a job that may move can see of its pools

    def plan(self, path: str) -> JobTask[PlanRequest]:
        from slacktide.app.task_requests import PlanRequest, local_task

        request = PlanRequest(**common.as_it_is(path), policy=common.written(self.policy))
        return local_task(request, self.market)

    def submission(self, path: str) -> Submission:
        from slacktide.app.jobs.submission import Submission

        return Submission.read(
            path, policy=self.policy, market=self.market, fleet=self.fleet, sight=self.sight
        )

    def may_move(self, paths: Sequence[str]) -> bool:
        """Whether any of these jobs may move between pools, so that none should be chosen for them."""
        from slacktide.app.jobs.submission import may_move

        return any(may_move(path, self.policy, self.market) for path in paths)

    def on_pool(self, pool: str) -> RunOptions:
        """Return these options with this pool; unchanged if it is empty."""
        return dataclasses.replace(self, market=dataclasses.replace(self.market, pool=pool)) if pool else self

    def for_others(self) -> Defaults:
        """Return the defaults for jobs that others submit: without the pool, the policy only with a fleet."""
        from slacktide.app.jobs.submission import Defaults

        market = dataclasses.replace(self.market, pool=None)
        return Defaults(market=market, fleet=self.fleet, policy=self.policy if self.fleet else None)

    def for_all(self) -> Defaults:
        """Return these options as the defaults of all submitted jobs, which share the market."""
        from slacktide.app.jobs.submission import Defaults

        return Defaults(
            market=dataclasses.replace(self.market, shared=True), fleet=self.fleet, policy=self.policy
        )


def run_options_of(given: dict[str, Any]) -> RunOptions:
    """Return how to run jobs, from the options of a command."""
    from slacktide.app.jobs.submission import FleetText

    fleet = FleetText.read(given["fleet"]) if given["fleet"] else None
    named = next(iter(given.get("job", ())), given["fleet"])
    policy, sight = common.parse_policy(given["policy"], named), given.get("sight", "feed")
    return RunOptions(common.market_spec(given), policy, fleet, sight)


def setup_of(given: dict[str, Any], defaults: Defaults) -> Setup:
    """Return the controller's setup from a command's options; print notes about the alerts file on stderr."""
    from slacktide.app.jobs.setup import Setup

    alerts = None
    if given.get("alerts") is not None:
        from slacktide.app.alerts.file import read_alerts_file

        alerts = read_alerts_file(given["alerts"])
        for note in alerts.notes:
            say(note, err=True)
    return Setup(
        speed=given["speed"],
        notice_s=given["notice"] * 3600.0,
        backend=given["backend"],
        machines=given.get("machines"),
        defaults=defaults,
        alerts=alerts,
    )


def submit_or_resume(
    controller: Controller, paths: Sequence[str], wanted: RunOptions, *, resume: bool
) -> list[str]:
    """Submit jobs, or with `resume` continue those of the journal; return the ids of all that will run."""
    named = {str(Path(path).absolute()) for path in paths}
    if resume:
        _accept_waiting(controller)
    active = set(controller.journal.unfinished().values())
    if resume and not active:
        came = "but all have" if controller.state.jobs else "got a journal without any job"
        raise InputError(
            f"{controller.path}: an unfinished job must exist, {came}; name a job file to start it, or "
            "another journal with --journal"
        )
    if resume and named - active:
        missing = next(path for path in paths if str(Path(path).absolute()) not in active)
        raise InputError(f"{missing}: it must have started and not ended; leave out --resume to start it")
    if active - named and not resume:
        others = ", ".join(sorted(active - named))
        say(f"unfinished jobs of this journal resume too: {others}", err=True)
    for path in paths:
        if controller.active_of(path) is None:
            controller.submit(wanted.submission(path))
    return list(controller.journal.unfinished())


def _accept_waiting(controller: Controller) -> None:
    """Have the controller answer waiting submissions, and print on stderr which were refused."""
    waiting = controller.journal.waiting()
    controller.answer()
    for submission in waiting:
        answer = controller.state.requests.answers[submission.key]
        if not answer.job:
            click.echo(f"refused {submission.path} (key {submission.key}): {answer.why}", err=True)
