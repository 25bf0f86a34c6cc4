"""Trouble of one job, which is no other job's: a secret, a run folder, a market or a feed that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from campaigns.faults.play import BYSTANDER, ENDLESS, VICTIM, Play, with_more
from campaigns.finding import Finding
from campaigns.stage.market import Offer

FEED_SLOTS = 50
"""What a feed holds when jobs come; a row is added now and then."""
SECRET = "SLACKTIDE_CAMPAIGN_TOKEN"


def a_secret_is_missing(play: Play) -> None:
    """The next controller lacks a job's secret: the others go on; it can be cancelled, or goes on later."""
    play.begin(with_more(play.task(VICTIM), f"secrets: {{{SECRET}: }}\n"), **{SECRET: "canary"})
    play.kill_controller()
    play.resume()
    play.arena.wait_for_end(BYSTANDER)
    if play.rng.random() < 0.5:
        if not play.arena.statuses()[VICTIM]:  # its workers may have gone on to their end
            play.cancel(VICTIM)
        play.end(victim=play.arena.statuses()[VICTIM])
    else:
        play.arena.let_go()
        play.resume(**{SECRET: "canary"})
        play.end()
    _nobody_says("canary", play)


def _nobody_says(secret: str, play: Play) -> None:
    for path in (
        play.arena.folder.glob("*.out"),
        play.arena.folder.glob("*.err"),
        play.arena.folder.glob("journal.db*"),
    ):
        for one in path:
            if secret.encode() in one.read_bytes():
                raise Finding(f"{one.name} holds the value of a secret")


def a_run_folder_is_broken(play: Play) -> None:
    """The folder of one job is removed, or is no folder any more, with the controller there or not."""
    play.begin()
    away = play.rng.random() < 0.5
    if away:
        play.kill_controller()
    _break(play, play.arena.folder / "journal.runs" / VICTIM)
    if away:
        play.resume()
    play.arena.wait_for_end(BYSTANDER)
    if not play.arena.statuses()[VICTIM]:
        play.cancel(VICTIM)
    play.end(victim=play.arena.statuses()[VICTIM])


def _break(play: Play, folder: Path) -> None:
    way = play.rng.choice(["removed", "a file", "damaged notes"])
    if way == "damaged notes":
        for note in folder.rglob("attempt.json"):
            note.write_bytes(b"\xff{")
        return
    shutil.rmtree(folder, ignore_errors=True)
    if way == "a file":
        folder.write_text("in its place", encoding="utf-8")


def a_market_is_removed(play: Play) -> None:
    """The market's file goes while jobs run: they can be cancelled, and go on when it is back."""
    play.begin(play.task(VICTIM, units=ENDLESS))
    hidden = play.arena.market.with_suffix(".hidden")
    play.arena.market.rename(hidden)
    play.pause(0.0, 1.5)
    play.kill_controller()
    play.resume()
    play.cancel(VICTIM)
    hidden.rename(play.arena.market)
    play.arena.let_go()
    play.resume()
    play.end(victim="cancelled")


def a_feed_misbehaves(play: Play) -> None:
    """A live feed vanishes, is cut or damaged, and comes back; its last good rows are used meanwhile."""
    play.arena.market_name = f"feed:{play.arena.market}"
    play.arena.offer([Offer()], FEED_SLOTS)
    play.begin()
    for slots in range(FEED_SLOTS, FEED_SLOTS + play.rng.randint(1, 3)):
        _spoil(play, play.arena.market.read_bytes())
        play.pause(0.2, 1.5)
        play.arena.offer([Offer()], slots + 1)
        play.pause(0.0, 0.5)
    play.end()


def _spoil(play: Play, good: bytes) -> None:
    way, path = play.rng.choice(["gone", "cut", "damaged", "empty", "bytes", "other"]), play.arena.market
    if way == "gone":
        path.unlink()
    elif way == "other":
        play.arena.offer([Offer(1, 3.0, 9.0)], FEED_SLOTS // 2)
    else:
        spoilt = {
            "cut": good[: play.rng.randrange(len(good))],
            "damaged": good + b"2030-01-01T00:00:00+00:00,zone,many,2.0,x\n",
            "empty": b"",
            "bytes": good[:200] + bytes(play.rng.randrange(256) for _ in range(200)) + good[400:],
        }
        path.write_bytes(spoilt[way])


PLAYS = (a_secret_is_missing, a_run_folder_is_broken, a_market_is_removed, a_feed_misbehaves)
