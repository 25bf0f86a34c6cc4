"""Lists the known policies, back ends, providers and price feeds, and checks them against their contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slacktide.core.errors import InputError
from slacktide.core.register import Spec

RECOMMENDED = ("stochastic-horizon", "roaming-horizon", "uniform-progress", "on-demand")
"""The policies that a user should look at first: for one pool, for several, a simple rule, no risk."""
EXPERIMENTAL = frozenset({"ahanp", "ahap", "eager-failover", "maximal-spot", "sky-nomad"})
"""Policies that papers compare with; on their own they are seldom the best choice."""
NOT_FOR_FILES = ("renter", "cloud")  # parameters of a provider that files cannot set


def known_backends() -> list[dict[str, Any]]:
    from slacktide.backends.base import backends

    return [{"name": name, "summary": backends.summary(name)} for name in backends]


def known_policies() -> dict[str, list[dict[str, Any]]]:
    """List the policies with their parameters, by group: those to choose among come first."""
    from slacktide.policies.base import policies

    names = list(policies)
    first = [name for name in RECOMMENDED if name in names]
    last = [name for name in names if name in EXPERIMENTAL]
    others = [name for name in names if name not in (*first, *last)]
    groups = {"To choose among": first, "Others": others, "Used in the experiments of papers": last}
    return {
        title: [
            {"name": name, "summary": policies.summary(name), "parameters": policies.parameters(name)}
            for name in group
        ]
        for title, group in groups.items()
    }


def known_providers() -> list[dict[str, Any]]:
    """List the providers with the settings that a machines file may give."""
    from slacktide.providers.base import providers

    def settings(name: str) -> dict[str, Any]:
        return {key: usual for key, usual in providers.parameters(name).items() if key not in NOT_FOR_FILES}

    return [
        {"name": name, "summary": providers.summary(name), "parameters": settings(name)} for name in providers
    ]


def known_feeds() -> list[dict[str, Any]]:
    """List the sources of live prices with the settings that may follow their name."""
    from slacktide.market.live.base import feeds

    def settings(name: str) -> list[str]:
        return [key for key in feeds.parameters(name) if key != "what"]

    return [{"name": name, "summary": feeds.summary(name), "settings": settings(name)} for name in feeds]


def check_backend_named(name: str) -> None:
    """Check a back end against the contract; raises InputError with the first rule that it breaks."""
    from slacktide.backends.base import backends
    from slacktide.checks import check_backend

    make = backends.get(name)
    with _kept_by(name):
        check_backend(make)


def check_policy_named(name: str, spec: Spec, examples: int) -> None:
    """Check a policy against the contract; raises InputError with the first rule that it breaks."""
    from slacktide.checks import check_policy
    from slacktide.policies.base import policies

    with _kept_by(name):
        check_policy(policies.make(spec), examples=examples)


def check_provider_of(file: str, provider: Callable[..., Any], spec: Any) -> None:
    """Check the provider of a machines file against the contract; raises InputError as the others do."""
    from slacktide.checks import check_provider

    with _kept_by(f"the provider of {file}"):
        check_provider(provider, spec)


def check_feed_named(spec: str, zones: Sequence[str]) -> None:
    """Check a source of live prices against the contract; raises InputError as the others do."""
    from slacktide.checks.price_feed import check_feed
    from slacktide.market.live.base import open_feed

    with _kept_by(spec):
        check_feed(open_feed(spec), zones)


@contextmanager
def _kept_by(name: str) -> Iterator[None]:
    from slacktide.checks import CheckFailed

    try:
        yield
    except CheckFailed as error:
        raise InputError(f"{name} does not keep the contract: {error}") from error
