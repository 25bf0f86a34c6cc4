"""A keeper writes before it asks and before it ends, is patient with lists, and keeps the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slacktide.journal.events import Joined, Leaked, Reclaimed, Rented, Returned
from slacktide.journal.state.tickets import MachineKind, MemoryMachineLog
from slacktide.providers.base import (
    Machine,
    MachineState,
    NoCapacity,
    Refused,
    Rules,
    Spent,
    Stock,
    Unreachable,
    Use,
)
from slacktide.providers.reconciler import Reconciler

SPOT, ON_DEMAND = MachineKind("spot", "a", 8), MachineKind("on-demand", "a", 8)
MINUTE = 1.0 / 60.0
RULES = Rules(usd_per_hour={("spot", "a"): 10.0, ("on-demand", "a"): 30.0})


class Scripted:
    """A provider that answers as a test says, and writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended: list[list[str]] = []
        self.list: list[Machine] | Exception = []
        self.answers: list[Exception | None] = []
        self.end_answer: Exception | None = None

    def rent(self, ticket: str, spec: MachineKind) -> None:
        self.asked.append(ticket)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    def end(self, ids: Sequence[str]) -> None:
        self.ended.append(list(ids))
        if self.end_answer is not None:
            raise self.end_answer

    def machines(self) -> Sequence[Machine]:
        if isinstance(self.list, Exception):
            raise self.list
        return list(self.list)


class Bench:
    """A keeper on a scripted provider, stepped by the minute."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.provider, self.diary, self.minute = Scripted(), MemoryMachineLog(), 0.0
        self.keeper = Reconciler(self.provider, self.diary, rules, token="x")

    def step(self, want: dict[MachineKind, int], minutes: float = 1.0, use: Use | None = None) -> Stock:
        stock = self.keeper.step(want, self.minute * MINUTE, use or Use())
        self.minute += minutes
        return stock

    def show(self, *machines: tuple[str, MachineState]) -> None:
        """Let these tickets have machines of these states."""
        self.provider.list = [
            Machine(f"i-{ticket}", ticket, SPOT, state, f"ip-{ticket}") for ticket, state in machines
        ]

    @property
    def open(self) -> list[str]:
        return list(self.diary.tickets().open)

    @property
    def reasons(self) -> list[str]:
        return [fact.why for fact in self.diary.facts if isinstance(fact, Returned)]


def test_a_machine_comes_joins_and_goes() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    assert bench.provider.asked == ["1-x"]
    bench.show(("1-x", "starting"))
    assert list(bench.step({SPOT: 1}).machines) == ["1-x"]
    bench.show(("1-x", "up"))
    bench.step({SPOT: 1})
    bench.step({})
    assert bench.provider.ended == [["i-1-x"]]
    rented, joined, returned = bench.diary.facts
    assert rented == Rented(at_hours=0.0, ticket="1-x", capacity="spot", pool="a", gpus=8, usd_per_hour=10.0)
    assert isinstance(joined, Joined)
    assert (joined.machine, joined.address) == ("i-1-x", "ip-1-x")
    assert joined.boot_hours == pytest.approx(2 * MINUTE)
    assert isinstance(returned, Returned)
    assert returned.why == "not wanted any more"
    assert returned.left


def test_an_answered_ticket_that_is_not_listed_yet_is_neither_doubled_nor_asked_again() -> None:
    bench = Bench()
    for _ in range(4):
        bench.step({SPOT: 1})
    assert bench.provider.asked == ["1-x"]
    bench.step({SPOT: 1})
    bench.step({SPOT: 1})
    assert bench.provider.asked == ["1-x", "1-x"], "asked again, by the same ticket"


def test_what_was_promised_and_never_comes_is_given_up() -> None:
    bench = Bench()
    for _ in range(17):
        bench.step({SPOT: 1})
    assert bench.reasons == ["it was never listed within 16 min"]
    assert bench.open == ["2-x"]


def test_a_lost_answer_is_asked_again_with_the_same_ticket() -> None:
    bench = Bench()
    bench.provider.answers = [Unreachable("lost")]
    assert "lost" in bench.step({SPOT: 3}).trouble
    assert bench.provider.asked == ["1-x"], "nothing more is asked of a provider that does not answer"
    bench.step({SPOT: 1})
    assert bench.provider.asked == ["1-x", "1-x"]
    assert bench.open == ["1-x"]


def test_a_keeper_that_knows_only_the_journal_asks_for_open_tickets_and_names_none_twice() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.keeper = Reconciler(bench.provider, bench.diary, RULES, token="y")
    bench.step({SPOT: 2})
    assert bench.provider.asked == ["1-x", "1-x", "2-y"]


def test_no_capacity_is_told_and_waited_out_longer_each_time() -> None:
    bench = Bench()
    bench.provider.answers = [NoCapacity("full")] * 100
    told = [len(bench.step({SPOT: 3}, minutes=0.5).full) for _ in range(120)]
    times = [minute / 2 for minute, full in enumerate(told) if full]
    assert times == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5, 45.5, 55.5]
    assert bench.open == []
    bench.provider.answers = []
    bench.minute = 66.0
    bench.step({SPOT: 3})
    assert len(bench.open) == 3, "once one is to be had, all are asked for"


def test_a_full_pool_keeps_nobody_from_another() -> None:
    bench = Bench()
    bench.provider.answers = [NoCapacity("full")]
    assert bench.step({SPOT: 2, ON_DEMAND: 1}).full == (SPOT,)
    assert [ticket.spec for ticket in bench.diary.tickets().open.values()] == [ON_DEMAND]


def test_what_the_market_takes_is_closed_with_its_reason_and_replaced() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.provider.list = [Machine("i-1", "1-x", SPOT, "gone", why="interrupted")]
    bench.step({SPOT: 1})
    assert bench.reasons == ["interrupted"]
    assert bench.open == ["2-x"]
    assert bench.provider.ended == []


def test_one_that_was_gone_and_is_listed_again_is_ended() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.show(("1-x", "gone"))
    bench.step({})
    bench.show(("1-x", "up"))
    bench.step({})
    assert bench.provider.ended == [["i-1-x"]]


def test_an_end_is_asked_for_again_at_once_when_nobody_answered_and_else_after_a_while() -> None:
    bench = Bench()
    bench.show(("old", "up"))
    bench.provider.end_answer = Unreachable("lost")
    assert "could not be ended" in bench.step({}, minutes=0.1).trouble
    bench.provider.end_answer = None
    bench.step({}, minutes=0.1)
    bench.step({}, minutes=0.5)
    assert len(bench.provider.ended) == 2
    bench.step({})
    assert len(bench.provider.ended) == 3


def test_a_second_machine_of_one_ticket_is_ended() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.provider.list = [Machine(name, "1-x", SPOT, "up") for name in ("i-2", "i-1")]
    bench.step({SPOT: 1})
    assert bench.provider.ended == [["i-2"]]


def test_a_machine_that_never_joins_is_given_back_and_asked_for_anew_after_a_wait() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.show(("1-x", "up"))
    for _ in range(16):
        bench.step({SPOT: 1}, use=Use(ready=()))
    assert bench.open == ["1-x"]
    bench.step({SPOT: 1}, use=Use(ready=()))
    assert bench.reasons == ["it did not join within 15 min"]
    assert bench.provider.ended == [["i-1-x"]]
    assert bench.open == []
    bench.step({SPOT: 1}, use=Use(ready=()))
    assert bench.open == ["2-x"]


def test_one_that_joined_and_vanishes_from_the_list_is_given_up_and_never_asked_for_again() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.show(("1-x", "up"))
    bench.step({SPOT: 1})
    bench.show()
    bench.step({SPOT: 1}, minutes=4.5)
    assert not bench.reasons
    bench.step({SPOT: 1})
    assert bench.reasons == ["it was not listed any more for 5.5 min"]
    assert bench.provider.asked == ["1-x", "2-x"]


def test_who_goes_when_there_are_too_many() -> None:
    bench = Bench()
    bench.step({SPOT: 4})
    bench.show(*((f"{number}-x", "up") for number in range(1, 5)))
    bench.step({SPOT: 4})
    bench.step({SPOT: 2}, use=Use(busy=("4-x",)))
    assert bench.open == ["1-x", "4-x"], "the newest, and nobody who is busy"
    bench.step({}, use=Use(busy=("1-x", "4-x")))
    assert bench.open == ["1-x", "4-x"]
    bench.step({SPOT: 2}, use=Use(unfit={"4-x": "its node left"}))
    assert bench.open == ["1-x", "5-x"]
    assert bench.reasons[-1] == "its node left"


def test_the_limits_count_what_is_open_what_ends_and_what_a_late_list_may_hide() -> None:
    bench = Bench(replace(RULES, max_machines=2))
    assert "max_machines is 2" in bench.step({SPOT: 3}).trouble
    assert len(bench.open) == 2
    bench.step({ON_DEMAND: 1})
    assert bench.open == [], "they were closed and may have machines"
    bench.show(("1-x", "ending"), ("2-x", "gone"))
    bench.step({ON_DEMAND: 2})
    assert len(bench.open) == 1
    bench.show(("1-x", "gone"), ("2-x", "gone"))
    assert not bench.step({ON_DEMAND: 2}).trouble
    assert len(bench.open) == 2


def test_no_more_is_spent_an_hour_than_is_said() -> None:
    bench = Bench(replace(RULES, max_usd_per_hour=50.0))
    assert "max_usd_per_hour is 50, and 40 are spent" in bench.step({SPOT: 1, ON_DEMAND: 2}).trouble
    assert len(bench.open) == 2


@pytest.mark.parametrize("answer", [Spent("gone"), Refused("wrong credentials")])
def test_a_final_no_closes_the_ticket(answer: Exception) -> None:
    bench = Bench()
    bench.provider.answers = [answer]
    stock = bench.step({SPOT: 1})
    assert bench.reasons[0] in ("its machine has come and gone", "refused: wrong credentials")
    assert ("wrong credentials" in stock.trouble) == isinstance(answer, Refused)
    assert not stock.full


def test_nothing_is_done_while_the_machines_cannot_be_listed() -> None:
    bench = Bench()
    bench.provider.list = Unreachable("throttled")
    stock = bench.step({SPOT: 1})
    assert (stock.listed, bench.provider.asked, bench.diary.facts) == (False, [], [])
    assert stock.trouble == "the machines could not be listed: throttled"


def test_a_clock_that_is_set_keeps_nobody_waiting() -> None:
    bench = Bench()
    bench.minute = 6000.0
    bench.provider.answers = [NoCapacity("full")]
    bench.step({SPOT: 1})
    bench.minute = 0.0
    bench.diary.tickets().set_clock(0.0)
    bench.step({SPOT: 1})
    assert len(bench.open) == 1


def test_a_memory_of_months_stays_small() -> None:
    bench = Bench()
    for number in range(600):
        bench.show((f"old-{number}", "up"))
        bench.step({}, minutes=11)
    memory = bench.keeper._memory
    assert max(len(memory.seen_hours), len(memory.alive_hours), len(memory.retries._until)) < 300


def test_a_machine_that_will_not_end_has_leaked_and_that_is_told_once() -> None:
    bench = Bench()
    bench.show(("9-other", "up"))
    for _ in range(11):
        bench.step({})
    assert bench.diary.facts == [], "ending a machine takes a while"
    for _ in range(20):
        bench.step({})
    (leaked,) = bench.diary.facts
    assert isinstance(leaked, Leaked)
    assert (leaked.machine, leaked.ticket, leaked.usd_per_hour) == ("i-9-other", "9-other", 10.0)
    assert leaked.stray_hours == pytest.approx(11 * MINUTE)
    assert (
        leaked.why == "no ticket of this journal is for it, and it still runs 11 min after it was to be ended"
    )
    again = Reconciler(bench.provider, bench.diary, RULES)
    for minute in range(30):
        again.step({}, minute * MINUTE)
    assert len(bench.diary.facts) == 1, "the journal knows, whoever keeps the machines now"
    bench.show(("9-other", "ending"))
    bench.step({})
    assert [type(fact) for fact in bench.diary.facts] == [Leaked, Reclaimed]
    assert bench.diary.tickets().leaked == {}


def test_a_machine_that_ends_in_time_has_not_leaked() -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.show(("1-x", "up"))
    bench.step({SPOT: 1})
    for _ in range(9):
        bench.step({})
    bench.show(("1-x", "gone"))
    for _ in range(9):
        bench.step({})
    assert [type(fact) for fact in bench.diary.facts] == [Rented, Joined, Returned]
