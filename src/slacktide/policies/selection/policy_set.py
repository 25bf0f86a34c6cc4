"""Sets of policies to learn from, as specs and names; the policies are made where they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.errors import InputError, shown
from slacktide.core.own_class import Spec
from slacktide.core.register import extension

if TYPE_CHECKING:
    from slacktide.policies.selection.hedge import Hedge

AUTO = "auto"  # what users write for the learned choice: `policy: auto`
DEFAULT_POLICIES: tuple[str, ...] = ("on-demand", "maximal-spot", "uniform-progress", "stochastic-horizon")
"""The policies that plans and back-tests compare unless others are requested."""


def ahap(window: int, commitment: int, price_threshold: float) -> Spec:
    """Return the spec of one AHAP."""
    return {"ahap": {"window": window, "commitment": commitment, "price_threshold": price_threshold}}


def ahanp(price_threshold: float) -> Spec:
    """Return the spec of one AHANP."""
    return {"ahanp": {"price_threshold": price_threshold}}


FAVOURITE = "stochastic-horizon"
AUTO_SET: tuple[Spec, ...] = (
    FAVOURITE,
    "uniform-progress",
    "maximal-spot",
    "on-demand",
    ahap(3, 1, 0.5),
    ahap(5, 1, 0.7),
    ahap(2, 1, 0.9),
    ahap(5, 2, 0.5),
    ahanp(0.4),
    ahanp(0.8),
)
"""What `policy: auto` chooses from: few enough to be learned in weeks, different enough to matter."""

FAVOURITE_SHARE = 0.5  # the favourite's share in the prior; the others share the rest


def policy_set(name: str) -> tuple[Spec, ...]:
    """Return a set by its name: `auto`, or one from another package; raises InputError if there is none."""
    if name == AUTO:
        return AUTO_SET
    found: tuple[Spec, ...] = extension("slacktide.policy_sets", name, "the set of policies")
    return found


def prior_of(names: tuple[str, ...]) -> dict[str, float]:
    """Return the prior: half for the favourite if it is in the set, the rest in equal shares."""
    if FAVOURITE not in names or len(names) == 1:
        return dict.fromkeys(names, 1.0 / len(names))
    rest = (1.0 - FAVOURITE_SHARE) / (len(names) - 1)
    return {name: FAVOURITE_SHARE if name == FAVOURITE else rest for name in names}


def fresh(specs: Sequence[Spec] = AUTO_SET) -> Hedge:
    """Return a learner over a set that has learned nothing yet."""
    from slacktide.policies.selection.hedge import Hedge

    names = tuple(name_of(spec) for spec in specs)
    return Hedge(names, prior=prior_of(names))


def name_of(spec: Spec) -> str:
    """Return an arm's name: `ahap(window=3,commitment=1,price_threshold=0.5)`."""
    if isinstance(spec, str):
        return spec
    ((name, parameters),) = spec.items()
    words = ",".join(f"{key}={value!r}" for key, value in (parameters or {}).items())
    return f"{name}({words})" if words else str(name)


def spec_of(name: str) -> Spec:
    """Return the spec that an arm's name stands for; raises InputError when it is not one."""
    found = re.fullmatch(r"([^()]+)(?:\((.*)\))?", name)
    if found is None:
        raise InputError(f"an arm must be named name(parameter=value,...), got {shown(name)}")
    return {found[1]: _parameters(name, found[2])} if found[2] else found[1]


def _parameters(name: str, text: str) -> Mapping[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args:
            raise ValueError("a parameter without a name")
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError) as error:
        raise InputError(
            f"an arm must be named name(parameter=value,...), got {shown(name)}: {error}"
        ) from None
