"""Text to numbers and back: durations, money, work and GPU ranges, as people write them.

A number without its unit is refused rather than guessed: `12` may be minutes to one reader and
hours to another. Every parser raises InputError, and nothing else, on text it cannot read.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from slacktide.core.errors import InputError, shown

MAX_GPUS = 4096  # the widest job we accept; a typing mistake must not allocate all memory
MAX_DURATION_HOURS = 87_600.0  # ten years: a longer duration is a typing mistake
MAX_WORK_GPU_HOURS = 1e9  # more than the largest training runs known, by far
MAX_SPREAD = 9.0  # a number that may be off by more than a factor of ten is not an estimate
MAX_USD = 1e12  # more than anybody will spend here
MAX_GB = 1e6  # a petabyte: more than any checkpoint
MAX_GBIT_PER_S = 1e6  # faster than any network between two machines
MAX_PER_HOUR = 1e6  # more jobs than any scheduler starts in an hour

HOURS_PER_MONTH = 730.0  # a month is a twelfth of a year of 365 days, as clouds bill it

PERIOD_HOURS = {
    "hour": 1.0, "h": 1.0, "day": 24.0, "d": 24.0, "week": 168.0, "month": HOURS_PER_MONTH, "year": 8_760.0,
}  # fmt: skip
"""The periods over which money is spent and jobs arrive."""

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# Commas are read only where they group thousands: `1,5` means 1.5 to half the world.
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_BARE = re.compile(rf"[-+]?(?:{_NUMBER})(?:[eE][-+]?[0-9]+)?")
# Possessive (`*+`), because three plain `\s*` in a row would try every way to split a long run of blanks.
_DURATION = re.compile(
    r"\s*+".join(rf"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?|\.[0-9]+){unit})?" for unit in "dhms")
)
_CLOCK = re.compile(r"([0-9]{1,4}):([0-5][0-9])(?::00)?")
_MONEY = re.compile(rf"\$\s*(?P<dollars>{_NUMBER})|(?P<usd>{_NUMBER})\s*usd", re.IGNORECASE)
_WORK = re.compile(rf"(?P<work>{_NUMBER})\s*gpu[- ]?(?:hours|hour|h)", re.IGNORECASE)
_PERCENT = re.compile(rf"(?P<percent>{_NUMBER})\s*%")
_SIZE = re.compile(rf"(?P<size>{_NUMBER})\s*(?P<unit>[KMGTP]i?B)", re.IGNORECASE)
_GB_PER_UNIT = {
    "kb": 1e-6, "mb": 1e-3, "gb": 1.0, "tb": 1e3, "pb": 1e6,
    "kib": 2**10 / 1e9, "mib": 2**20 / 1e9, "gib": 2**30 / 1e9, "tib": 2**40 / 1e9, "pib": 2**50 / 1e9,
}  # fmt: skip
_RATE = re.compile(rf"(?P<rate>{_NUMBER})\s*(?P<unit>[KMGT])(?:bit/s|bps)", re.IGNORECASE)
_GBIT_PER_UNIT = {"k": 1e-6, "m": 1e-3, "g": 1.0, "t": 1e3}
_GPU_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._+-]*")
_SPAN = re.compile(r"(?P<low>[0-9]+)\s*\.\.\s*(?P<high>[0-9]+)")
_SET = re.compile(r"\{(?P<items>[^{}]*)\}")
_COUNT = re.compile(rf"(?P<count>{_NUMBER})(?:\s*jobs?)?", re.IGNORECASE)
_GPUS = re.compile(rf"(?P<gpus>{_NUMBER})\s*gpus?", re.IGNORECASE)

_DURATION_FORM = "a duration must be a number with its unit, such as 90s, 15m, 2h, 1d or 1h30m"
_MONEY_FORM = "an amount of money must be a number with its unit, such as '600 usd' or $600"
_SPREAD_FORM = "the spread of work must be in 0..900 %, such as '40 gpu-hours +-30%'"
_WORK_FORM = "work must be a number with its unit, such as '40 gpu-hours'"
_SIZE_FORM = "a size must be a number with its unit, such as '50 GB' or '800 MB'"
_RATE_FORM = "a speed must be a number with its unit, such as '10 Gbit/s' or '800 Mbit/s'"
_RANGE_FORM = "a range of GPUs must be written 8, 1..8 or {1,2,4,8}"
_BUDGET_FORM = "a budget must be an average, such as '16 gpus', '40 usd/hour' or '20000 usd/month'"
_ARRIVALS_FORM = "arrivals must be a number per period, such as 3/hour or 20/day"
_ACCELERATORS_FORM = "accelerators must be written H100, H100:8, H100:1..8 or H100:{1,2,4,8}"


class Accelerators(NamedTuple):
    """The GPU that a job requests and the widths it may have."""

    gpu: str
    widths: tuple[int, ...]


class Work(NamedTuple):
    """What a job has to do, as far as is known."""

    gpu_hours: float
    spread: float | None  # how far that may be off, as a share; None where that is not given


class Budget(NamedTuple):
    """What may be spent on average over time: GPUs, or dollars per hour; one of the two is None."""

    gpus: float | None
    usd_per_hour: float | None


class Spend(NamedTuple):
    """Money per period."""

    usd: float
    period_hours: float


def parse_duration_hours(text: str) -> float:
    """Read a duration such as `90s`, `15m`, `1.5h`, `1d` or `1h30m` and return hours."""
    found = _DURATION.fullmatch(text.strip())
    parts = {unit: part for unit, part in found.groupdict().items() if part} if found else {}
    if not parts:
        # YAML 1.1 would read 12:30 as the number 750; people mean hours and minutes.
        if clock := _CLOCK.fullmatch(text.strip()):
            raise InputError(f"{_DURATION_FORM}, got {shown(text)}; write {clock[1]}h{clock[2]}m")
        raise _refusal(_DURATION_FORM, text, "write {0}h for hours or {0}m for minutes")
    seconds = sum(float(part) * _SECONDS[unit] for unit, part in parts.items())
    return _at_most(seconds / 3_600, MAX_DURATION_HOURS, "a duration must be <= 3650d", text)


def parse_money_usd(text: str) -> float:
    """Read an amount such as `600 usd`, `$600` or `1,200.50 USD` and return dollars."""
    found = _match(_MONEY, text, _MONEY_FORM, "write '{0} usd'")
    return _at_most(_number(found["dollars"] or found["usd"]), MAX_USD, "money must be <= 1e12 usd", text)


def parse_size_gb(text: str) -> float:
    """Read a size such as `50 GB`, `800 MB` or `1.5 TiB` and return GB of 10^9 bytes."""
    found = _match(_SIZE, text, _SIZE_FORM, "write '{0} GB'")
    size = _number(found["size"]) * _GB_PER_UNIT[found["unit"].lower()]
    return _at_most(size, MAX_GB, "a size must be <= 1e6 GB", text)


def parse_gbit_per_s(text: str) -> float:
    """Read a speed such as `10 Gbit/s` or `800 Mbps` and return Gbit/s, above zero."""
    found = _match(_RATE, text, _RATE_FORM, "write '{0} Gbit/s'")
    rate = _number(found["rate"]) * _GBIT_PER_UNIT[found["unit"].lower()]
    if not rate > 0:
        raise InputError(f"a speed must be > 0, got {shown(text)}")
    return _at_most(rate, MAX_GBIT_PER_S, "a speed must be <= 1e6 Gbit/s", text)


def parse_work_gpu_hours(text: str) -> float:
    """Read work such as `40 gpu-hours`, `1 gpu-hour` or `40 gpuh` and return GPU-hours."""
    found = _match(_WORK, text, _WORK_FORM, "write '{0} gpu-hours'")
    return _at_most(_number(found["work"]), MAX_WORK_GPU_HOURS, "work must be <= 1e9 gpu-hours", text)


def parse_work(text: str) -> Work:
    """Read work with how far it may be off, such as `40 gpu-hours +-30%`; without that the spread is None."""
    amount, sign, spread = text.replace("±", "+-").partition("+-")
    hours = parse_work_gpu_hours(amount)
    if not sign:
        return Work(hours, None)
    found = _PERCENT.fullmatch(spread.strip())
    if not found or not 0.0 <= (share := _number(found["percent"]) / 100.0) <= MAX_SPREAD:
        raise InputError(f"{_SPREAD_FORM}, got {shown(text)}")
    return Work(hours, share)


def parse_budget(text: str) -> Budget:
    """Read an average budget such as `16 gpus`, `40 usd/hour` or `$20,000 per month`."""
    stripped = text.strip()
    if gpus := _GPUS.fullmatch(stripped):
        return Budget(_at_most(_number(gpus["gpus"]), 1e9, "a budget must be <= 1e9 gpus", text), None)
    if (spend := _spend(stripped)) is not None:
        return Budget(None, spend.usd / spend.period_hours)
    if _MONEY.fullmatch(stripped):
        # A budget in dollars without a period is a common mistake.
        remedy = f"name its period, as in '{stripped[:30]}/month'"
        raise InputError(f"{_BUDGET_FORM}, got {shown(text)}; {remedy}")
    raise _refusal(_BUDGET_FORM, text, "write '{0} gpus' or '{0} usd/hour'")


def parse_spend(text: str) -> Spend:
    """Read money per period such as `20000 usd/month` or `$500 per day`."""
    parse_budget(text)  # raises InputError for anything that is not a budget
    if (spend := _spend(text.strip())) is None:
        raise InputError(f"must be money per period, such as 20000 usd/month, got {shown(text)}")
    return spend


def _spend(text: str) -> Spend | None:
    money, hours = _per_period(text)
    if hours is None or not _MONEY.fullmatch(money):
        return None
    return Spend(parse_money_usd(money), hours)


def parse_period_hours(text: str) -> float:
    """Read a period: `day`, `week`, `month`, or a duration such as `36h`; a month is 730 hours."""
    hours = PERIOD_HOURS.get(text.strip().lower())
    if hours is not None:
        return hours
    try:
        return parse_duration_hours(text)
    except InputError as error:
        known = ", ".join(PERIOD_HOURS)
        raise InputError(f"must be one of {known}, or a duration, got {shown(text)}") from error


def parse_arrivals_per_hour(text: str) -> float:
    """Read how often jobs come, such as `3/hour`, `20/day` or `5 jobs per week`, and return jobs per hour."""
    count, hours = _per_period(text.strip())
    found = _COUNT.fullmatch(count)
    if not found or hours is None:
        raise _refusal(_ARRIVALS_FORM, text, "write {0}/hour or {0}/day")
    return _at_most(_number(found["count"]) / hours, MAX_PER_HOUR, "arrivals must be <= 1e6/hour", text)


def parse_range(text: str) -> tuple[int, ...]:
    """Read widths such as `8`, `1..8` or `{1,2,4,8}` and return them, ascending and each once."""
    stripped = text.strip()
    if span := _SPAN.fullmatch(stripped):
        low, high = _width(span["low"], text), _width(span["high"], text)
        if low > high:
            raise InputError(f"a range of GPUs must go upwards, got {shown(text)}")
        return tuple(range(low, high + 1))
    if items := _SET.fullmatch(stripped):
        return tuple(sorted({_width(item, text) for item in items["items"].split(",")}))
    return (_width(stripped, text),)


def parse_accelerators(text: str) -> Accelerators:
    """Read `H100:1..8`, `H100:{1,2,4,8}`, `H100:8` or `H100` (one GPU) into GPU and widths."""
    gpu, colon, widths = (part.strip() for part in text.partition(":"))
    if not _GPU_NAME.fullmatch(gpu) or (colon and not widths):
        raise InputError(f"{_ACCELERATORS_FORM}, got {shown(text)}")
    return Accelerators(gpu, parse_range(widths) if colon else (1,))


def format_duration(hours: float) -> str:
    """Write hours as `1d12h`, `1h30m` or `0.25s`: whole seconds, milliseconds under a minute.

    Hours that `parse_duration_hours` does not accept are written as `never` for infinity, `unknown`
    for not-a-number, and `-5m` for a time that has passed.
    """
    seconds = abs(hours) * 3_600
    if not math.isfinite(seconds):
        return "never" if hours > 0 else "unknown"
    sign = "-" if hours < 0 else ""
    if round(seconds, 3) < 60:
        text = f"{seconds:.3f}".rstrip("0").rstrip(".")
        return f"{sign}{text}s" if text != "0" else "0s"
    left, parts = round(seconds), []
    for unit, size in _SECONDS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def format_count(number: int, noun: str) -> str:
    """Write a count with its noun, in the plural when it needs one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_usd(usd: float) -> str:
    """Write dollars as `$1,234.50`; amounts under a cent keep two significant digits."""
    if not math.isfinite(usd):
        return "unknown"
    size = abs(usd)
    digits = 2 if size >= 0.01 or size < 1e-9 else 1 - math.floor(math.log10(size))
    text = f"{size:,.{digits}f}"
    return f"-${text}" if usd < 0 and float(text.replace(",", "")) > 0 else f"${text}"


def _width(text: str, whole: str) -> int:
    if not re.fullmatch(r"\s*[0-9]+\s*", text):
        raise InputError(f"{_RANGE_FORM}, got {shown(whole)}")
    # Through a float, because Python refuses to read integers of thousands of digits.
    width = float(text)
    if not 1 <= width <= MAX_GPUS:
        raise InputError(f"a width must be in 1..{MAX_GPUS}, got {shown(text.strip())}")
    return int(width)


def _per_period(text: str) -> tuple[str, float | None]:
    """Split `40 usd/hour` or `40 usd per hour` into the amount and its period in hours, None if unknown."""
    amount, _, period = text.rpartition("/") if "/" in text else text.lower().rpartition(" per ")
    return amount.strip(), PERIOD_HOURS.get(period.strip().lower())


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _at_most(number: float, limit: float, rule: str, text: str) -> float:
    if not number <= limit:
        raise InputError(f"{rule}, got {shown(text)}")
    return number


def _match(pattern: re.Pattern[str], text: str, form: str, remedy: str) -> re.Match[str]:
    found = pattern.fullmatch(text.strip())
    if not found:
        raise _refusal(form, text, remedy)
    return found


def _refusal(form: str, text: str, remedy: str) -> InputError:
    """Return an error that says which form is read and what was given; for a bare number, also the remedy."""
    message = f"{form}, got {shown(text)}"
    bare = text.strip()
    if bare.startswith("-"):
        return InputError(f"{message}; it must not be negative")
    if len(bare) <= 20 and _BARE.fullmatch(bare):
        return InputError(f"{message}; {remedy.format(bare)}")
    return InputError(message)
