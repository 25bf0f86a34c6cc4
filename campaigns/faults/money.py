"""The maximum cost of a job, kept though prices rise, slots are short or somebody else is slow."""

from __future__ import annotations

from dataclasses import replace

from campaigns.faults.play import BYSTANDER, ENDLESS, VICTIM, Play, with_more
from campaigns.finding import Finding
from campaigns.stage.arena import Task
from campaigns.stage.commands import Command, tail
from campaigns.stage.market import REHEARSAL, Offer
from campaigns.waiting import wait_until


def a_price_rises_when_the_money_ends(play: Play) -> None:
    """The next slot is many times as expensive; the reserve for the grace was made for the worst of them."""
    high_usd = play.rng.choice([4.0, 8.0])
    play.arena.offer([Offer(3, 2.0, 10.0), Offer(3, high_usd, 12.0)])
    max_cost_usd = play.rng.uniform(8.0, 30.0)
    task = with_more(play.task(VICTIM, units=ENDLESS), f"max_cost: {max_cost_usd:.2f} usd\n")
    _to_the_end(play, task, max_cost_usd)


def _to_the_end(play: Play, task: Task, max_cost_usd: float) -> None:
    play.hand_in(task)
    play.hand_in(play.task(BYSTANDER))
    play.arena.take_charge()
    play.end(victim="budget_exhausted")
    play.kept_to(VICTIM, max_cost_usd)


def the_money_ends_after_a_resume(play: Play) -> None:
    """A new controller knows what was spent before it came."""
    max_cost_usd = play.rng.uniform(20.0, 60.0)
    task = with_more(play.task(VICTIM, units=ENDLESS), f"max_cost: {max_cost_usd:.2f} usd\n")
    play.hand_in(task)
    play.hand_in(play.task(BYSTANDER))
    play.arena.take_charge()
    play.arena.wait_for_progress(VICTIM, 1)
    play.arena.let_go()
    play.pause()
    play.resume()
    play.end(victim="budget_exhausted")
    play.kept_to(VICTIM, max_cost_usd)


def slots_are_shorter_than_steps(play: Play) -> None:
    """At such a speed limits are kept and requests are heard all the same, or the speed is refused."""
    play.arena.pace = REHEARSAL._replace(speed=play.rng.choice([36_000.0, 180_000.0]))
    play.arena.offer([Offer()])
    max_cost_usd = 400.0
    names = [f"fast-{number}" for number in range(4)]
    for name in names:
        task = replace(play.task(name, units=ENDLESS), policy="on-demand")
        play.hand_in(with_more(task, f"max_cost: {max_cost_usd:.2f} usd\n"))
    if _refused(play, play.arena.take_charge()):
        return
    if not play.arena.statuses().get(names[0]):
        play.ask("cancel", names[0])
    play.arena.wait_for_end()
    play.arena.let_go()
    for name in names:
        play.kept_to(name, max_cost_usd)


def _refused(play: Play, controller: Command) -> bool:
    """Whether a controller says that it cannot go so fast, in the right way."""
    begun = play.arena.statuses
    wait_until(lambda: controller.code is not None or bool(begun()), "a fast controller to begin")
    if controller.code is None:
        return False
    if controller.code != 2:
        raise Finding(f"a controller that is too fast exited with {controller.code}: {tail(controller.err)}")
    play.arena.controller = None
    return True


PLAYS = (a_price_rises_when_the_money_ends, the_money_ends_after_a_resume, slots_are_shorter_than_steps)
