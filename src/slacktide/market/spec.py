"""Names of markets (a file, a synthetic market, several with commas between), and how to read one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.core.units import parse_duration_hours

SYNTHETIC = "synthetic"
FEED = "feed:"
MARKET_FILE_ENDINGS = (".yaml", ".yml")
ASSUMABLE = ("spot_usd", "on_demand_usd", "spot_gpus", "gpus_per_instance")
"""Options that stand for what a file does not say."""
_CHOICES = {
    "gaps": ("refuse", "hold", "empty"),
    "unsorted": ("refuse", "sort"),
    "duplicates": ("refuse", "first", "last"),
}
MOST_NOTICE_HOURS = 24.0  # no market knows a day before that it will take spot back


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read a market file: what to do about irregular rows, and values that the file does not say.

    None means the documented default. Raises InputError for an impossible value.
    """

    slot_hours: float | None = None
    gaps: str = "hold"  # `refuse`, `hold` (the last row stays true) or `empty` (no spot until the next row)
    unsorted: str = "refuse"  # `refuse` or `sort`
    duplicates: str = "refuse"  # `refuse`, or the one to keep: `first` or `last`
    spot_usd: float | None = None  # USD per GPU-hour, if the file has no price; likewise the next
    on_demand_usd: float | None = None
    spot_gpus: int | None = None
    gpus_per_instance: int | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        for name in ("spot_usd", "on_demand_usd"):
            usd = getattr(self, name)
            if usd is not None and not 0 <= usd < 1e9:
                raise InputError(f"{name} must be >= 0 and finite, got {usd}")
        for name, least in (("spot_gpus", 0), ("gpus_per_instance", 1)):
            count = getattr(self, name)
            if count is not None and not least <= count <= 10**9:
                raise InputError(f"{name} must be >= {least}, got {count}")

    def refuse(self, file: str, names: Sequence[str] = ASSUMABLE) -> None:
        """Raise InputError if an option is given that this kind of file does not use."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} must not be given for {file}, got {getattr(self, name)}; leave it out"
                )


def is_synthetic(spec: str) -> bool:
    """Whether a name means a synthetic market."""
    return spec == SYNTHETIC or spec.startswith(f"{SYNTHETIC}:")


def is_market_file(spec: str) -> bool:
    """Whether a name means a market file, which names traces and what moves cost."""
    return not is_synthetic(spec) and spec.lower().endswith(MARKET_FILE_ENDINGS)


def is_feed(spec: str) -> bool:
    """Whether a name means a market that is still being written."""
    return spec.startswith(FEED)


def feed_path(spec: str) -> str:
    """Return the file of a feed."""
    path = spec.removeprefix(FEED)
    if not path:
        raise InputError(f"a feed must name its file, as in {FEED}prices.csv, got {spec!r}")
    return path


def parts_of(spec: str, folder: Path | None = None) -> list[str]:
    """Return the markets that a name joins; a file whose own name has commas is one, and so is a feed.

    Raises InputError where a part is empty, or a live feed.
    """
    if "," not in spec or spec.startswith(FEED) or _exists((folder or Path()) / spec):
        return [spec]
    parts = [part.strip() for part in spec.split(",")]
    for part in parts:
        if not part:
            raise InputError(f"a market must be named between commas, got nothing in {shown(spec)}")
        if part.startswith(FEED):
            raise InputError(
                f"a live feed must be the only market, got {shown(spec)}; write the rows of all "
                "pools to one table"
            )
    return parts


def located(spec: str, place: Callable[[str], str], folder: Path | None = None) -> str:
    """Return a market's name with `place` applied to each path of a file in it; other names stay."""
    parts = parts_of(spec, folder)
    return ",".join(part if is_synthetic(part) or part.startswith(FEED) else place(part) for part in parts)


def absolute(spec: str) -> str:
    """Return a market's name with absolute paths of its files, except of a feed's."""
    return located(spec, lambda path: str(Path(path).absolute()))


def parse_notice_hours(text: str) -> float:
    """Read how long before a loss a market warns; raises InputError."""
    hours = parse_duration_hours(text)
    if hours > MOST_NOTICE_HOURS:
        raise InputError(f"must be at most {MOST_NOTICE_HOURS:g} h, got {shown(text)}")
    return hours


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False
