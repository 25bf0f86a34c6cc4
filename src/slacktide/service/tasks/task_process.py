"""The task process: makes plans, bills, markets and the like, which take seconds.

Started by a server with `python -m slacktide.service.tasks.task_process`, it reads one request on each line
of its input and writes one answer on each line of its output, and it ends with its input: so it never
outlives the server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from slacktide.app.journal.journal import open_journal
from slacktide.app.machines import MachinesRequest, list_machines
from slacktide.app.markets.market_now import MarketRequest, market_now
from slacktide.app.markets.pool_forecast import ForecastRequest, forecast_pool
from slacktide.app.planning import backtest as backtesting
from slacktide.app.planning import plan as planning
from slacktide.app.planning.backtest import Starts, Truth, parse_truth
from slacktide.app.planning.learning import Hedge, Lessons, forget, learned, learned_path, teach
from slacktide.app.tasks import (
    AboutJob,
    BacktestRequest,
    CostRequest,
    LearnedRequest,
    LearnRequest,
    NoDetails,
    OutOfMemoryError,
    PlanRequest,
    RenderRequest,
    Setting,
    as_request,
    parse_policy,
    read_request,
)
from slacktide.core.errors import InputError, SlacktideError, shown
from slacktide.files.untrusted import named_in
from slacktide.journal.state.snapshots import read_state
from slacktide.report.text.tables import learn as learn_report
from slacktide.report.text.tables import machines as machines_report
from slacktide.report.wire import backtest as backtest_wire
from slacktide.report.wire import plan as plan_wire
from slacktide.report.wire import values
from slacktide.results.comparison import Comparison
from slacktide.results.plan import JobPlan
from slacktide.service.tasks import renderings
from slacktide.service.tasks.task_markets import market_of
from slacktide.service.uploads.server_paths import ServerPaths, without_folder
from slacktide.service.uploads.uploads import check_policy, parsed
from slacktide.simulation.compare import Progress

SHARE_OF_MEMORY = 0.5
"""Of the machine's memory that may be used for an answer: the controller and its workers need the rest."""
LONGEST_NAME = 200
"""Of a job file, in bytes: every file system takes it."""
SAY_S = 0.2
"""How often it is said how far an answer is."""
Result = TypeVar("Result", JobPlan, Comparison)


def answer(
    setting: Setting, verb: str, asked: Mapping[str, Any], progress: Progress = lambda done, total: None
) -> dict[str, Any]:
    """Answer a request of a verb and report progress meanwhile; raises what goes wrong with it."""
    kind, answering = VERBS[verb]
    return answering(setting, as_request(kind, asked), progress)


def _plan(setting: Setting, asked: PlanRequest, progress: Progress) -> dict[str, Any]:
    check_policy(asked.policy)
    text = _whole(setting, asked)
    with _written(text, asked) as path:
        wanted = planning.PlanRequest(
            path=path,
            market=market_of(setting, text, asked),
            policy=parse_policy(asked.policy),
            journal=Path(setting.journal),
        )
        if asked.check:
            planning.check_plan(wanted)
            return {}
        made = _shown(setting, asked, planning.make_plan(wanted, progress=progress))
        return _with(plan_wire.as_json(made), asked.wants, renderings.of_plan(made))


def _shown(setting: Setting, asked: AboutJob, result: Result) -> Result:
    """Return a result that names the files of the server's market without its folders.

    A market that was sent has the names that its sender gave it.
    """
    if asked.sent is not None:
        return result
    paths = _paths(setting)
    assumptions = tuple(paths.out_of(sentence) for sentence in result.assumptions)
    return dataclasses.replace(result, market=paths.out_of(result.market), assumptions=assumptions)


def _paths(setting: Setting) -> ServerPaths:
    fleet = None if setting.fleet is None else setting.fleet.path
    return ServerPaths(Path(setting.journal), setting.market.source, fleet)


def _with(document: dict[str, Any], wants: Sequence[str], makers: renderings.Makers) -> dict[str, Any]:
    """Return an answer with what else is to be made of it."""
    return {**document, "made": renderings.made(wants, makers)} if wants else document


def _backtest(setting: Setting, asked: BacktestRequest, progress: Progress) -> dict[str, Any]:
    for policy in asked.policies:
        check_policy(policy)
    text = _whole(setting, asked)
    with _written(text, asked) as path:
        wanted = backtesting.BacktestRequest(
            path=path,
            market=market_of(setting, text, asked),
            policies=[spec for policy in asked.policies if (spec := parse_policy(policy)) is not None],
            starts=_starts(asked),
            truth=Truth() if asked.truth is None else parse_truth(asked.truth),
            sight=asked.sight,
        )
        result = _shown(setting, asked, backtesting.run_backtest(wanted, progress=progress))
        return _with(backtest_wire.as_json(result), asked.wants, renderings.of_backtest(result))


def _starts(asked: BacktestRequest) -> Starts:
    if asked.every_hours is not None:
        return Starts(count=None, every_hours=asked.every_hours)
    if asked.starts is None:
        raise InputError("starts or every_hours must be given, got neither")
    return Starts(count=asked.starts)


def _learned(setting: Setting, asked: LearnedRequest, progress: Progress) -> dict[str, Any]:
    path = learned_path(setting.learned)
    with without_folder(path.parent):
        return _trust(learned(path, asked.pool_of), path.name, asked.wants)


def _learn(setting: Setting, asked: LearnRequest, progress: Progress) -> dict[str, Any]:
    state, text = learned_path(setting.learned), _whole(setting, asked)
    with _written(text, asked) as path, without_folder(state.parent):
        lessons = Lessons(path=path, market=market_of(setting, text, asked), jobs=asked.jobs, seed=asked.seed)
        hedge = teach(state, lessons, pool_of=asked.pool_of, progress=progress)
        return _trust(hedge, state.name, asked.wants)


def _trust(hedge: Hedge, state: str, wants: Sequence[str]) -> dict[str, Any]:
    return _with(learn_report.as_json(hedge, state), wants, renderings.of_learned(hedge, state))


def _forget(setting: Setting, asked: NoDetails, progress: Progress) -> dict[str, Any]:
    forget(learned_path(setting.learned))
    return {}


def _cost(setting: Setting, asked: CostRequest, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        return journal.cost_report(asked.job or None)._asdict()


def _run(setting: Setting, asked: RenderRequest, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        run = renderings.of_run(journal, asked.job, _paths(setting))
        return renderings.made([asked.want], run)


def _machines(setting: Setting, asked: NoDetails, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        file = read_state(journal.store).machines
    rows = list_machines(MachinesRequest(file=Path(file), journal=Path(setting.journal))) if file else []
    return {"machines": [machines_report.as_json(one) for one in rows]}


def _now(setting: Setting, asked: MarketRequest, progress: Progress) -> dict[str, Any]:
    return market_now(Path(setting.journal), setting.market, asked)


def _forecast(setting: Setting, asked: ForecastRequest, progress: Progress) -> dict[str, Any]:
    found = forecast_pool(Path(setting.journal), setting.market, asked)
    return {"forecast": values.plain(found)}


VERBS: dict[str, tuple[Any, Callable[[Setting, Any, Progress], dict[str, Any]]]] = {
    "plan": (PlanRequest, _plan),
    "backtest": (BacktestRequest, _backtest),
    "learned": (LearnedRequest, _learned),
    "learn": (LearnRequest, _learn),
    "forget": (NoDetails, _forget),
    "cost": (CostRequest, _cost),
    "run": (RenderRequest, _run),
    "machines": (NoDetails, _machines),
    "markets": (MarketRequest, _now),
    "forecast": (ForecastRequest, _forecast),
}


def _whole(setting: Setting, asked: AboutJob) -> str:
    """Return the job file of a question, with what its class says where the server has a fleet."""
    check_policy(named_in(asked.text, asked.name).code)  # and that it is YAML at all
    return asked.text if setting.fleet is None else setting.fleet.completed(asked.text)


@contextlib.contextmanager
def _written(text: str, asked: AboutJob) -> Iterator[str]:
    """Put a job file into a folder of its own while it is worked on; errors name the file alone."""
    _check_name(asked.name)
    parsed(text, asked.name, market_sent=asked.sent is not None)
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        path = Path(folder, asked.name)
        path.write_text(text, encoding="utf-8")
        with without_folder(Path(folder)):
            yield str(path)


def _check_name(name: str) -> None:
    """Raise InputError unless a file can have a name, here as well as where the question comes from."""
    whole = name.isprintable() and "/" not in name and name not in ("", ".", "..")
    if not whole or len(name.encode()) > LONGEST_NAME:
        raise InputError(
            f"the name of a job file must be 1 to {LONGEST_NAME} bytes of printable characters without a "
            f"folder, got {shown(name)}"
        )


def main(asking: TextIO, answering: TextIO) -> None:
    """Answer questions until there are no more; the first line says whose they are."""
    with contextlib.suppress(OSError):
        os.nice(5)  # the controller and the requests that it answers come first
    _leave_memory()
    first = asking.readline()
    if not first:
        return
    setting: Setting = read_request(Setting, first.encode())

    def tell(told: dict[str, Any]) -> None:
        answering.write(json.dumps(told, allow_nan=False) + "\n")
        answering.flush()

    for line in asking:
        asked = json.loads(line)
        tell(_answered(setting, asked["verb"], asked["request"], _now_and_then(tell)))


def _leave_memory() -> None:
    """Bound the memory of this process, so that a large request fails instead of other processes."""
    with contextlib.suppress(OSError, ValueError):  # what is not known, or is bounded more tightly
        most = int(SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with contextlib.suppress(OSError):  # the system ends this process before the controller or its workers
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


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
    if isinstance(error, MemoryError):
        error = OutOfMemoryError(
            "a request must be answered with half of the machine's memory, got one that needs more; request "
            "less: longer slots, fewer starts or an earlier deadline"
        )
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
