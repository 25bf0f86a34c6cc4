"""What machines can give bounds what is decided, and rented machines keep a controller from ending."""

from __future__ import annotations

import itertools

from slacktide.backends.base import PoolRoom
from slacktide.core.errors import BackendError
from slacktide.engine.clock import Clock
from slacktide.engine.engine import live

from .parts_of_machines import Bench, Machine, context

WIDTHS = (1, 2, 3, 4)


class Small(Machine):
    """A back end that has only so much."""

    def __init__(self, room: PoolRoom) -> None:
        super().__init__()
        self.has = room

    def room(self, pool: str) -> PoolRoom:
        return self.has


def bench(policy: str, room: PoolRoom) -> Bench:
    made = Bench(context(policy, widths=WIDTHS))
    made.machine = Small(room)
    made.reopened()
    return made


def test_spot_is_ordered_as_far_as_there_are_machines() -> None:
    one = bench("maximal-spot", PoolRoom(spot_gpus=2))
    one.step(0.0)
    assert (one.machine.orders[-1].spot_gpus, one.machine.orders[-1].on_demand_gpus) == (2, 0)
    assert isinstance(one.machine, Small)
    one.machine.has = PoolRoom(spot_gpus=9)
    one.step(0.5)
    assert one.machine.orders[-1].spot_gpus == 4


def test_spot_makes_up_for_on_demand_machines_that_are_not_there() -> None:
    one = bench("on-demand", PoolRoom(on_demand_gpus=1))
    one.step(0.0)
    assert (one.machine.orders[-1].spot_gpus, one.machine.orders[-1].on_demand_gpus) == (1, 1)


def test_where_nobody_knows_the_market_alone_counts() -> None:
    one = bench("on-demand", PoolRoom())
    one.step(0.0)
    assert (one.machine.orders[-1].spot_gpus, one.machine.orders[-1].on_demand_gpus) == (0, 2)


class Rents(Machine):
    """A back end whose machines are given back after some looks."""

    def __init__(self) -> None:
        super().__init__()
        self.left = itertools.chain([2] * 30, itertools.repeat(0))
        self.renting_trouble = "the cloud does not answer"

    @property
    def rented(self) -> int:
        return next(self.left)


def test_nothing_ends_before_machines_are_given_back_and_why_not_is_said() -> None:
    one = Bench(context("on-demand"))
    one.machine = Rents()
    one.reopened()
    one.step(0.0)
    one.machine.says(finished=True, gone=True, until_hours=0.1, spot_gpus=0, on_demand_gpus=0)
    said: list[BackendError] = []
    time_s = itertools.count(0.0, 6.0)
    live(
        one.engine, Clock(1.0, 0.2), complain=said.append, sleep=lambda _: None,
        monotonic=lambda: next(time_s), poll_s=0.0,
    )  # fmt: skip
    assert one.record.ended is not None
    assert len(said) == 1
    assert "2 machines must be given back" in str(said[0])
    assert "the cloud does not answer" in str(said[0])
    assert next(one.machine.left) == 0
