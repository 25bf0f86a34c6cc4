"""Which policies choose among pools, and which stay in the one that they are given."""

from __future__ import annotations

from slacktide.policies.view import Policy


def roams(policy: Policy) -> bool:
    """Whether a policy chooses the pool that a job is in.

    A class says so with an attribute, `roams = True`; what wraps another policy does what that one does.
    """
    inner = getattr(policy, "inner", None)
    return roams(inner) if isinstance(inner, Policy) else bool(getattr(policy, "roams", False))
