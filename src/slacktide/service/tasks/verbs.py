"""The tasks of the task process, such as `plan` and `backtest`: each turns a request into a JSON document.

Clients have no access to the server's files, so texts, pages and pictures are sent as part of the document.
"""

from __future__ import annotations

import base64
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from slacktide.app.journal.journal import open_journal
from slacktide.app.machines import MachinesRequest, list_machines
from slacktide.app.markets.market import MarketSpec
from slacktide.app.markets.market_now import ForecastRequest, MarketRequest, forecast_pool, market_now
from slacktide.app.planning.backtest import run_backtest
from slacktide.app.planning.learning import Hedge, forget, learned, learned_path, teach
from slacktide.app.planning.plan import check_plan, make_plan
from slacktide.app.task_requests import (
    AnyJobRequest,
    BacktestRequest,
    CostRequest,
    JobRequest,
    JobTask,
    LearnedRequest,
    LearnRequest,
    NoDetails,
    PlanRequest,
    RenderRequest,
    as_request,
)
from slacktide.core.errors import InputError, shown
from slacktide.files.job import JobFile, JobText
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.paths import runs_of
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.formats.whole_market import is_whole
from slacktide.report.text.tables import learn as learn_report
from slacktide.report.wire import backtest as backtest_wire
from slacktide.report.wire import plan as plan_wire
from slacktide.report.wire import values
from slacktide.results.comparison import Comparison
from slacktide.results.plan import JobPlan
from slacktide.service.tasks.task_worker import Setting
from slacktide.service.uploads.job_checks import check_market, check_policy, read_sent
from slacktide.service.uploads.server_paths import ServerPaths, without_folder
from slacktide.service.uploads.uploads import markets_of
from slacktide.simulation.compare import Progress

PAGE, PICTURES = "report", ("png", "svg", "pdf")
LONGEST_NAME = 200  # of a job file, in bytes: less than any file system allows
Result = TypeVar("Result", JobPlan, Comparison)


def answer(
    setting: Setting, verb: str, request: Mapping[str, Any], progress: Progress = lambda done, total: None
) -> dict[str, Any]:
    """Do the task of a verb and return its answer; raises the errors of the task."""
    kind, answering = VERBS[verb]
    return answering(setting, as_request(kind, request), progress)


def _plan(setting: Setting, request: PlanRequest, progress: Progress) -> dict[str, Any]:
    check_policy(request.policy)
    task = _task(setting, request)
    if request.check:
        check_plan(task)
        return {}
    from slacktide.report.figures.plan import plot_plan
    from slacktide.report.pages.plan import page
    from slacktide.report.text.tables import plan as report

    made = _without_folders(setting, request, make_plan(task, progress=progress))
    return _with(
        plan_wire.as_json(made), request.wants,
        draw=lambda path: plot_plan(made, path), page=lambda: page(made), text=lambda: report.page(made),
    )  # fmt: skip


def _backtest(setting: Setting, request: BacktestRequest, progress: Progress) -> dict[str, Any]:
    from slacktide.report.figures.backtest import plot_backtest
    from slacktide.report.pages.backtest import page
    from slacktide.report.text.tables import backtest as report

    for policy in request.policies:
        check_policy(policy)
    result = _without_folders(setting, request, run_backtest(_task(setting, request), progress=progress))

    def decisions() -> str:
        runs = (report.decisions_text(run) for run in result.detail)
        return "\n".join([report.summary_text(result), *runs])

    return _with(
        backtest_wire.as_json(result), request.wants,
        draw=lambda path: plot_backtest(result, path), page=lambda: page(result),
        text=lambda: report.summary_text(result), decisions=decisions,
        csv=lambda: backtest_wire.csv_text(result),
    )  # fmt: skip


def _task(setting: Setting, request: AnyJobRequest) -> JobTask[AnyJobRequest]:
    """Read the job file of a request, completed with the keys of its class, and choose its market."""
    _check_name(request.name)
    job, market_sent = JobText(request.text, request.name), request.sent is not None
    file = read_sent(job, setting.fleet, market_sent=market_sent)
    market = market_of(setting, file, request)
    return JobTask(request=request, file=file, market=market, journal=Path(setting.journal))


def _check_name(name: str) -> None:
    """Raise InputError unless a file can have this name, here as well as on the client's machine."""
    whole = name.isprintable() and "/" not in name and name not in ("", ".", "..")
    if not whole or len(name.encode()) > LONGEST_NAME:
        raise InputError(
            f"the name of a job file must be 1 to {LONGEST_NAME} bytes of printable characters without a "
            f"folder, got {shown(name)}"
        )


def market_of(setting: Setting, file: JobFile, request: JobRequest) -> MarketSpec:
    """Return the market to use: the one sent, else the one that the request, job file or server names."""
    check_market(request.market, request.name)
    start = request.start if isinstance(request, PlanRequest) else None
    if request.sent is not None:
        path = _sent_market(setting, request.sent)
        return MarketSpec(source=str(path), pool=request.pool, start=start)
    market = _shared_market(setting, file, request)
    return market if start is None else dataclasses.replace(market, start=start, shared=False)


def _shared_market(setting: Setting, file: JobFile, request: JobRequest) -> MarketSpec:
    """Return the market of a request, starting in the slot in which it would if the job were submitted."""
    own = setting.market
    first = 0 if own.start is None and _is_member(setting, file, request) else own.start
    if not (request.market or file.market):
        # All jobs of the server's fleet share its market.
        source = own.source or (setting.fleet and setting.fleet.parsed().market)
        return dataclasses.replace(own, source=source, pool=request.pool or own.pool, start=first)
    # A start slot that was given for the server's own market means nothing on another one.
    start = first if own.source is None else None
    return MarketSpec(source=request.market, pool=request.pool, start=start, shared=own.shared)


def _is_member(setting: Setting, file: JobFile, request: JobRequest) -> bool:
    """Whether a job would belong to the server's fleet, whose market starts in its first slot."""
    if setting.fleet is None or not isinstance(request, PlanRequest) or request.market:
        return False
    return setting.fleet.takes(file, setting.allocator, own_policy=request.policy is not None)


def _sent_market(setting: Setting, digest: str) -> Path:
    """Return the file of a market that was sent; raises InputError if there is none that can be used."""
    path = markets_of(runs_of(Path(setting.journal))).path(digest)
    if not path.is_file():
        raise InputError(
            "a market must be sent before the request, got none of that SHA-256; PUT it to "
            "/api/v1/uploads/markets/SHA256 first"
        )
    with without_folder(path.parent):
        if not is_whole(read_bytes(path)):
            raise InputError("a market must be sent as the command line sends it, got another file")
    return path


def _without_folders(setting: Setting, request: JobRequest, result: Result) -> Result:
    """Return a result in which files of the server's market are named without their folders.

    A market that was sent keeps the names that the client gave it.
    """
    if request.sent is not None:
        return result
    paths = _paths(setting)
    assumptions = tuple(paths.out_of(sentence) for sentence in result.assumptions)
    return dataclasses.replace(result, market=paths.out_of(result.market), assumptions=assumptions)


def _paths(setting: Setting) -> ServerPaths:
    fleet = None if setting.fleet is None else setting.fleet.path
    return ServerPaths(Path(setting.journal), setting.market.source, fleet)


def _with(document: dict[str, Any], wants: Sequence[str], **ways: Any) -> dict[str, Any]:
    """Return an answer with the requested texts and pictures, under `made`."""
    return {**document, "made": rendered(wants, **ways)} if wants else document


def rendered(
    wants: Sequence[str],
    draw: Callable[[Path], object],
    page: Callable[[], str] | None = None,
    **texts: Callable[[], str],
) -> dict[str, str]:
    """Render a result in each requested form, pictures in base64; raises InputError for an unknown form.

    `draw` writes a picture, `page` returns an HTML page (None: there is none), `texts` are the other forms.
    """
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        for want in dict.fromkeys(wants):
            picture = Path(folder, f"picture.{want}")
            if want in texts:
                found[want] = texts[want]()
            elif want == PAGE and page is not None:
                found[want] = page()
            elif want in PICTURES:
                draw(picture)
                found[want] = base64.b64encode(picture.read_bytes()).decode()
            else:
                raise InputError(f"wants must be what this answer can become, got {want}; leave it out")
    return found


def _learned(setting: Setting, request: LearnedRequest, progress: Progress) -> dict[str, Any]:
    path = learned_path(setting.learned)
    with without_folder(path.parent):
        return _trust(learned(path, request.pool_of), path.name, request.wants)


def _learn(setting: Setting, request: LearnRequest, progress: Progress) -> dict[str, Any]:
    state = learned_path(setting.learned)
    with without_folder(state.parent):
        return _trust(teach(state, _task(setting, request), progress=progress), state.name, request.wants)


def _trust(hedge: Hedge, state: str, wants: Sequence[str]) -> dict[str, Any]:
    from slacktide.report.figures.learn import plot_learned

    return _with(
        learn_report.as_json(hedge, state), wants,
        draw=lambda path: plot_learned(hedge, path), text=lambda: learn_report.text(hedge, state),
    )  # fmt: skip


def _forget(setting: Setting, request: NoDetails, progress: Progress) -> dict[str, Any]:
    forget(learned_path(setting.learned))
    return {}


def _cost(setting: Setting, request: CostRequest, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        return journal.cost_report(request.job or None)._asdict()


def _run(setting: Setting, request: RenderRequest, progress: Progress) -> dict[str, Any]:
    from slacktide.report.figures.run import plot_run
    from slacktide.report.pages.run import page

    with open_journal(setting.journal) as journal:
        record = journal.run(request.job)
        events = [_paths(setting).out_of_event(event) for event in record.events]
        return rendered(
            [request.want],
            draw=lambda path: plot_run(record.runs, path),
            page=lambda: page(record.runs, journal.bill(request.job), events),
        )


def _machines(setting: Setting, request: NoDetails, progress: Progress) -> dict[str, Any]:
    with open_journal(setting.journal) as journal:
        file = read_state(journal.store).machines
    rows = list_machines(MachinesRequest(file=Path(file), journal=Path(setting.journal))) if file else []
    return {"machines": [values.plain(row) for row in rows]}


def _now(setting: Setting, request: MarketRequest, progress: Progress) -> dict[str, Any]:
    return market_now(Path(setting.journal), setting.market, request)


def _forecast(setting: Setting, request: ForecastRequest, progress: Progress) -> dict[str, Any]:
    found = forecast_pool(Path(setting.journal), setting.market, request)
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
