"""The typed request of each verb: one type for the command line, the client, the server and its task process.

Bounds are checked only where a server reads a request from JSON; openapi.json is made from the same types.
Verbs about a job take a `JobTask`: the request, with its job file already read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from slacktide.app.markets.market import MarketSpec
from slacktide.core.errors import BackendError, InputError, shown
from slacktide.core.register import Spec
from slacktide.files.job import JobFile, parse_job
from slacktide.journal.events import Sight
from slacktide.market.base import Market

Wanted = Literal["text", "decisions", "csv", "report", "png", "svg", "pdf"]
"""What can be made of an answer in addition to its documented keys: text as the command line prints it, text
with each decision of a typical start, a table, an HTML page, a picture. Pictures come in base64."""

PoolName = Literal["auto", "paper"]  # sets of policies: the few of `policy: auto`, or the paper's 112

MOST_STARTS = 500  # of a back-test on a server, because other users have to wait for it
SHORTEST_APART_HOURS = 1.0  # between two starts of a back-test on a server
MOST_LESSONS = 1000  # starts of a job from which a server learns, in one request, which policies do well


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that is read from JSON; a field that it does not know is an error."""


class JobRequest(Request, frozen=True):
    """A job file, and the market that it is planned or tried on."""

    text: str  # the job file
    name: str = "job.yaml"
    """The job file's name; for work on the user's own machine its path, to which paths in it are relative."""
    market: str | None = None  # a synthetic one; None: the job file's, else the server's
    sent: str | None = None
    """SHA-256 of a market that was uploaded before and is used instead of `market`; None: there is none."""
    pool: str | None = None


class PlanRequest(JobRequest, frozen=True):
    """What would this job cost, and when would it be done?"""

    policy: str | None = None  # as JSON, or a bare name; None: the job file's
    start: int | None = None
    wants: tuple[Wanted, ...] = ()  # what else to make of the answer, under the key `made`
    check: bool = False  # only say whether the plan would be refused


class BacktestRequest(JobRequest, frozen=True):
    """How would policies have done with this job on past market data?"""

    policies: tuple[str, ...] = ()
    starts: Annotated[int, Meta(ge=1, le=MOST_STARTS)] | None = 24
    every_hours: Annotated[float, Meta(ge=SHORTEST_APART_HOURS)] | None = None
    """The time between starts, where `starts` is null."""
    truth: str | None = None
    sight: Sight = "feed"
    wants: tuple[Wanted, ...] = ()


AnyJobRequest = TypeVar("AnyJobRequest", bound=JobRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask(Generic[AnyJobRequest]):
    """What a verb about a job works on: its request, its job file, read only once, and its market."""

    request: AnyJobRequest
    file: JobFile
    market: MarketSpec = field(default_factory=MarketSpec)
    """The chosen market; if it names none, the job file's is used."""
    journal: Path | None = None  # where to look for earlier runs of the job; None: nowhere

    def open_market(self) -> Market:
        return self.market.open(self.file.market)


def local_task(
    request: AnyJobRequest, market: MarketSpec | None = None, journal: Path | None = None
) -> JobTask[AnyJobRequest]:
    """Return the task of a request on the machine of its user; raises FileError for a faulty job file."""
    file = parse_job(request.text, path=request.name)
    return JobTask(request=request, file=file, market=market or MarketSpec(), journal=journal)


class LearnedRequest(Request, frozen=True):
    """Which policies have earned the trust of `policy: auto`?"""

    pool_of: PoolName | None = None  # the set of policies to choose from where nothing is learned yet
    wants: tuple[Wanted, ...] = ()


class LearnRequest(JobRequest, frozen=True):
    """Which policies do well with this job, started at random times of a market? Trust moves to those."""

    pool_of: PoolName | None = None
    wants: tuple[Wanted, ...] = ()
    jobs: Annotated[int, Meta(ge=1, le=MOST_LESSONS)] = 200
    seed: int = 0


class SubmitRequest(Request, frozen=True):
    """A job to be run, as a client sends it: all that the job needs from the client's machine is in it."""

    text: str  # the job file
    name: str = "job.yaml"  # the job file's name, for messages and for the job's name where it says none
    envs: dict[str, str] = {}  # values of variables that the job file only names
    secrets: dict[str, str] = {}
    """Values of the job's secrets; they are kept in private files until the job is over."""
    policy: str | None = None
    """The policy as JSON: a name, or an object with a name and its parameters; None: the server's choice."""
    pool: str | None = None
    sight: Sight = "feed"
    job_class: str = ""  # the job's class in the server's fleet
    workdir: str = ""  # SHA-256 of the zipped working folder, sent before; empty: the job needs no files

    def __repr__(self) -> str:
        """Name the job only: values of its secrets must be in no log."""
        return f"SubmitRequest({self.name!r})"


class PreemptRequest(Request, frozen=True):
    """How many spot GPUs to take; null: all."""

    gpus: Annotated[int, Meta(ge=1)] | None = None


class LoginRequest(Request, frozen=True):
    """A token, for which a session is opened."""

    token: str


class CostRequest(Request, frozen=True):
    """What did a job cost, or the whole journal?"""

    job: str = ""


class RenderRequest(Request, frozen=True):
    """The run of a job as a page, or as a picture."""

    job: str
    want: Wanted


class NoDetails(Request, frozen=True):
    """The request of a verb without parameters, as to forget what was learned or to list machines."""


class OutOfMemoryError(BackendError):
    """A task needed more memory than it may use; the next task should run in a new process."""


def parse_policy(text: str | None) -> Spec | None:
    """Return a policy that was sent, as JSON or as a bare name; raises InputError for anything else."""
    if not text:
        return None
    try:
        spec = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        spec = text  # a bare name
    if not (isinstance(spec, str) or (isinstance(spec, dict) and len(spec) == 1)):
        raise InputError(
            f"a policy must be a name, or an object of one name and its parameters, got {text:.60}"
        )
    return spec


def read_request(kind: Any, raw: bytes) -> Any:
    """Return a typed request from JSON text; raises InputError if it is not JSON, or not as documented."""
    try:
        tree = msgspec.json.decode(raw.strip() or b"{}")
    except (ValueError, RecursionError):
        raise InputError("a body must be JSON, got something else") from None
    return as_request(kind, tree)


def as_request(kind: Any, tree: object, *, from_text: bool = False) -> Any:
    """Return a typed request from decoded JSON; raises InputError if it is not as documented.

    `from_text`: numbers and booleans are given as text, as in the query of a URL.
    """
    try:
        return msgspec.convert(tree, kind, strict=not from_text)
    except msgspec.ValidationError as error:
        raise InputError(f"a request must be as documented: {_explained(error, kind, tree)}") from None


def _explained(error: msgspec.ValidationError, kind: Any, tree: object) -> str:
    """Return an error's text: which field, what it must be, and what was given.

    msgspec names the field and the rule, but neither a number out of bounds nor the words to choose from.
    """
    must, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    if not path:
        return must
    value = tree
    for name in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, Sequence) and name.isdecimal():
            value = value[int(name)]
        else:  # a value inside a JSON object, whose key msgspec does not name
            return f"{path}: {must}"
    if must.startswith("Invalid enum value"):
        first = re.split(r"[.\[]", path)[0]
        must = f"one of {', '.join(_words(schema_of(kind)['properties'].get(first, {})))}"
    return f"{path} must be {must.removeprefix('Expected ').partition(', got ')[0]}, got {shown(value)}"


def _words(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        inner = schema.get("enum") or [word for part in schema.values() for word in _words(part)]
        return [word for word in inner if isinstance(word, str)]
    return [word for part in schema for word in _words(part)] if isinstance(schema, list) else []


@cache
def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a request of plain fields."""
    _, named = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = named[kind.__name__]
    return schema
