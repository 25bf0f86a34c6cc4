"""Builds the typed requests of `plan`, `backtest` and `learn` from the options of a command.

They are the same whether the work is done here or on a server; only what they say of the job file differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slacktide.cli.shared import options as common

if TYPE_CHECKING:
    from slacktide.app.task_requests import BacktestRequest, JobTask, LearnRequest, PlanRequest


def plan_request(
    job: str,
    given: Mapping[str, Any],
    sent: Mapping[str, Any] | None = None,
    wants: Sequence[Any] = (),
    *,
    check: bool = False,
) -> PlanRequest:
    """Return the request for a plan of a job file; `sent` says what a server is sent of the file."""
    from slacktide.app.task_requests import PlanRequest

    return PlanRequest(
        **(_as_it_is(job) if sent is None else sent),
        policy=written(common.parse_policy(given["policy"], job)),
        start=given.get("start"),
        wants=tuple(wants),
        check=check,
    )


def backtest_request(
    job: str, given: Mapping[str, Any], sent: Mapping[str, Any] | None = None, wants: Sequence[Any] = ()
) -> BacktestRequest:
    """Return the request for a back-test of a job file."""
    from slacktide.app.task_requests import BacktestRequest

    starts = common.parse_starts(given["starts"])
    policies = [written(one) for one in common.parse_policies(given["policy"], job)]
    return BacktestRequest(
        **(_as_it_is(job) if sent is None else sent),
        policies=tuple(one for one in policies if one is not None),
        starts=starts.count,
        every_hours=starts.every_hours,
        truth=given["truth"],
        sight=given["sight"],
        wants=tuple(wants),
    )


def learn_request(
    job: str, given: Mapping[str, Any], sent: Mapping[str, Any] | None = None, wants: Sequence[Any] = ()
) -> LearnRequest:
    """Return the request to train the choice among policies with a job file."""
    from slacktide.app.task_requests import LearnRequest

    training = {name: given[name] for name in ("jobs", "seed", "pool_of")}
    return LearnRequest(**(_as_it_is(job) if sent is None else sent), **training, wants=tuple(wants))


def on_market(request: Any, given: Mapping[str, Any], journal: Any = None) -> JobTask[Any]:
    """Return the task of a request that is done here, on the market that the options name."""
    from slacktide.app.task_requests import local_task

    return local_task(request, common.market_spec(given), journal)


def written(policy: object) -> str | None:
    """Return a policy as requests have it: as JSON; None for none."""
    return None if policy is None else json.dumps(policy)


def _as_it_is(job: str) -> dict[str, Any]:
    """Return a job file as it is read here: its path stays, because other files are looked up from it."""
    from slacktide.core.yaml_tree import read_text

    return {"text": read_text(job), "name": job}
