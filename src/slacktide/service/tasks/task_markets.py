"""The market that a question to a server is about, and where on it a job would begin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from slacktide.app.markets.market import MarketSpec
from slacktide.app.tasks import AboutJob, PlanRequest, Setting
from slacktide.core.errors import InputError
from slacktide.engine.fleet.fleets import market_named
from slacktide.files.job import JobFile
from slacktide.journal.store.real_path import runs_of
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.formats.whole_market import is_whole
from slacktide.service.uploads.server_paths import without_folder
from slacktide.service.uploads.uploads import check_market, markets_of, parsed


def market_of(setting: Setting, text: str, asked: AboutJob) -> MarketSpec:
    """Return the market of a question: one that was sent, else its own, the job file's or the server's."""
    check_market(asked.market, asked.name)
    start = asked.start if isinstance(asked, PlanRequest) else None
    if asked.sent is not None:
        path = _sent_market(setting, asked.sent)
        return MarketSpec(source=str(path), pool=asked.pool, start=start)
    market = _shared_market(setting, asked, parsed(text, asked.name))
    return market if start is None else dataclasses.replace(market, start=start, shared=False)


def _shared_market(setting: Setting, asked: AboutJob, file: JobFile) -> MarketSpec:
    """Return the market of a question, which begins where it would with this job, were it submitted."""
    own = setting.market
    first = 0 if own.start is None and _is_member(setting, asked, file) else own.start
    if not (asked.market or file.market):
        source = own.source or _fleet_market(setting)
        return dataclasses.replace(own, source=source, pool=asked.pool or own.pool, start=first)
    start = first if own.source is None else None  # where the server's market begins says nothing of others
    return MarketSpec(source=asked.market, pool=asked.pool, start=start, shared=own.shared)


def _is_member(setting: Setting, asked: AboutJob, file: JobFile) -> bool:
    """Whether a job would be one of the server's fleet, whose market begins with its first slot."""
    if setting.fleet is None or not isinstance(asked, PlanRequest) or asked.market:
        return False
    return setting.fleet.takes(file, setting.allocator, own_policy=asked.policy is not None)


def _fleet_market(setting: Setting) -> str | None:
    """Return the market of the server's fleet, on which all its jobs are; None where it has none."""
    return None if setting.fleet is None else market_named(setting.fleet.parsed())


def _sent_market(setting: Setting, digest: str) -> Path:
    """Return where a market lies that was sent; raises InputError where it does not, or is no market."""
    path = markets_of(runs_of(Path(setting.journal))).path(digest)
    if not path.is_file():
        raise InputError(
            "a market must be sent before the question, got none of that SHA-256; PUT it to "
            "/api/v1/uploads/markets/SHA256 first"
        )
    with without_folder(path.parent):
        if not is_whole(read_bytes(path)):
            raise InputError("a market must be sent as the command line sends it, got another file")
    return path
