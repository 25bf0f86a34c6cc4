"""Checks job files of other users: none may make the server read files or variables, or load code.

The client looks up variables, secrets and files, and sends their values with the job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from slacktide.app.jobs.submission import FleetText, check_runnable
from slacktide.app.task_requests import SubmitRequest, parse_policy
from slacktide.core.errors import InputError, shown
from slacktide.core.own_class import is_place
from slacktide.files.job import JobFile, JobText, named_in
from slacktide.files.rewrite import leaves_to_class, with_class
from slacktide.journal.events import SubmissionAsked

SYNTHETIC = "synthetic"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def completed(text: str, job_class: str, fleet: FleetText | None) -> str:
    """Return a job file's text as the controller will read it: with its class and the keys of the class."""
    text = with_class(text, job_class) if job_class else text
    return text if fleet is None else fleet.completed(text)


def checked(request: SubmitRequest, fleet: FleetText | None = None) -> JobFile:
    """Read another user's job file; raises InputError if it cannot run or needs something of the server's."""
    if not _NAME.fullmatch(request.name):
        raise InputError(
            "the name of a job file must be at most 63 letters, digits, dots and dashes, got "
            f"{shown(request.name)}"
        )
    file = read_sent(JobText(request.text, request.name), fleet, request.job_class)
    check_runnable(file)
    check_policy(request.policy)
    _check_workdir(file)
    kinds = (("variable", file.envs, request.envs), ("secret", file.secrets, request.secrets))
    for what, values, given in kinds:
        for name, value in values.items():
            if value is None and name not in given:
                raise InputError(
                    f"{what} {name} must come with the job, got none: a server does not look for it"
                )
    return file


def read_sent(
    job: JobText, fleet: FleetText | None, job_class: str = "", *, market_sent: bool = False
) -> JobFile:
    """Read another user's job file, without loading code or opening files that it names.

    Keys that it leaves to its class come from the server's fleet. Its market may be a file only if
    `market_sent`: the client has sent that file.
    """
    named = named_in(job)
    check_policy(named.code)
    # Most jobs leave nothing to a class and are not parsed again, which would take time from the engine.
    if job_class or (fleet is not None and leaves_to_class(job.keys)):
        job = JobText(completed(job.text, job_class, fleet), job.path)
        named = named_in(job)
        check_policy(named.code)
    if named.csv:
        raise InputError(
            f"{job.path}: a job for a server must say its speedup itself, got a CSV file; write "
            "speedup: {table: {1: 1, 2: 1.9}}, or send it with the command line, which does so"
        )
    file = job.read()
    if not market_sent:
        check_market(file.market, job.path)
    return file


def check_market(named: str | None, place: str) -> None:
    """Raise InputError for a market that is a file: it would be read from the server's disk."""
    parts = [] if named is None else named.split(",")
    if any(part.strip().split(":")[0] != SYNTHETIC for part in parts):
        raise InputError(
            f"{place}: a job for a server must leave its market to the server, or name a synthetic one, "
            "got a file; remove 'market'"
        )


def check_policy(written: str | None) -> None:
    """Raise InputError for a policy that is a class of the user's own: the server would load its code."""
    if any(is_place(word) for word in _words(parse_policy(written))):
        raise InputError(
            f"the policy of a job for a server must be a registered one, got {shown(written)}; "
            "`slacktide policies` lists them, and the operator may install more"
        )


def _words(tree: object) -> Iterator[object]:
    """Yield all names and values in a policy, at any depth."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield name
            yield from _words(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _words(value)
    else:
        yield tree


def _check_workdir(file: JobFile) -> None:
    place = PurePosixPath(file.workdir or ".")
    if place.is_absolute() or ".." in place.parts:
        raise InputError(
            f"{file.path}: workdir must be below the job file's folder for a server, got {shown(str(place))}"
        )


def is_alike(request: SubmitRequest, earlier: SubmissionAsked) -> bool:
    """Whether a request has the same policy, pool, sight and class as an earlier one in the journal."""
    before = json.loads(earlier.policy) if earlier.policy else None
    now = parse_policy(request.policy), request.pool or "", request.sight, request.job_class
    return now == (before, earlier.pool, earlier.sight, earlier.job_class)
