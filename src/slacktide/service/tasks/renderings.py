"""Renders results as text, pages and pictures for a client on another machine: contents instead of files."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.journal.journal import Journal
    from slacktide.policies.selection.hedge import Hedge
    from slacktide.results.comparison import Comparison
    from slacktide.results.plan import JobPlan
    from slacktide.service.uploads.server_paths import ServerPaths

PAGE = "report"


class Makers(NamedTuple):
    """How a result becomes text, a page and a picture."""

    texts: Mapping[str, Callable[[], str]]
    write: Callable[[Path], object] | None  # none: it has no page
    draw: Callable[[Path], object]


def made(wants: Sequence[str], makers: Makers) -> dict[str, str]:
    """Render a result in each wanted form, pictures in base64; raises InputError for an unknown form."""
    with tempfile.TemporaryDirectory(prefix="slacktide-") as folder:
        return {want: _made(want, makers, Path(folder)) for want in dict.fromkeys(wants)}


def _made(want: str, makers: Makers, folder: Path) -> str:
    if want in makers.texts:
        return makers.texts[want]()
    if want == PAGE and makers.write is not None:
        makers.write(folder / "page.html")
        return (folder / "page.html").read_text(encoding="utf-8")
    if want in ("png", "svg", "pdf"):
        makers.draw(folder / f"picture.{want}")
        return base64.b64encode((folder / f"picture.{want}").read_bytes()).decode()
    raise InputError(f"wants must be what this answer can become, got {want}; leave it out")


def of_plan(plan: JobPlan) -> Makers:
    """Return what a plan can become."""
    from slacktide.report.figures.plan import plot_plan
    from slacktide.report.pages.plan import write_plan
    from slacktide.report.text.tables import plan as report

    texts = {"text": lambda: report.page(plan)}
    return Makers(texts, lambda path: write_plan(plan, path), lambda path: plot_plan(plan, path))


def of_backtest(result: Comparison) -> Makers:
    """Return what a back-test can become."""
    from slacktide.report.figures.backtest import plot_backtest
    from slacktide.report.pages.backtest import write_report
    from slacktide.report.text.tables import backtest as report
    from slacktide.report.wire import backtest as wire

    def decisions() -> str:
        runs = (report.decisions_text(run) for run in result.detail)
        return "\n".join([report.summary_text(result), *runs])

    texts = {
        "text": lambda: report.summary_text(result),
        "decisions": decisions,
        "csv": lambda: wire.csv_text(result),
    }
    return Makers(texts, lambda path: write_report(result, path), lambda path: plot_backtest(result, path))


def of_learned(hedge: Hedge, state: str) -> Makers:
    """Return what trust in policies can become: text and a picture."""
    from slacktide.report.figures.learn import plot_learned
    from slacktide.report.text.tables import learn as report

    texts = {"text": lambda: report.text(hedge, state)}
    return Makers(texts, None, lambda path: plot_learned(hedge, path))


def of_run(journal: Journal, job: str, paths: ServerPaths) -> Makers:
    """Return what a run can become for readers elsewhere; raises InputError where the job never ran."""
    from slacktide.report.figures.run import plot_run
    from slacktide.report.pages.run import write_page

    record = journal.run(job)
    events = [paths.out_of_event(event) for event in record.events]
    return Makers(
        {},
        lambda path: write_page(record.runs, journal.bill(job), events, path),
        lambda path: plot_run(record.runs, path),
    )
