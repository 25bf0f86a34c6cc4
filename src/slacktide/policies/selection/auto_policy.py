"""Resolves `policy: auto` to a policy: one that earned the most on earlier jobs, drawn by learned weights."""

from __future__ import annotations

from pathlib import Path

from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.register import Spec
from slacktide.policies.base import policies
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.policy_set import AUTO, fresh, spec_of
from slacktide.policies.selection.state_file import default_path, load
from slacktide.policies.view import Policy


def resolve_policy(spec: Spec | Policy, *, state: Path | None = None, key: str = "") -> Policy:
    """Make a policy; `auto` becomes the one that `arm_for` returns for the job's name, `key`."""
    if spec != AUTO:
        return policies.make(spec)
    return _learned(arm_for(key, load(state or default_path()) or fresh()), "the")


def arm_for(name: str, hedge: Hedge) -> str:
    """Return the arm for a job: the prior's favourite until a job has ended, then one drawn by weight.

    The job's name is the seed of the draw, so that a plan and the run after it use the same policy.
    """
    return hedge.draw(name) if hedge.ended else hedge.leader


def arms_of(hedge: Hedge) -> dict[str, Policy]:
    """Make the policies of all arms, by their names; raises InputError when one is not installed."""
    return {name: _learned(name, "every") for name in hedge.arms}


def _learned(name: str, which: str) -> Policy:
    try:
        return policies.make(spec_of(name))
    except UnknownNameError as error:
        raise InputError(
            f"{which} learned policy must be installed, got: {error}; install it, or start over with "
            "'slacktide learn --reset'"
        ) from error
