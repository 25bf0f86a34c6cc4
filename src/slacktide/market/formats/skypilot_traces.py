"""SkyPilot's spot traces: JSON with a step in seconds and counts, but no times and no prices."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.core.arrays import Ints
from slacktide.core.errors import FileError, InputError, shown
from slacktide.core.files import write_whole
from slacktide.market.base import EPOCH, Market, Pool
from slacktide.market.formats.default_prices import ON_DEMAND_USD_PER_GPU_HOUR, SPOT_SHARE, gpu_named_in
from slacktide.market.formats.market_bytes import json_object, kind_of
from slacktide.market.formats.samples import MAX_SPOT_GPUS, Cell, SamplePlace
from slacktide.market.series import resample
from slacktide.market.spec import ReadOptions


def read_skypilot(path: str, data: bytes, options: ReadOptions) -> Market:
    """Read a trace as one pool named like the file; raises FileError with the entry of what is wrong."""
    document = json_object(data, path)
    options.refuse("a SkyPilot trace", ("spot_gpus", "gpus_per_instance"))
    gap_seconds = _gap_seconds(document, path)
    counts = _counts(document, path)
    name = Path(path).name.split(".")[0]
    gpu = gpu_named_in(name, *(value for value in document["metadata"].values() if isinstance(value, str)))
    spot, on_demand, sentences = _prices(gpu, options, path)
    pool = Pool(
        name,
        gap_seconds / 3600,
        np.full(len(counts), spot),
        np.full(len(counts), on_demand),
        counts,
        gpu=gpu or "",
    )
    sentences.insert(0, f"The trace has no times: it is assumed to begin at {EPOCH:%Y-%m-%d %H:%M} UTC.")
    market = Market((pool,), path, tuple(sentences))
    return market if options.slot_hours is None else resample(market, options.slot_hours)


def write_skypilot(pool: Pool, path: str | Path) -> None:
    """Write the counts of a pool as a trace, without its times and prices."""
    seconds = round(pool.slot_hours * 3600, 6)
    trace = {
        "metadata": {"gap_seconds": int(seconds) if seconds == int(seconds) else seconds},
        "data": pool.spot_gpus.tolist(),
    }
    write_whole(path, json.dumps(trace).encode())


def _gap_seconds(document: dict[str, Any], path: str) -> float:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        came = kind_of(metadata) if "metadata" in document else f"no such key in {sorted(document)}"
        raise FileError(f"metadata must be an object with gap_seconds, got {came}", path=path)
    gap = metadata.get("gap_seconds")
    if isinstance(gap, bool) or not isinstance(gap, int | float) or not (math.isfinite(gap) and gap > 0):
        raise FileError(f"metadata.gap_seconds must be a number > 0, got {shown(gap)}", path=path)
    return gap


def _counts(document: dict[str, Any], path: str) -> Ints:
    counts = document.get("data")
    if not isinstance(counts, list) or not counts:
        came = "an empty array" if counts == [] else kind_of(counts) if "data" in document else "no such key"
        raise FileError(f"data must be an array of counts, got {came}", path=path)
    if all(type(count) is int and 0 <= count <= MAX_SPOT_GPUS for count in counts):
        return np.array(counts, dtype=np.int64)  # a trace may be long, and cells are slow

    texts = (text if isinstance(text, str) else json.dumps(text) for text in counts)
    cells = (Cell(text, f"data[{at}]", path, SamplePlace(None)) for at, text in enumerate(texts))
    return np.array([cell.gpus() for cell in cells])


def _prices(gpu: str | None, options: ReadOptions, path: str) -> tuple[float, float, list[str]]:
    on_demand = options.on_demand_usd
    if on_demand is None:
        if gpu is None:
            raise InputError(
                f"{path}: the on-demand price must be given when neither the file's name nor its metadata "
                f"names a known GPU ({', '.join(ON_DEMAND_USD_PER_GPU_HOUR)}); "
                "give on_demand_usd (--on-demand-usd)"
            )
        on_demand = ON_DEMAND_USD_PER_GPU_HOUR[gpu]
    spot = SPOT_SHARE * on_demand if options.spot_usd is None else options.spot_usd
    origin = f"the list price of a {gpu}" if options.on_demand_usd is None else "as given"
    guess = f"{SPOT_SHARE:g} of on demand" if options.spot_usd is None else "as given"
    return (
        spot,
        on_demand,
        [
            f"The trace has no prices: on demand is {on_demand:.4g} USD per GPU-hour ({origin}).",
            f"The trace has no prices: spot is {spot:.4g} USD per GPU-hour ({guess}) at all times.",
        ],
    )
