"""Parcels on a node of a Ray cluster: fetched once by each worker process."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from slacktide.simulation.parallel import parcel

_kept: dict[str, parcel.Parcel] = {}


def do(reference: Any, task: bytes) -> bytes:
    """Do a task of the parcel that a reference stands for."""
    name = reference.hex()
    if name not in _kept:
        _kept.clear()
        _kept[name] = pickle.loads(importlib.import_module("ray").get(reference))
    return parcel.do(_kept[name], task)
