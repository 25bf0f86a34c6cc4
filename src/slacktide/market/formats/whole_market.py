"""A whole market in one file, to be sent to another machine: written and read back exactly.

A table holds quotes only. This also holds the assumptions, what moves cost, the notices of pools, and slots
of any length. It is a line of JSON and then the series of each pool as plain numbers, packed with gzip.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from slacktide.core.errors import FileError, InputError
from slacktide.market.base import Market, Moves, Pool
from slacktide.market.formats.market_bytes import packed

FORMAT, VERSION = "slacktide-market", 1
_BEGIN = f'{{"format": "{FORMAT}"'.encode()
_NUMBER_BYTES = 8
HEAD_BYTES = 4 << 20
"""The most JSON that is read before the series; some JSON takes twenty times its size in memory."""
_DAMAGED = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, msgspec.ValidationError,
)  # fmt: skip
"""What reading a damaged head may raise: any of its values may be anything."""
_MONEY, _COUNT = np.dtype("<f8"), np.dtype("<i8")


def whole_bytes(market: Market) -> bytes:
    """Return a market as bytes; the same market gives the same bytes."""
    # JSON has no infinity: a network that takes no time is null.
    fast = None if math.isinf(market.moves.gbit_per_s) else market.moves.gbit_per_s
    head = {
        "format": FORMAT,
        "version": VERSION,
        "source": market.source,
        "assumptions": market.assumptions,
        "uncounted": market.uncounted,
        "moves": {**asdict(market.moves), "gbit_per_s": fast},
        "pools": [_described(pool) for pool in market.pools],
    }
    series = b"".join(part for pool in market.pools for part in _series(pool))
    return packed(json.dumps(head, allow_nan=False).encode() + b"\n" + series, "market.gz")


def is_whole(data: bytes) -> bool:
    """Whether the content of a file, unpacked, is a whole market."""
    return data.startswith(_BEGIN)


def read_whole(data: bytes, path: str) -> Market:
    """Read a market; raises FileError for one that is damaged, or of another version."""
    line, _, rest = data.partition(b"\n")
    try:
        if len(line) > HEAD_BYTES:
            raise InputError(f"its first line must have at most {HEAD_BYTES >> 20} MB, got more")
        head = json.loads(line)
        json.dumps(head, ensure_ascii=False).encode()  # half of a surrogate pair could not be printed later
        market = _market(head, rest) if head["version"] == VERSION else None
    except _DAMAGED as error:
        raise FileError("a sent market must be intact, got a damaged one; resend it", path=path) from error
    except InputError as error:
        raise FileError(f"a sent market must be intact, got a damaged one: {error}", path=path) from error
    if market is None:
        raise FileError(f"a sent market must be of version {VERSION}, got another", path=path)
    return market


def _described(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "slot_hours": pool.slot_hours,
        "start": pool.start.isoformat(),
        "gpu": pool.gpu,
        "notice_hours": pool.notice_hours,
        "slots": len(pool),
        "stock": pool.on_demand_gpus is not None,
    }


def _series(pool: Pool) -> list[bytes]:
    stock = [] if pool.on_demand_gpus is None else [pool.on_demand_gpus.astype(_COUNT)]
    prices = [pool.spot_usd_per_gpu_hour.astype(_MONEY), pool.on_demand_usd_per_gpu_hour.astype(_MONEY)]
    return [part.tobytes() for part in (*prices, pool.spot_gpus.astype(_COUNT), *stock)]


def _market(head: dict[str, Any], rest: bytes) -> Market:
    moves = head["moves"]
    if moves["gbit_per_s"] is None:
        moves["gbit_per_s"] = math.inf
    pools, place = [], 0
    for entry in head["pools"]:
        pool, place = _pool(entry, rest, place)
        pools.append(pool)
    if place != len(rest):
        raise InputError(f"the series must have {place} bytes, got {len(rest)}")
    return Market(
        tuple(pools),
        str(head["source"]),
        tuple(str(sentence) for sentence in head["assumptions"]),
        msgspec.convert(moves, Moves),
        tuple(str(name) for name in head["uncounted"]),
    )


def _pool(entry: dict[str, Any], rest: bytes, place: int) -> tuple[Pool, int]:
    """Read a pool whose series begin at the byte `place`; return it and where they end."""
    slots = int(entry["slots"])
    kinds = [_MONEY, _MONEY, _COUNT, *([_COUNT] if entry["stock"] else [])]
    end = place + _NUMBER_BYTES * slots * len(kinds)
    if slots < 1 or end > len(rest):
        raise InputError(f"the series must have {end} bytes or more, got {len(rest)}")
    starts = range(place, end, _NUMBER_BYTES * slots)
    series: list[Any] = [
        np.frombuffer(rest, kind, slots, start) for kind, start in zip(kinds, starts, strict=True)
    ]
    spot, demand, gpus, *stock = series
    made = Pool(
        str(entry["name"]), float(entry["slot_hours"]), spot, demand, gpus,
        datetime.fromisoformat(entry["start"]), str(entry["gpu"]),
        stock[0] if stock else None, float(entry["notice_hours"]),
    )  # fmt: skip
    return made, end
