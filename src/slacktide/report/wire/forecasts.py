"""Scores of forecasters in their documented keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from slacktide.market.forecast.score import Scores
from slacktide.report.text.sentences.forecast import best, verdicts
from slacktide.results.forecasts import Forecasts


def as_json(found: Forecasts) -> dict[str, Any]:
    """Return scores in the documented keys."""
    return {
        "source": found.market.source,
        "assumptions": list(found.market.assumptions),
        "warmup_share": found.warmup_share,
        "overall": _document(found.overall),
        "pools": [_document(scores) for scores in found.pools],
    }


def _document(scores: Scores) -> dict[str, Any]:
    return {
        **asdict(scores),
        "best_availability": best(scores, "availability"),
        "best_price": best(scores, "price"),
        "verdicts": verdicts(scores),
    }
