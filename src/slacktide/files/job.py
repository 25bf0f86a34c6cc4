"""The job file: what a user writes about one training job, read and checked.

Every mistake is reported with its file, line and column, what must hold and what was found; all
independent mistakes are reported together, one per line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, get_args

from slacktide.core.errors import FileError, InputError
from slacktide.core.own_class import Spec, is_place
from slacktide.core.speedup import Linear
from slacktide.core.types import AFTER_DEADLINE, AfterDeadline, Billing, Job
from slacktide.core.units import format_duration, parse_duration_hours, parse_money_usd, parse_size_gb
from slacktide.core.yaml_fields import Fields, root, scalar
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Tree, parse_tree, read_text, walk
from slacktide.files import keys
from slacktide.files.work import (
    ONE_GPU,
    Resources,
    guessed_gpu_hours,
    phases,
    resources,
    speedup,
    work_spread,
)
from slacktide.journal.events import Submitted

DEFAULT_POLICY = "auto"
DEFAULT_BILLING: Billing = "second"
DEFAULT_GRACE_HOURS = 30 / 3600
"""The shortest notice that a large cloud gives before it takes a spot machine away."""

DEFAULT_KEEP = 2
"""Checkpoints that a store keeps: the newest, and the one before it in case the newest is damaged."""

DEFAULT_HANG_HOURS = 10 / 60

JOB_KEYS = (
    "name", "run", "setup", "workdir", "envs", "secrets", "resources", "work", "phases", "speedup",
    "deadline", "value", "worthless_after", "after_deadline", "restart", "shrink", "checkpoint", "max_cost",
    "billing", "policy", "market", "retries", "hang_after", "progress", "class", "patience", "priority",
    "owner",
)  # fmt: skip
"""All keys of a job file."""

_UNIT = re.compile(r"_(gpu_hours|hours|usd|gb)$")
"""The unit with which a field of Job ends, and which its key in the file does not have."""
_REQUIRED = {
    "resources": "{accelerators: H100:1..8}",
    "work": "40 gpu-hours",
    "deadline": "12h",
}


class Retries(NamedTuple):
    """How often a job is restarted before it counts as failed."""

    failures: int = 3
    """Failures of its own in a row, without new checkpointed work between them."""
    preemptions: int | None = None
    """How often spot workers may be taken; None means any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """The contents of a job file."""

    job: Job
    gpu: str
    """The GPU's name as written, such as H100; where there are several, the one that work is counted on."""
    policy: Spec = DEFAULT_POLICY
    """The policy as written; `auto` is resolved where the job runs."""
    market: str | None = None
    """A market's name such as `synthetic:h100`, or the path of a trace."""
    run: str | None = None
    setup: str | None = None
    workdir: str | None = None
    envs: dict[str, str | None] = field(default_factory=dict)
    """Variables of the job; None means the value where the job is submitted."""
    secrets: dict[str, str | None] = field(default_factory=dict, repr=False)
    """The same, for values that must not be shown."""
    checkpoint_dir: str | None = None
    checkpoint_takes_hours: float | None = None
    """How long the job pauses to save a checkpoint; None if the file does not say."""
    checkpoint_shared: bool = False
    """Whether other jobs may write into the same checkpoint folder."""
    checkpoint_url: str | None = None
    """The store to which checkpoints are copied; None: they stay where the job writes them."""
    checkpoint_keep: int = DEFAULT_KEEP
    """How many checkpoints the store keeps."""
    grace_hours: float = DEFAULT_GRACE_HOURS
    """How long workers may take to stop before they are killed."""
    retries: Retries = field(default_factory=Retries)
    hang_after_hours: float = DEFAULT_HANG_HOURS
    """A job that reports progress counts as hung after this long without any, by the wall clock."""
    progress_log: str | None = None
    """The pattern that finds progress in what the job prints; None: the output is not searched."""
    fleet_class: str | None = None
    """The class of a job that is part of a stream; such a job needs no deadline."""
    patience_hours: float | None = None
    """In a fleet: how long it may go without GPUs before it rents on demand; None: the allocator decides."""
    priority: float | None = None
    """In a fleet: how much an hour of its waiting counts, 1 for a usual job; None: as its class says."""
    owner: str = ""
    """The person or team that the job belongs to."""
    dated: bool = False
    """Whether a time in it is a date, so that the hours until then depend on when the file is read."""
    path: str = "<text>"


class _Checkpoint(NamedTuple):
    dir: str | None = None
    every_hours: float = 0.0
    grace_hours: float = DEFAULT_GRACE_HOURS
    takes_hours: float | None = None
    shared: bool = False
    url: str | None = None
    keep: int = DEFAULT_KEEP
    size_gb: float = 0.0


_NO_CHECKPOINT = _Checkpoint(every_hours=math.inf)
"""A file without `checkpoint`: no checkpoints are known, so a loss restarts the job from zero."""


def read_job_file(path: str | Path, *, now: datetime | None = None) -> JobFile:
    """Read a job file; raises FileError with the place of every mistake.

    Absolute deadlines are counted from `now`, which is the present unless given.
    """
    return parse_job(read_text(path), path=path, now=now)


def parse_job(text: str, *, path: str | Path = "<text>", now: datetime | None = None) -> JobFile:
    """Read the text of a job file; `path` names it in messages and its folder anchors other paths."""
    return JobText(text, path).read(now)


def submitted_file(submitted: Submitted) -> JobFile:
    """Read the job file in a journal's entry; dates in it count from when the job was submitted."""
    now = datetime.fromisoformat(submitted.submitted_utc)
    return parse_job(submitted.text, path=submitted.path, now=now)


class JobText:
    """A job file's text as a tree of values, parsed once: it can be checked before it is read.

    Reading loads the policy that the file names and opens the tables of its speedups.
    """

    def __init__(self, text: str, path: str | Path = "<text>") -> None:
        """Parse a text; raises FileError if it is not YAML."""
        self.text, self.path, self._mistakes = text, str(path), Mistakes(path)
        with kept_secret(text):
            self.tree = parse_tree(text, self._mistakes)

    @property
    def keys(self) -> Collection[str]:
        """The keys of the file."""
        return self.tree.entries.keys() if isinstance(self.tree, Section) else ()

    def read(self, now: datetime | None = None) -> JobFile:
        """Return the job file, to be called once; raises FileError with every mistake."""
        present = datetime.now(UTC) if now is None else now
        if present.tzinfo is None:
            raise InputError(f"now must have a time zone, got {present.isoformat()}")
        mistakes = self._mistakes
        with kept_secret(self.text):
            least = "resources, work and deadline"
            found = _read(root(self.tree, mistakes, JOB_KEYS, kind="job", least=least), present)
            mistakes.check()
            return found


def _read(fields: Fields, now: datetime) -> JobFile:
    for key, example in _REQUIRED.items():
        if not (key == "deadline" and "class" in fields) and not (key == "work" and "phases" in fields):
            fields.require(key, example)
    text = scalar(keys.words)
    times = [fields.section.entries[key].value for key in ("deadline", "worthless_after") if key in fields]
    gpus = fields.read("resources", resources, ONE_GPU)
    # Streams are planned as if jobs kept their work when their width changes, so by default they checkpoint.
    unsaid = _Checkpoint() if "class" in fields else _NO_CHECKPOINT
    checkpoint = fields.read("checkpoint", _checkpoint, unsaid)
    return JobFile(
        gpu=gpus.gpu,
        policy=fields.read("policy", keys.policy, DEFAULT_POLICY),
        market=fields.read("market", keys.market, None),
        run=fields.read("run", text, None),
        setup=fields.read("setup", text, None),
        workdir=fields.read("workdir", text, None),
        envs=fields.read("envs", keys.variables, {}),
        secrets=fields.read("secrets", keys.secrets, {}),
        checkpoint_dir=checkpoint.dir,
        checkpoint_takes_hours=checkpoint.takes_hours,
        checkpoint_shared=checkpoint.shared,
        checkpoint_url=checkpoint.url,
        checkpoint_keep=checkpoint.keep,
        grace_hours=checkpoint.grace_hours,
        retries=fields.read("retries", _retries, Retries()),
        hang_after_hours=fields.read("hang_after", scalar(keys.patience), DEFAULT_HANG_HOURS),
        progress_log=fields.read("progress", keys.progress, None),
        fleet_class=fields.read("class", scalar(keys.name), None),
        patience_hours=fields.read("patience", scalar(keys.wait), None),
        priority=fields.read("priority", scalar(keys.weight), None),
        owner=fields.read("owner", scalar(keys.owner), ""),
        dated=any(isinstance(time, Scalar) and keys.is_date(time.text) for time in times),
        path=fields.mistakes.path,
        # Last, because it raises if there is any mistake so far: no Job is made from a wrong file.
        job=_job(fields, gpus, checkpoint, now),
    )


def _checkpoint(tree: Tree, mistakes: Mistakes) -> _Checkpoint:
    """Read the section `checkpoint`; `none` means that work does not survive a loss."""
    if isinstance(tree, Scalar) and tree.text == "none":
        return _NO_CHECKPOINT
    known = ("dir", "every", "grace", "takes", "shared", "url", "keep", "size")
    fields = Fields(tree, mistakes, known, prefix="checkpoint.")
    _check_store(fields)
    default = _Checkpoint()
    return _Checkpoint(
        fields.read("dir", scalar(keys.words), default.dir),
        fields.read("every", scalar(parse_duration_hours), default.every_hours),
        fields.read("grace", scalar(parse_duration_hours), default.grace_hours),
        fields.read("takes", scalar(keys.positive(parse_duration_hours)), default.takes_hours),
        fields.read("shared", scalar(keys.yes_or_no), default.shared),
        fields.read("url", scalar(keys.store_url), default.url),
        fields.read("keep", scalar(keys.how_many), default.keep),
        fields.read("size", scalar(parse_size_gb), default.size_gb),
    )


def _check_store(fields: Fields) -> None:
    """Note keys that do not go together; with a store, a folder cannot be shared, because it is restored."""
    if "keep" in fields and "url" not in fields:
        fields.note("keep", "must come with url, got no url; checkpoints in the folder are the job's own")
    if "url" in fields and fields.read("shared", scalar(keys.yes_or_no), False):
        fields.note("url", "must not come with 'shared: true', got both; give each job a 'dir' of its own")


def _retries(tree: Tree, mistakes: Mistakes) -> Retries:
    fields = Fields(tree, mistakes, ("failures", "preemptions"), prefix="retries.")
    usual = Retries()
    return Retries(
        fields.read("failures", scalar(keys.count), usual.failures),
        fields.read("preemptions", scalar(keys.count), usual.preemptions),
    )


def _job(fields: Fields, gpus: Resources, checkpoint: _Checkpoint, now: datetime) -> Job:
    """Read the numbers of a job; raises FileError if there is any mistake in the file so far."""
    moment, duration = scalar(keys.moment(now)), scalar(parse_duration_hours)
    # A number that could not be read is not-a-number: no comparison with it complains again.
    scaling = fields.read("speedup", speedup, Linear())
    deadline = fields.read("deadline", scalar(keys.due(now)), math.nan if "deadline" in fields else math.inf)
    guess = guessed_gpu_hours(scaling, gpus.widths, deadline)
    parts = phases(fields, scaling, scalar(keys.work(guess)))
    worthless_after = fields.read("worthless_after", moment, None)
    restart = fields.read("restart", duration, math.nan if "restart" in fields else 0.0)
    shrink = fields.read("shrink", duration, None)
    name = fields.read("name", scalar(keys.name), keys.name_from(fields.mistakes.path))
    value = fields.read("value", scalar(keys.positive(parse_money_usd)), 0.0)
    max_cost = fields.read("max_cost", scalar(keys.positive(parse_money_usd)), None)
    billed = fields.read("billing", scalar(keys.word("billing", get_args(Billing))), DEFAULT_BILLING)
    usual_late = usual_end(deadline, worthless_after)
    late = fields.read("after_deadline", scalar(keys.word("after_deadline", AFTER_DEADLINE)), usual_late)

    check_worth(fields, deadline, worthless_after)
    if shrink is not None and shrink > restart:
        limit, came = format_duration(restart), format_duration(shrink)
        fields.note("shrink", f"must be <= restart ({limit}), got {came}")
    fields.mistakes.check()
    try:
        return Job(
            name=name,
            work_gpu_hours=parts[0].work_gpu_hours if parts else math.nan,
            deadline_hours=deadline,
            widths=gpus.widths,
            speedup=parts[0].speedup if parts else scaling,
            phases=parts if len(parts) > 1 else (),
            restart_hours=restart,
            shrink_hours=shrink,
            checkpoint_hours=checkpoint.every_hours,
            checkpoint_gb=checkpoint.size_gb,
            value_usd=value,
            worthless_after_hours=worthless_after,
            max_cost_usd=max_cost,
            billing=billed,
            work_spread=work_spread(fields),
            after_deadline=late,
            pools=gpus.pools,
        )
    except InputError as error:
        raise _located(fields, error) from error


def usual_end(deadline_hours: float, worthless_after_hours: float | None) -> AfterDeadline:
    """Return the default of `after_deadline`: stop after a hard deadline, when the work is worth nothing."""
    soft = worthless_after_hours is not None and worthless_after_hours > deadline_hours
    return "finish-fast" if soft or math.isinf(deadline_hours) else "stop"


def check_worth(fields: Fields, deadline_hours: float, worthless_after_hours: float | None) -> None:
    """Note a soft deadline that lacks the value of the result or the time until which it has one."""
    pair = {"value": "worthless_after", "worthless_after": "value"}
    for key, other in pair.items():
        if key in fields and other not in fields:
            remedy = "leave both out for a hard deadline"
            fields.note(key, f"must come with {other}, got no {other}; {remedy}")
    if worthless_after_hours is None:
        return
    if math.isinf(deadline_hours):
        fields.note("worthless_after", "must come with a deadline, got none; add one, or leave both out")
    elif worthless_after_hours < deadline_hours:
        limit, came = format_duration(deadline_hours), format_duration(worthless_after_hours)
        fields.note("worthless_after", f"must be >= deadline ({limit}), got {came}")


def _located(fields: Fields, error: InputError) -> FileError:
    key = "resources" if error.field in ("widths", "pools") else _UNIT.sub("", error.field)
    place = fields.place(key)
    return FileError(str(error), path=fields.mistakes.path, line=place.line, column=place.column)


class Named(NamedTuple):
    """Code and files that reading a job file would load or open."""

    code: str  # the word in its policy that leads to code of the user's; empty if there is none
    csv: bool  # whether a speedup, or one of a phase, is in another file


def named_in(job: JobText) -> Named:
    """Return what reading a job file would load or open, without doing so: others may have sent it."""
    if not isinstance(job.tree, Section):
        return Named("", False)
    policy = job.tree.entries.get("policy")
    written = walk(policy.value) if policy else ()
    words = [word for key, tree in written for word in (key, tree.text if isinstance(tree, Scalar) else "")]
    speedups = [tree for key, tree in walk(job.tree) if key == "speedup" and isinstance(tree, Section)]
    return Named(next(filter(is_place, words), ""), any("csv" in tree.entries for tree in speedups))


HIDDEN = "***"
SHORTEST = 4  # shorter words stay: replacing them would make messages unreadable and protect nothing
LONGEST_QUOTE = 40
"""Messages quote no more than this many characters, so only beginnings of this length can appear."""

_SECRETS = re.compile(r"secrets?\b")
_ENDS = re.compile(r"[\s\[\]{},:=\"'|>]+")
_NAME = re.compile(r"(?:^|[{,])[\s\"'-]*([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*[:=]", re.MULTILINE)

_NEXT_KEY = re.compile(rf"^\s*[\"']?(?:{'|'.join(map(re.escape, JOB_KEYS))})[\"']?\s*:", re.MULTILINE)


@contextmanager
def kept_secret(text: str) -> Iterator[None]:
    """Remove the values under `secrets` from FileErrors about a job file.

    Readers do not quote secrets. But in a broken file a secret may end up somewhere else: below another key,
    in a key, or in a message of the YAML parser. So every word that looks as if it were written under
    `secrets` is replaced. The error's cause is dropped, too: YAML's own errors quote the line.
    """
    try:
        yield
    except FileError as error:
        if _SECRETS.search(text):
            error.args = (redacted(str(error), secret_words(text)),)
        raise error from None


def redacted(message: str, words: set[str]) -> str:
    """Return a message without these words, and without beginnings of them that a message may quote."""
    # The longest first: a word that contains another one must go as a whole.
    for word in sorted(words, key=len, reverse=True):
        for length in range(min(len(word), LONGEST_QUOTE), SHORTEST - 1, -1):
            message = message.replace(word[:length], HIDDEN)
    return message


def secret_words(text: str) -> set[str]:
    """Return the words that look as if they were values under `secrets`; names of secrets are left out."""
    found: set[str] = set()
    for part in _parts(text):
        names = set(_NAME.findall(part))
        found |= {word for word in _ENDS.split(part) if len(word) >= SHORTEST} - names
    return found - set(JOB_KEYS)


def _parts(text: str) -> Iterator[str]:
    """Yield the text after each word `secrets`, up to the next line that begins with a key of the file."""
    for begin in _SECRETS.finditer(text):
        end = _NEXT_KEY.search(text, text.find("\n", begin.end()) + 1 or len(text))
        yield text[begin.end() : end.start() if end else len(text)].lstrip(":= \t")
