"""How golden files are written: one line a row, every number with all its digits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def lines(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Write rows as a JSON object with one row a line, so that a difference shows which rows moved."""
    written = (f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return "{\n" + ",\n".join(written) + "\n}\n"


def digest(values: npt.ArrayLike) -> str:
    """Return a short fingerprint of numbers that changes with any bit of any of them."""
    exact = np.ascontiguousarray(values, dtype=np.float64)
    return hashlib.sha256(exact.tobytes()).hexdigest()[:16]
