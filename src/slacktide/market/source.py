"""Where a market comes from: a file in any format we know, or a seeded generator."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

from slacktide.core.errors import InputError, shown, unknown_name
from slacktide.market.base import Market
from slacktide.market.formats.price_changes import Assumed
from slacktide.market.formats.reading.market_bytes import read_bytes
from slacktide.market.formats.reading.samples import Irregular
from slacktide.market.pools.joined import joined, moves_said
from slacktide.market.pools.notice import notice_said, parse_notice_hours
from slacktide.market.series import resample
from slacktide.market.spec import is_market_file, is_synthetic, parts_of

DEFAULT_DAYS = 30.0
_ASSUMED = ("spot_usd", "on_demand_usd", "spot_gpus", "gpus_per_instance")


def open_market(
    spec: str,
    *,
    data: bytes | None = None,
    slot_hours: float | None = None,
    gaps: str = "hold",
    unsorted: str = "refuse",
    duplicates: str = "refuse",
    spot_usd: float | None = None,
    on_demand_usd: float | None = None,
    spot_gpus: int | None = None,
    gpus_per_instance: int | None = None,
) -> Market:
    """Open a market: a path, or `synthetic:PROFILE?seed=3&days=14&slot=10m&pools=2&notice=10m`.

    Several with commas between them are joined into one, and so are the traces of a market file (`*.yaml`).
    Money is in USD per GPU-hour. What a file leaves open is taken from the arguments or from
    documented defaults, and said in the market's assumptions; so is every gap that was filled.
    Where `data` is given, it stands for what the file holds.
    Raises InputError or FileError.
    """
    irregular = Irregular(gaps, unsorted, duplicates)
    assumed = Assumed(spot_usd, on_demand_usd, spot_gpus, gpus_per_instance)

    def opened(one: str) -> Market:
        if is_synthetic(one):
            assumed.refuse(_ASSUMED, "a synthetic market")
            return _synthetic(one, slot_hours)
        return _file(one, read_bytes(one) if data is None else data, irregular, assumed, slot_hours)

    if data is not None:
        return moves_said(opened(spec))
    if is_market_file(spec):
        from slacktide.market.formats.market_file import read_market_file

        return notice_said(read_market_file(read_bytes(spec), spec, opened))
    parts = parts_of(spec)
    if len(parts) == 1:
        return notice_said(moves_said(opened(spec)))
    return notice_said(moves_said(joined([opened(part) for part in parts], spec)))


def _file(path: str, data: bytes, irregular: Irregular, assumed: Assumed, slot_hours: float | None) -> Market:
    # A process reads one format, and a synthetic market none.
    from slacktide.market.formats.aws_history import HISTORY_KEY, read_aws_history
    from slacktide.market.formats.price_events import EVENT_COLUMNS, read_price_events
    from slacktide.market.formats.skypilot import read_skypilot
    from slacktide.market.formats.tables.table import read_table
    from slacktide.market.formats.tables.whole import is_whole, read_whole

    if is_market_file(path):
        raise InputError(f"{path}: a market file must be named alone, got it as a feed or between commas")
    if is_whole(data):
        assumed.refuse(_ASSUMED, "a sent market, which already says it")
        sent = read_whole(data, path)
        return sent if slot_hours is None else resample(sent, slot_hours)
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"[") or Path(path).suffix == ".json":
        if HISTORY_KEY.encode() in data:
            return read_aws_history(
                path, data=data, assumed=assumed, irregular=irregular, slot_hours=slot_hours
            )
        return read_skypilot(path, data=data, assumed=assumed, slot_hours=slot_hours)
    header = {name.strip() for name in start.split(b"\n")[0].decode(errors="replace").split(",")}
    if len(header & set(EVENT_COLUMNS)) >= 2:
        return read_price_events(path, data=data, assumed=assumed, irregular=irregular, slot_hours=slot_hours)
    assumed.refuse(_ASSUMED, "a table, which already says it")
    return read_table(path, data=data, irregular=irregular, slot_hours=slot_hours)


def _synthetic(spec: str, slot_hours: float | None) -> Market:
    from slacktide.market.synthetic.profiles import DEFAULT_PROFILE, profile
    from slacktide.market.synthetic.synthetic import synthesize

    name, _, query = spec.partition(":")[2].partition("?")
    options = _options(spec, query)
    market = synthesize(
        profile(name or DEFAULT_PROFILE),
        days=_number(spec, "days", options.get("days", str(DEFAULT_DAYS))),
        seed=_whole(spec, "seed", options.get("seed", "0")),
        slot_hours=_slot(options.get("slot")),
        pools=_whole(spec, "pools", options.get("pools", "1")),
        notice_hours=_notice(spec, options.get("notice")),
    )
    return market if slot_hours is None else resample(market, slot_hours)


def _options(spec: str, query: str) -> dict[str, str]:
    known = ("days", "notice", "pools", "seed", "slot")
    pairs = parse_qsl(query, keep_blank_values=True)
    for key, _ in pairs:
        if key not in known:
            raise InputError(f"{spec}: {unknown_name('an option', key, known)}")
    return dict(pairs)


def _number(spec: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{spec}: {name} must be a number, got {shown(text)}") from None


def _whole(spec: str, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{spec}: {name} must be a whole number, got {shown(text)}") from None


def _notice(spec: str, text: str | None) -> float:
    try:
        return 0.0 if text is None else parse_notice_hours(text)
    except InputError as error:
        raise InputError(f"{spec}: notice: {error}") from None


def _slot(text: str | None) -> float | None:
    if text is None:
        return None
    from slacktide.core.units import parse_duration_hours

    return parse_duration_hours(text)
