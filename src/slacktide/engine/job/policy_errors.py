"""A policy that may fail: its job then keeps what it holds, is said to be blocked, and is asked again."""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.core.errors import PolicyError
from slacktide.core.types import Allocation, Reason
from slacktide.engine.job.blocked_jobs import Troubles, said
from slacktide.policies.view import Policy, View, goes_where_it_may, stays_in

FAILED = Reason("policy-failed")


@dataclass(frozen=True, slots=True)
class Careful:
    """Asks a policy about one job; what goes wrong in it is no other job's trouble."""

    policy: Policy
    troubles: Troubles

    def decide(self, view: View) -> Allocation:
        """Return what the policy wants, or what is held where it cannot say."""
        try:
            wish = self.policy.decide(view)
            if view.places is None:
                stays_in(wish, view.pools[view.pool].name, view.id)
            else:
                goes_where_it_may(wish, [pool.name for pool in view.pools], view.id)
        except Exception as error:
            self.troubles.note(view.id, "policy", f"its policy failed: {said(_met(error))}")
            held = view.state
            return Allocation(held.spot_gpus, held.on_demand_gpus, reason=FAILED, memory=view.memory)
        self.troubles.note(view.id, "policy", "")
        return wish


def _met(error: Exception) -> Exception:
    """Return what went wrong inside a policy, if it was that."""
    cause = error.__cause__
    return cause if isinstance(error, PolicyError) and isinstance(cause, Exception) else error
