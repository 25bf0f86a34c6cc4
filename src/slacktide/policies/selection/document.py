"""Writes a learner as versioned JSON and reads it, so that it goes on exactly as if it had not stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import FileError, InputError, shown
from slacktide.policies.selection import rate as rates
from slacktide.policies.selection.hedge import Hedge, Leader, Open, RegretPoint, Tally, Trail

FORMAT = "slacktide-learn"
VERSION = 1


def to_json(hedge: Hedge) -> str:
    """Write a learner; floats are written so that reading gives the same ones to the last bit."""
    tally = hedge.tally._asdict()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "rate": rates.written(hedge.rate),
        "arms": list(hedge.arms),
        "prior": hedge.prior.tolist(),
        "utility": hedge.utility.tolist(),
        "tally": {**tally, "eta": None if math.isinf(hedge.tally.eta) else hedge.tally.eta},
        "open": {job: {"arm": one.arm, "weights": one.weights.tolist()} for job, one in hedge.open.items()},
        "recent": hedge.recent,
        "leaders": [[leader.jobs, hedge.arms.index(leader.arm)] for leader in hedge.leaders],
        "stride": hedge.trail.stride,
        "trail": [
            [point.jobs, point.regret, point.bound, list(point.weights.items())]
            for point in hedge.trail.points
        ],
    }
    return json.dumps(document, allow_nan=False) + "\n"


def from_json(text: str, path: object) -> Hedge:
    """Read a learner; raises FileError, naming the path, if the text is not one or of another version."""
    document = _document(text, path)
    try:
        return _hedge(document)
    except InputError as error:
        raise FileError(
            f"must be a whole learned state, got a damaged one: {error}; "
            "restore it, or start over with 'slacktide learn --reset'",
            path=path,
        ) from error


def _document(text: str, path: object) -> dict[str, Any]:
    remedy = "name another file with --state, or start over with 'slacktide learn --reset'"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise FileError(
            f"must be a learned state in JSON, got other text{where}; {remedy}", path=path
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"must be a file that 'slacktide learn' wrote, got another; {remedy}", path=path)
    if document.get("version") != VERSION:
        raise FileError(
            f"must be a learned state of version {VERSION}, got version {shown(document.get('version'))}; "
            "use the Slacktide that wrote it, or start over with 'slacktide learn --reset'",
            path=path,
        )
    return document


Found = TypeVar("Found")

_DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""What Python raises when a value of the wrong kind is read; users are told which part it is in."""


def _part(document: dict[str, Any], key: str, kind: str, read: Callable[[Any], Found]) -> Found:
    """Read one part of a state; raises InputError, which names the part, if it is missing or not a `kind`."""
    if key not in document:
        raise InputError(f"{key} must be given, got nothing")
    try:
        return read(document[key])
    except InputError as error:
        raise InputError(f"{key}: {error}") from error
    except _DAMAGE as error:
        raise InputError(f"{key} must be {kind}, got {shown(document[key])}") from error


def _hedge(document: dict[str, Any]) -> Hedge:
    arms = _part(document, "arms", "a list of names", lambda found: [_text(arm) for arm in found])
    rate = _part(document, "rate", "a rate that 'slacktide learn' wrote", rates.made)
    hedge = Hedge(arms, rate=rate)
    # The shares as they were written: dividing by their sum again could change the last bit.
    hedge.prior = _part(document, "prior", "shares", lambda found: _numbers(found, len(arms), above=0.0))
    if not math.isclose(hedge.prior.sum(), 1.0, abs_tol=1e-6):
        raise InputError(f"prior shares must sum to 1, got {hedge.prior.sum():g}")
    hedge.tally = _part(document, "tally", "sums over jobs", _tally)
    if len(arms) > 1 and not hedge.tally.eta > 0.0:
        raise InputError(f"tally: eta must be > 0 where there is a choice, got {hedge.tally.eta}")
    hedge.utility = _part(
        document, "utility", "sums over jobs", lambda found: _numbers(found, len(arms), most=hedge.ended)
    )
    hedge.open = _part(document, "open", "jobs with their weights", lambda found: _open(found, len(arms)))
    hedge.recent = _part(document, "recent", "names of jobs", lambda found: [_text(job) for job in found])
    hedge.leaders = _part(
        document,
        "leaders",
        "pairs of a count and an arm",
        lambda found: [Leader(int(jobs), arms[arm]) for jobs, arm in found],
    )
    if not hedge.leaders:
        raise InputError("leaders must not be empty, got none")
    points = _part(document, "trail", "points", lambda found: [_point(point) for point in found])
    hedge.trail = Trail(points, _part(document, "stride", "a whole number", lambda found: max(1, int(found))))
    return hedge


def _open(found: dict[str, Any], arms: int) -> dict[str, Open]:
    return {
        job: Open(range(arms)[int(one["arm"])], _numbers(one["weights"], arms, most=1.0))
        for job, one in found.items()
    }


def _tally(found: dict[str, Any]) -> Tally:
    numbers = {**found, "eta": math.inf if found["eta"] is None else float(found["eta"])}
    tally = Tally(**{**numbers, "ended": int(found["ended"])})
    _numbers([*tally[:-1]], len(tally) - 1)
    if not tally.eta >= 0.0:
        raise InputError(f"eta must be >= 0, got {tally.eta}")
    return tally


def _point(found: list[Any]) -> RegretPoint:
    jobs, regret, bound, weights = found
    return RegretPoint(
        int(jobs), float(regret), float(bound), {int(arm): float(share) for arm, share in weights}
    )


def _numbers(found: Any, count: int, *, above: float = -1e-300, most: float = math.inf) -> Floats:
    numbers = np.array(found, dtype=np.float64)
    if numbers.shape != (count,) or not (np.isfinite(numbers) & (numbers > above) & (numbers <= most)).all():
        raise InputError(f"must be {count} numbers in {max(above, 0.0):g}..{most:g}, got {shown(found)}")
    return numbers


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise InputError(f"a name must be text, got {shown(found)}")
    return found
