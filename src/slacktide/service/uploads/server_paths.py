"""Removes the server's folders from its answers: clients must not learn them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from slacktide.core.errors import SlacktideError
from slacktide.journal.events import Event, Opened, SiteOpened, SubmissionAsked, Submitted
from slacktide.market.spec import absolute


class ServerPaths:
    """Removes the folders of a server from messages and events, so that only names of files are left."""

    def __init__(self, journal: Path, *files: str | None) -> None:
        """Name the server's journal, and the files of its market and its fleet; None: there is no file."""
        self._folders = _folders(journal, [absolute(file) for file in files if file])

    def out_of(self, message: str) -> str:
        if "/" not in message:
            return message
        message = re.sub(r"\S*/\.uploads/(?:\.markets|[0-9a-f]{24})/", "", message)
        for folder in self._folders:
            message = message.replace(f"{folder}/", "").replace(folder, "the server's folder")
        return message

    def out_of_event(self, event: Event) -> Event:
        """Return an event with names of files instead of paths; the text of a job file stays unchanged."""
        why = self.out_of(event.why)
        match event:
            case Submitted():
                return _without_folders(event, why)
            case SubmissionAsked():
                return dataclasses.replace(event, why=why, path=_name(event.path))
            case Opened():
                return dataclasses.replace(event, why=why, machines=_name(event.machines))
            case SiteOpened():
                return dataclasses.replace(event, why=why, market=_market(event.market))
        return event if why == event.why else dataclasses.replace(event, why=why)


@contextlib.contextmanager
def without_folder(folder: Path) -> Iterator[None]:
    """Remove a folder from the messages of errors that are raised in the block."""
    try:
        yield
    except SlacktideError as error:
        error.args = (str(error).replace(f"{folder}{os.sep}", ""),)
        raise


def _without_folders(event: Submitted, why: str) -> Submitted:
    fleet = event.fleet
    for folder in _folders_in(event.market):
        fleet = fleet.replace(folder, "")
    path, fleet_path, market = _name(event.path), _name(event.fleet_path), _market(event.market)
    return dataclasses.replace(event, why=why, path=path, fleet_path=fleet_path, market=market, fleet=fleet)


def _name(path: str) -> str:
    return Path(path).name if path.startswith("/") else path


def _market(written: str) -> str:
    """Return the JSON that says how a market is opened, without the folders of its files."""
    for folder in _folders_in(written):
        written = written.replace(json.dumps(folder)[1:-1], "")
    return written


def _folders_in(market: str) -> list[str]:
    """Return the absolute folders of a market's files, each with its last slash."""
    try:
        spec = str(json.loads(market).get("spec", ""))
    except (ValueError, AttributeError):  # as in journals of earlier versions
        return []
    return _folders_of(spec)


def _folders_of(spec: str) -> list[str]:
    return re.findall(r"(?<![\w./])/(?:[^/?,]+/)+", spec)  # an address with // has no folders of ours


def _folders(journal: Path, files: Sequence[str]) -> list[str]:
    """Return the folders that messages may contain, the longest first."""
    own = {Path(folder) for file in files for folder in _folders_of(file)}
    found = {journal.parent, Path.home(), Path.cwd(), Path(sys.prefix), Path(tempfile.gettempdir())} | own
    found.add(Path(__file__).parents[3])
    return sorted((str(folder) for folder in found if len(folder.parts) > 1), key=len, reverse=True)
