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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from slacktide.app import pictures
from slacktide.app.backtest import BacktestRequest, Starts, Truth, parse_truth, run_backtest
from slacktide.app.journal import open_journal
from slacktide.app.machines import MachinesRequest, list_machines
from slacktide.app.market import MarketSpec
from slacktide.app.market_now import MarketRequest, market_now
from slacktide.app.plan import PlanRequest, check_plan, make_plan
from slacktide.app.pool_forecast import ForecastRequest, forecast_pool
from slacktide.app.pools_plan import make_pools_plan
from slacktide.app.question_forms import (
    BacktestQuestion,
    CostQuestion,
    MachinesQuestion,
    PlanQuestion,
    RunQuestion,
    Setting,
    read_as,
)
from slacktide.app.server_paths import ServerPaths
from slacktide.app.uploads import check_market, check_policy, parsed, policy_spec
from slacktide.backtesting.compare import Progress
from slacktide.engine.snapshots import read_world
from slacktide.errors import InputError, SlacktideError
from slacktide.report.tables import machines as machines_report
from slacktide.report.tables import plan as plan_report
from slacktide.report.tables import pools_plan as pools_plan_report
from slacktide.report.wire import backtest as backtest_wire
from slacktide.report.wire import values

MOST_STARTS = 500
"""Of a back-test that others ask for."""
SHORTEST_APART_HOURS = 1.0
"""Between two starts of a back-test that others ask for."""
SAY_S = 0.2
"""How often it is said how far an answer is."""


def answer(
    setting: Setting, verb: str, asked: Mapping[str, Any], progress: Progress = lambda done, total: None
) -> dict[str, Any]:
    """Answer a question of a verb, and say meanwhile how far it is; raises what goes wrong with it."""
    kind, answering = VERBS[verb]
    return answering(setting, read_as(kind, asked), progress)


def _plan(setting: Setting, asked: PlanQuestion, progress: Progress) -> dict[str, Any]:
    check_policy(asked.policy)
    with _written(asked.text, asked.name) as path:
        request = PlanRequest(
            path=path,
            market=_market(setting, asked.text, asked),
            policy=policy_spec(asked.policy),
            journal=Path(setting.journal),
        )
        if asked.check:
            check_plan(request)
            return {}
        moving = make_pools_plan(request, progress=progress)
        if moving is not None:
            return _with(pools_plan_report.as_json(moving), asked.wants, pictures.of_pools_plan(moving))
        staying = make_plan(request, progress=progress)
        return _with(plan_report.as_json(staying), asked.wants, pictures.of_plan(staying))


def _with(document: dict[str, Any], wants: Sequence[str], makers: pictures.Makers) -> dict[str, Any]:
    """Return an answer with what else is to be made of it."""
    return {**document, "made": pictures.made(wants, makers)} if wants else document


def _backtest(setting: Setting, asked: BacktestQuestion, progress: Progress) -> dict[str, Any]:
    for policy in asked.policies:
        check_policy(policy)
    with _written(asked.text, asked.name) as path:
        request = BacktestRequest(
            path=path,
            market=_market(setting, asked.text, asked),
            policies=[spec for policy in asked.policies if (spec := policy_spec(policy)) is not None],
            starts=_starts(asked),
            truth=Truth() if asked.truth is None else parse_truth(asked.truth),
            sight=asked.sight,
        )
        result = run_backtest(request, progress=progress)
        return _with(backtest_wire.as_json(result), asked.wants, pictures.of_backtest(result))


def _starts(asked: BacktestQuestion) -> Starts:
    if asked.every_hours is not None:
        if not asked.every_hours >= SHORTEST_APART_HOURS:
            raise InputError(f"every_hours must be >= {SHORTEST_APART_HOURS:g}, got {asked.every_hours:g}")
        return Starts(count=None, every_hours=asked.every_hours)
    if asked.starts is None or not 1 <= asked.starts <= MOST_STARTS:
        raise InputError(f"starts must be between 1 and {MOST_STARTS}, got {asked.starts}")
    return Starts(count=asked.starts)


def _cost(setting: Setting, asked: CostQuestion, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        return journal.cost_told(asked.job or None)._asdict()


def _run(setting: Setting, asked: RunQuestion, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        run = pictures.of_run(journal, asked.job, ServerPaths(Path(setting.journal)))
        return pictures.made([asked.want], run)


def _machines(setting: Setting, asked: MachinesQuestion, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        file = read_world(journal.store).machines
    rows = list_machines(MachinesRequest(file=Path(file), journal=Path(setting.journal))) if file else []
    return {"machines": [machines_report.as_json(one) for one in rows]}


def _now(setting: Setting, asked: MarketRequest, progress: Progress) -> dict[str, Any]:
    return market_now(Path(setting.journal), setting.market, asked)


def _forecast(setting: Setting, asked: ForecastRequest, progress: Progress) -> dict[str, Any]:
    found = forecast_pool(Path(setting.journal), setting.market, asked)
    return {"forecast": values.plain(found)}


VERBS: dict[str, tuple[Any, Callable[[Setting, Any, Progress], dict[str, Any]]]] = {
    "plan": (PlanQuestion, _plan),
    "backtest": (BacktestQuestion, _backtest),
    "cost": (CostQuestion, _cost),
    "run": (RunQuestion, _run),
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

    def tell(told: dict[str, Any]) -> None:
        answering.write(json.dumps(told, allow_nan=False) + "\n")
        answering.flush()

    for line in asking:
        asked = json.loads(line)
        tell(_answered(setting, asked["verb"], asked["request"], _now_and_then(tell)))


def _now_and_then(tell: Callable[[dict[str, Any]], None]) -> Progress:
    """Return what says how far an answer is, not more often than anybody reads it."""
    due_s = time.monotonic() + SAY_S

    def progress(done: int, total: int) -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + SAY_S
            tell({"progress": [done, total]})

    return progress


def _answered(setting: Setting, verb: str, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    try:
        return {"answer": answer(setting, verb, request, progress)}
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
