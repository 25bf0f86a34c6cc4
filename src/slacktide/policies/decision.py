"""Calls a policy and checks its decision: a user's own policy may fail, or return something else."""

from __future__ import annotations

import traceback
from pathlib import Path

from slacktide.core.errors import PolicyError, SlacktideError, shown
from slacktide.core.types import Allocation
from slacktide.policies.view import Policy, View


def decision_of(policy: Policy, view: View) -> Allocation:
    """Return what a policy wants; raises PolicyError where it fails, or returns something else."""
    try:
        wanted = policy.decide(view)
    except SlacktideError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}, in slot {view.slot}"
        raise PolicyError(
            f"policy {type(policy).__name__} must decide without an error, got {type(error).__name__}: "
            f"{error} ({where})"
        ) from error
    if not isinstance(wanted, Allocation):
        raise PolicyError(
            f"policy {type(policy).__name__} must return an Allocation, got {shown(repr(wanted))} in slot "
            f"{view.slot}"
        )
    return wanted
