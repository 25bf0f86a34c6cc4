"""A learner as text: versioned JSON from which it goes on exactly as if it had not stopped."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from slacktide.arrays import Floats
from slacktide.errors import FileError, InputError
from slacktide.learn import rate as rates
from slacktide.learn.hedge import Hedge, Open, Tally
from slacktide.learn.trail import Leader, Point, Trail

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
    """Read a learner; raises FileError, naming the path, when this is not one or of another version."""
    document = _document(text, path)
    try:
        return _hedge(document)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, InputError) as error:
        raise FileError(
            f"must be a whole learned state, got a damaged one ({type(error).__name__}: {error}); "
            "restore it, or begin anew with 'slacktide learn --reset'",
            path=path,
        ) from error


def _document(text: str, path: object) -> dict[str, Any]:
    remedy = "name another file with --state, or begin anew with 'slacktide learn --reset'"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"must be a learned state in JSON, got: {error}; {remedy}", path=path) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"must be a file that 'slacktide learn' wrote, got another; {remedy}", path=path)
    if document.get("version") != VERSION:
        raise FileError(
            f"must be a learned state of version {VERSION}, got version {document.get('version')!r}; "
            "use the Slacktide that wrote it, or begin anew with 'slacktide learn --reset'",
            path=path,
        )
    return document


def _hedge(document: dict[str, Any]) -> Hedge:
    arms = [_text(arm) for arm in document["arms"]]
    hedge = Hedge(arms, rate=rates.made(document["rate"]))
    # The shares as they were written: dividing by their sum once more could move the last bit.
    hedge.prior = _numbers(document["prior"], len(arms), above=0.0)
    if not math.isclose(hedge.prior.sum(), 1.0, abs_tol=1e-6):
        raise ValueError(f"prior shares must sum to 1, got {hedge.prior.sum()}")
    hedge.tally = _tally(document["tally"])
    hedge.utility = _numbers(document["utility"], len(arms), most=hedge.ended)
    hedge.open = {
        job: Open(range(len(arms))[int(one["arm"])], _numbers(one["weights"], len(arms), most=1.0))
        for job, one in document["open"].items()
    }
    hedge.recent = [_text(job) for job in document["recent"]]
    hedge.leaders = [Leader(int(jobs), arms[arm]) for jobs, arm in document["leaders"]]
    if not hedge.leaders:
        raise ValueError("leaders must not be empty")
    hedge.trail = Trail([_point(point) for point in document["trail"]], max(1, int(document["stride"])))
    return hedge


def _tally(found: dict[str, Any]) -> Tally:
    numbers = {**found, "eta": math.inf if found["eta"] is None else float(found["eta"])}
    tally = Tally(**{**numbers, "ended": int(found["ended"])})
    _numbers([*tally[:-1]], len(tally) - 1)
    if not tally.eta >= 0.0:
        raise ValueError(f"eta must be >= 0, got {tally.eta}")
    return tally


def _point(found: list[Any]) -> Point:
    jobs, regret, bound, weights = found
    return Point(int(jobs), float(regret), float(bound), {int(arm): float(share) for arm, share in weights})


def _numbers(found: Any, count: int, *, above: float = -1e-300, most: float = math.inf) -> Floats:
    numbers = np.array(found, dtype=np.float64)
    if numbers.shape != (count,) or not (np.isfinite(numbers) & (numbers > above) & (numbers <= most)).all():
        raise ValueError(f"must be {count} numbers in {max(above, 0.0):g}..{most:g}, got {found!r:.60}")
    return numbers


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(f"a name must be text, got {found!r:.60}")
    return found
