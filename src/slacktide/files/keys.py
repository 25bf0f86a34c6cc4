"""Reads single values of job, fleet and machines files: one reader for each kind of value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from slacktide.allocators.base import allocators
from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.core.own_class import is_place, one_of, with_full_path
from slacktide.core.register import Register, Spec
from slacktide.core.units import (
    MAX_DURATION_HOURS,
    Accelerators,
    format_duration,
    parse_accelerators,
    parse_duration_hours,
    parse_money_usd,
    parse_range,
    parse_work,
)
from slacktide.core.yaml_fields import Fields, number, plain, scalar, section, text_of
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, Tree, describe
from slacktide.files.store_url import parse_url
from slacktide.market.spec import located
from slacktide.policies.base import policies
from slacktide.policies.selection.policy_set import AUTO
from slacktide.providers.base import providers

Word = TypeVar("Word", bound=str)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OWNER = re.compile(r"[\w.@+ -]{1,100}")
LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1000.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Two letters at least: `C:\traces\may.csv` is a path, `synthetic:h100` is not.
_MARKET_NAME = re.compile(r"synthetic\Z|[A-Za-z][A-Za-z0-9+.-]+:")
_TIME_EXAMPLE = "2030-05-01T18:00:00+02:00"


def name(text: str) -> str:
    """Read a job's name, which also names folders and machines."""
    if not _NAME.fullmatch(text):
        raise InputError(f"must be 1 to 63 letters, digits, '.', '_' or '-', got {shown(text)}")
    return text


def name_from(path: object) -> str:
    """Return the name of a job whose file gives none: the file's own name where it can be one."""
    stem = Path(str(path)).stem
    return stem if _NAME.fullmatch(stem) else "job"


def words(text: str) -> str:
    """Read free text; raises InputError if it is blank."""
    if not text.strip():
        raise InputError("must not be empty, got no text")
    return text


def positive(parse: Callable[[str], float]) -> Callable[[str], float]:
    """Return this parser with a check that the amount is > 0."""

    def read(text: str) -> float:
        if (amount := parse(text)) <= 0:
            raise InputError(f"must be > 0, got {shown(text)}")
        return amount

    return read


UNKNOWN = "unknown"  # how a file says that the work of a job is not known


def work(unknown_gpu_hours: float) -> Callable[[str], float]:
    """Return a reader of a job's work in GPU-hours; for `unknown` it returns the argument."""

    def read(text: str) -> float:
        if text != UNKNOWN:
            return positive(lambda amount: parse_work(amount).gpu_hours)(text)
        if math.isinf(unknown_gpu_hours):
            raise InputError("work must be given where there is no deadline, got unknown")
        return unknown_gpu_hours

    return read


def count(text: str) -> int:
    """Read a whole number that may be zero."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"must be a whole number >= 0, got {shown(text)}")
    return int(text)


def how_many(text: str) -> int:
    """Read a whole number that is at least one."""
    if (number := count(text)) < 1:
        raise InputError(f"must be a whole number >= 1, got {shown(text)}")
    return number


def store_url(text: str) -> str:
    parse_url(text)
    return text


def usd(text: str) -> float:
    """Read dollars, as a plain number or with their unit."""
    try:
        amount = parse_money_usd(text)
    except InputError:
        amount = number(text)
    if amount < 0:
        raise InputError(f"must be >= 0, got {shown(text)}")
    return amount


def wait(text: str) -> float:
    """Read how long a job may go without GPUs before it rents on demand, in hours; `never` is forever."""
    return _or_never(parse_duration_hours, text)


def patience(text: str) -> float:
    """Read how long a job may make no progress, in hours; `never` is forever."""
    return _or_never(positive(parse_duration_hours), text)


def _or_never(parse: Callable[[str], float], text: str) -> float:
    try:
        return math.inf if text == "never" else parse(text)
    except InputError as error:
        raise InputError(f"{error}; or write 'never'") from error


def weight(text: str) -> float:
    """Read a priority: how much an hour of a job's waiting counts; 1 for a usual job."""
    if not LEAST_WEIGHT <= (found := number(text)) <= MOST_WEIGHT:
        must = f"must be in {LEAST_WEIGHT:g}..{MOST_WEIGHT:g}"
        raise InputError(f"{must}, got {shown(text)}; 1 is a usual job, 2 one that matters twice as much")
    return found


def owner(text: str) -> str:
    """Read the person or team that a job belongs to."""
    if not _OWNER.fullmatch(text):
        raise InputError(f"must be 1 to 100 characters of a name or an address, got {shown(text)}")
    return text


def yes_or_no(text: str) -> bool:
    """Read `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise InputError(f"must be true or false, got {shown(text)}")
    return text.lower() == "true"


def accelerators(tree: Tree, _: Mistakes) -> Accelerators:
    """Read `H100:1..8` and similar forms, or the mapping `{H100: 8}`."""
    if isinstance(tree, Section) and len(tree.entries) == 1:
        ((gpu, entry),) = tree.entries.items()
        return Accelerators(parse_accelerators(gpu).gpu, parse_range(text_of(entry.value)))
    return parse_accelerators(text_of(tree))


def word(key: str, known: Iterable[Word]) -> Callable[[str], Word]:
    """Return a parser that accepts only these words as the value of a key."""

    def read(text: str) -> Word:
        for choice in known:
            if text == choice:
                return choice
        raise InputError(unknown_name(key, text, known))

    return read


def moment(now: datetime) -> Callable[[str], float]:
    """Return a parser of durations and absolute times, both in hours from now."""

    def read(text: str) -> float:
        if not is_date(text):
            return positive(parse_duration_hours)(text)
        hours = (_time(text) - now).total_seconds() / 3600
        if hours <= 0:
            raise InputError(f"must be in the future, got {shown(text)}, {format_duration(-hours)} ago")
        if hours > MAX_DURATION_HOURS:
            raise InputError(f"must be within ten years, got {shown(text)}")
        return hours

    return read


def due(now: datetime) -> Callable[[str], float]:
    """Return a parser of deadlines, in hours from now; `none` is a job without one."""
    timed = moment(now)
    return lambda text: math.inf if text == "none" else timed(text)


def is_date(text: str) -> bool:
    """Whether a text is an absolute time, so that the hours until then depend on when it is read."""
    return bool(_DATE.match(text.strip()))


def _time(text: str) -> datetime:
    try:
        # YAML allows a space before the zone, ISO 8601 does not.
        found = datetime.fromisoformat(re.sub(r"\s(?=[-+Z])", "", text.strip()))
    except ValueError as error:
        raise InputError(f"must be a time such as {_TIME_EXAMPLE}, got {shown(text)}") from error
    if found.tzinfo is None:
        remedy = "add Z for UTC or an offset such as +02:00"
        raise InputError(f"a time must have a zone, as in {_TIME_EXAMPLE}, got {shown(text)}; {remedy}")
    return found


def market(tree: Tree, mistakes: Mistakes) -> str:
    """Read the name of a market or its path, relative to the file's folder, or several with commas."""

    def placed(text: str) -> str:
        return text if _MARKET_NAME.match(text) else str(mistakes.folder / text)

    return located(words(text_of(tree)), placed, mistakes.folder)


def variables(tree: Tree, mistakes: Mistakes) -> dict[str, str | None]:
    """Read environment variables; None stands for the value where the job is submitted."""
    return _variables(section(tree), mistakes, shown)


def secrets(tree: Tree, mistakes: Mistakes) -> dict[str, str | None]:
    """Read variables; errors quote no values: they may be secrets."""
    if not isinstance(tree, Section):
        came = "a list" if isinstance(tree, Series) else "something else"
        raise InputError(f"must be a mapping of names to values, got {came}; write 'secrets: {{NAME: }}'")
    return _variables(tree, mistakes, lambda text: "another one, which is not shown")


def _variables(written: Section, mistakes: Mistakes, quoted: Callable[[str], str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for key, entry in written.entries.items():
        if not _VARIABLE.fullmatch(key):
            must = "a variable must be letters, digits and '_', no digit first"
            mistakes.add(entry.place, f"{must}, got {quoted(key)}")
        elif not isinstance(entry.value, Scalar):
            must = f"the value of variable {key} must be text"
            mistakes.add(entry.place, f"{must}, got {describe(entry.value)}")
        else:
            found[key] = None if entry.value.null else entry.value.text
    return found


def policy(tree: Tree, mistakes: Mistakes) -> Spec:
    """Read a policy as users write it; their own classes are looked up in the file's folder first."""
    spec = plugin_spec(tree)
    if spec == AUTO:
        return AUTO
    if _named(spec) == AUTO:
        raise InputError(f"{AUTO} takes no parameters, got some; write 'policy: {AUTO}'")
    return _made(spec, policies, mistakes.folder, AUTO)


def allocator(tree: Tree, mistakes: Mistakes) -> Spec:
    """Read the allocator of a fleet, written as a policy is."""
    return _made(plugin_spec(tree), allocators, mistakes.folder)


def provider(tree: Tree, mistakes: Mistakes) -> Spec:
    """Read a provider of machines, written as a policy is."""
    return _made(plugin_spec(tree), providers, mistakes.folder)


def plugin_spec(tree: Tree) -> Spec:
    """Read `name`, `module:Class` or `{name: {parameter: value}}`."""
    spec: Any = plain(tree)
    if not isinstance(spec, str | dict) or not spec:
        raise InputError(
            f"must be a name, module:Class or {{name: {{parameter: value}}}}, got {describe(tree)}"
        )
    return spec


def _named(spec: Spec) -> str:
    return spec if isinstance(spec, str) else next(iter(spec))


def _made(spec: Spec, register: Register[Any], folder: Path, *more: str) -> Spec:
    """Return a spec after making a plug-in from it once, so that its mistakes are found here.

    `more` are names that are valid where this is written but are not in the register.
    """
    named = _named(spec)
    if not is_place(named) and named not in register:
        register.check_installed(named)
        raise InputError(unknown_name(one_of(register.kind), named, [*register, *more]))
    whole = with_full_path(spec, folder)
    try:
        register.make(whole)
    except (TypeError, ValueError, ArithmeticError) as error:
        # Plug-ins that users wrote may raise any of these for a wrong parameter.
        raise InputError(f"{named}: parameters must fit the {register.kind}, got: {error}") from error
    return whole


LONGEST_PATTERN = 200
MOST_REPEATS = 4
"""Unbounded repeats in one pattern, such as `\\d+`: each multiplies the time of the worst line."""

_TOKEN = re.compile(
    r"""(?P<escape>\\.) | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\]) | (?P<odd>\(\?(?!:|P<\w+>))
    | (?P<open>\((?:\?(?::|P<\w+>))?) | (?P<close>\)) | (?P<repeat>[*+?]|\{\d*,?\d*\}) | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


def progress(tree: Tree, mistakes: Mistakes) -> str | None:
    """Read `progress: {log: PATTERN}`, a regular expression that finds progress in what a job prints."""
    fields = Fields(tree, mistakes, ("log",), prefix="progress.")
    fields.require("log", r"'step (\d+)/(\d+)'")
    return fields.read("log", scalar(log_pattern), None)


def log_pattern(text: str) -> str:
    """Read a pattern with one group (a share or percent) or two (done and total).

    It is tried on every line that a job prints, so whatever could take exponential time is refused: repeated
    groups, backreferences and lookaround. All other patterns take bounded time on a line of bounded length.
    """
    if len(text) > LONGEST_PATTERN:
        raise InputError(f"a pattern must have at most {LONGEST_PATTERN} characters, got {len(text)}")
    try:
        groups = re.compile(text.encode()).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"must be a regular expression, got {shown(text)}: {error}") from error
    if groups not in (1, 2):
        raise InputError(
            f"a pattern must have one group (a share, or percent) or two (done and total), got {groups}; "
            r"write for instance 'step (\d+)/(\d+)'"
        )
    _check_bounded(text)
    return text


def _check_bounded(text: str) -> None:
    repeats, before = 0, ""
    for token in _TOKEN.finditer(text):
        kind, word = str(token.lastgroup), token.group()
        if kind == "odd" or (kind == "escape" and word[1].isdecimal() and word[1] != "0"):
            raise InputError(f"a pattern must not use lookaround, backreferences or flags, got {shown(text)}")
        if kind == "repeat" and before == "repeat" and word != "?":
            raise InputError(f"a pattern must not repeat a repeat, got {shown(text)}")
        if kind == "repeat" and before == "close" and word != "?":
            raise InputError(
                f"a pattern must not repeat a group, because that can take forever, got {shown(text)}; "
                r"repeat single characters, as in \d+"
            )
        repeats += kind == "repeat" and word != "?"
        before = kind
    if repeats > MOST_REPEATS:
        raise InputError(
            f"a pattern must have at most {MOST_REPEATS} repeats, got {repeats} in {shown(text)}; "
            "leave out what does not need to match: a pattern may begin anywhere in a line"
        )
