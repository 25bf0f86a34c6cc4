"""A set of workers that moves to another pool goes to the machines of that pool, and leaves the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.backends.machines.agent.messages import Host
from slacktide.core.types import Order

from .parts_of_machines import LONG_S, Cut, Site

EAST, WEST = "aws/us-east-1a", "aws/us-west-2a"
POOLS = {"a": EAST, "b": EAST, "c": "aws.us-west-2a", "d": "aws.us-west-2a"}
"""A label cannot hold a slash, so some machines say their pool with dots."""


class TwoPools(Site):
    """A few machines, each of one of two pools."""

    def begin(self) -> None:
        hosts = [Host(name, None, pool, self.gpus, "127.0.0.1") for name, pool in POOLS.items()]
        self.link = Cut(hosts, self.folder / "machines", self.owner, self.lease_s)
        self.connect()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TwoPools]:
    made = TwoPools(tmp_path, LONG_S, names="abcd")
    yield made
    made.clear()


def test_a_move_goes_to_the_machines_of_the_other_pool_and_back(site: TwoPools) -> None:
    site.run(order=Order("job", 1, EAST, 2, 0))
    site.until(lambda facts: site.carriers() == ["a", "b"])
    facts = site.hold(Order("job", 2, WEST, 2, 0))
    assert facts.pool == WEST
    site.until(lambda facts: site.carriers() == ["c", "d"])
    site.hold(Order("job", 3, EAST, 1, 0))
    site.until(lambda facts: site.carriers() in (["a"], ["b"]))
    assert site.most <= 2, "never in two places at once"


def test_a_pool_with_too_few_machines_is_waited_for_and_the_others_are_not_used(site: TwoPools) -> None:
    site.run(order=Order("job", 1, EAST, 2, 0))
    site.backend.hold(Order("job", 2, WEST, 0, 3))
    site.until(lambda facts: (facts.attempt == 2 and facts.pending_gpus == 3) or facts.trouble)
    site.until(lambda facts: not site.carriers())
    for _ in range(20):
        site.look()
    assert not site.carriers(), "machines of the pool that was left are not used for it"
