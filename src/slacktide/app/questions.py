"""Questions that take seconds, answered in a process of their own: plans, bills, markets and the like.

Started by a server with `python -m slacktide.app.questions`, it reads one question on each line of its input
and writes one answer on each line of its output, and it ends with its input: so it never outlives who asks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from slacktide.app.backtest import BacktestRequest, Starts, Truth, parse_truth, run_backtest
from slacktide.app.journal import open_journal
from slacktide.app.machines import MachinesRequest, list_machines
from slacktide.app.market import MarketSpec
from slacktide.app.market_now import MarketRequest, market_now
from slacktide.app.plan import PlanRequest, make_plan
from slacktide.app.pool_forecast import ForecastRequest, forecast_pool
from slacktide.app.pools_plan import make_pools_plan
from slacktide.app.uploads import check_market, check_policy, parsed, policy_spec
from slacktide.engine.snapshots import read_world
from slacktide.errors import InputError, SlacktideError
from slacktide.events import Sight
from slacktide.report import machines as machines_report
from slacktide.report import plan as plan_report
from slacktide.report import pools_plan as pools_plan_report
from slacktide.report.wire import backtest as backtest_wire
from slacktide.report.wire import values
from slacktide.store.json_scalars import Misfit
from slacktide.store.json_types import form

MOST_STARTS = 500
"""Of a back-test that others ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Whose questions are answered."""

    journal: str
    market: MarketSpec = field(default_factory=MarketSpec)
    """The server's own, where a question and its job file name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """What would this job cost, and when would it be done?"""

    text: str
    """The job file."""
    name: str = "job.yaml"
    market: str | None = None
    """A synthetic one; None: the job file's, else the server's."""
    pool: str | None = None
    policy: str | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestQuestion:
    """How would policies have done with this job on past market data?"""

    text: str
    name: str = "job.yaml"
    market: str | None = None
    pool: str | None = None
    policies: tuple[str, ...] = ()
    starts: int = 24
    truth: str | None = None
    sight: Sight = "feed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """What did a job cost, or the whole journal?"""

    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesQuestion:
    """What is rented?"""


def answer(setting: Setting, verb: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a question of a verb; raises what goes wrong with it."""
    kind, answering = VERBS[verb]
    return answering(setting, read_as(kind, asked))


def read_as(kind: Any, tree: object) -> Any:
    """Return a typed request from JSON; raises InputError where a field is unknown, absent or of no use."""
    try:
        return form(kind).read(tree)
    except Misfit as misfit:
        raise InputError(f"a request must be as documented: {misfit}") from None


def _plan(setting: Setting, asked: PlanQuestion) -> dict[str, Any]:
    check_policy(asked.policy)
    with _written(asked.text, asked.name) as path:
        request = PlanRequest(
            path=path,
            market=_market(setting, asked.text, asked),
            policy=policy_spec(asked.policy),
            journal=Path(setting.journal),
        )
        moving = make_pools_plan(request)
        if moving is not None:
            return {**pools_plan_report.as_json(moving), "deadline_hours": moving.job.deadline_hours}
        made = make_plan(request)
        return {**plan_report.as_json(made), "deadline_hours": made.job.deadline_hours}


def _backtest(setting: Setting, asked: BacktestQuestion) -> dict[str, Any]:
    if not 1 <= asked.starts <= MOST_STARTS:
        raise InputError(f"starts must be between 1 and {MOST_STARTS}, got {asked.starts}")
    for policy in asked.policies:
        check_policy(policy)
    with _written(asked.text, asked.name) as path:
        request = BacktestRequest(
            path=path,
            market=_market(setting, asked.text, asked),
            policies=[spec for policy in asked.policies if (spec := policy_spec(policy)) is not None],
            starts=Starts(count=asked.starts),
            truth=Truth() if asked.truth is None else parse_truth(asked.truth),
            sight=asked.sight,
        )
        return backtest_wire.as_json(run_backtest(request))


def _cost(setting: Setting, asked: CostQuestion) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        return journal.cost_told(asked.job or None)._asdict()


def _machines(setting: Setting, asked: MachinesQuestion) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        file = read_world(journal.store).machines
    rows = list_machines(MachinesRequest(file=Path(file), journal=Path(setting.journal))) if file else []
    return {"machines": [machines_report.as_json(one) for one in rows]}


def _now(setting: Setting, asked: MarketRequest) -> dict[str, Any]:
    return market_now(Path(setting.journal), setting.market, asked)


def _forecast(setting: Setting, asked: ForecastRequest) -> dict[str, Any]:
    found = forecast_pool(Path(setting.journal), setting.market, asked)
    return {"forecast": values.plain(found)}


VERBS: dict[str, tuple[Any, Callable[[Setting, Any], dict[str, Any]]]] = {
    "plan": (PlanQuestion, _plan),
    "backtest": (BacktestQuestion, _backtest),
    "cost": (CostQuestion, _cost),
    "machines": (MachinesQuestion, _machines),
    "markets": (MarketRequest, _now),
    "forecast": (ForecastRequest, _forecast),
}


def _market(setting: Setting, text: str, asked: PlanQuestion | BacktestQuestion) -> MarketSpec:
    """Return the market of a question: its own, else the job file's, else the server's."""
    check_market(asked.market, asked.name)
    start = asked.start if isinstance(asked, PlanQuestion) else None
    if asked.market or parsed(text, asked.name).market:
        return MarketSpec(source=asked.market, pool=asked.pool, start=start)
    return dataclasses.replace(setting.market, pool=asked.pool or setting.market.pool, start=start)


@contextlib.contextmanager
def _written(text: str, name: str) -> Iterator[str]:
    """Put a job file into a folder of its own while it is worked on; errors name the file alone."""
    parsed(text, name)
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        path = Path(folder, Path(name).name)
        path.write_text(text, encoding="utf-8")
        try:
            yield str(path)
        except SlacktideError as error:
            error.args = (str(error).replace(f"{folder}{os.sep}", ""),)
            raise


def main(asking: TextIO, answering: TextIO) -> None:
    """Answer questions until there are no more; the first line says whose they are."""
    with contextlib.suppress(OSError):
        os.nice(5)  # the controller and whoever asks it come first
    first = asking.readline()
    if not first:
        return
    setting: Setting = read_as(Setting, json.loads(first))
    for line in asking:
        asked = json.loads(line)
        answering.write(
            json.dumps(_answered(setting, asked["verb"], asked["request"]), allow_nan=False) + "\n"
        )
        answering.flush()


def _answered(setting: Setting, verb: str, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": answer(setting, verb, request)}
    except Exception as error:  # whatever is wrong with a question is its answer
        return {"error": told_error(error)}


def told_error(error: Exception) -> dict[str, Any]:
    """Say what went wrong as data: its kind, its message, its exit code and its HTTP status."""
    known = error if isinstance(error, SlacktideError) else SlacktideError()
    return {
        "kind": type(error).__name__ if error is known else "InternalError",
        "message": str(error) if error is known else f"something went wrong: {type(error).__name__}",
        "exit_code": known.exit_code,
        "status": known.http_status,
    }


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    main(sys.stdin, answers)
