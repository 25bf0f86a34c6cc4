"""Options of every command, with values that their types allow and such that they do not."""

from __future__ import annotations

import random
from functools import cache

import click

from campaigns.fuzz import mutations

BASES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("backends",): (),
    ("backtest",): ("job.yaml", "--starts", "1", "--policy", "on-demand"),
    ("budget",): ("fleet.yaml",),
    ("cancel",): ("one", "--journal", "journal.db"),
    ("cost",): ("--journal", "journal.db"),
    ("events",): ("--journal", "journal.db"),
    ("jobs",): ("--journal", "journal.db"),
    ("learn",): ("--state", "learn.json"),
    ("logs",): ("one", "--journal", "journal.db"),
    ("market", "forecast"): ("market.csv", "--horizon", "2", "--forecaster", "seasonal"),
    ("market", "import"): ("market.csv", "out.csv"),
    ("market", "show"): ("market.csv",),
    ("market", "synthesize"): ("h100", "out.csv", "--days", "1"),
    ("policies",): (),
    ("preempt",): ("one", "--journal", "journal.db"),
    ("simulate",): ("fleet.yaml", "--count", "20", "--policy", "fixed-width"),
    ("speedup", "fit"): ("speedup.csv", "--group", "model"),
    ("submit",): ("job.yaml", "--no-wait", "--journal", "journal.db"),
}
"""Commands with arguments that are valid and soon done. `run`, `controller`, `demo` and `measure` would start
what they are given; they are the other campaigns'."""

LEFT_OUT = {"--help", "--follow", "--check", "--examples", "--no-wait"}
"""Options that wait for more, or do as much work as they are told to."""
VALUES = (
    *mutations.NUMBERS, *mutations.WORDS, *mutations.TIMES, "30%", "0.3", "every:2h", "every:0s", "h100-a",
    "10m", "1s",
    "0.001s", "out.png", "out.bmp", "out", "no/such/folder/out.png", "market.csv", "fleet.yaml", "job.yaml",
    "learn.json", "journal.db", "json", "csv", "table", "hold", "empty", "model=bert", "=", "a=b", "gpus",
    "one",
)  # fmt: skip


def arguments(chance: random.Random) -> list[str]:
    """Return a command with valid arguments and a few options by chance."""
    path = chance.choice(sorted(BASES))
    args = [*path, *BASES[path]]
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(path), len(args) + 1)
        args[place:place] = _option(path, chance)
    if chance.random() < 0.1:
        args[chance.randrange(len(args))] = chance.choice(VALUES)
    # The command line of a process cannot hold a zero byte.
    return [arg.replace("\x00", "") for arg in args]


def _option(path: tuple[str, ...], chance: random.Random) -> list[str]:
    known = _options(path)
    if not known or chance.random() < 0.05:
        return [chance.choice(("--nope", "-z", "--", "-", "--market=", "extra"))]
    name = chance.choice(sorted(known))
    choices = known[name]
    if choices is None:
        return [name]
    return [name, chance.choice(choices) if choices and chance.random() < 0.7 else chance.choice(VALUES)]


@cache
def _options(path: tuple[str, ...]) -> dict[str, tuple[str, ...] | None]:
    """Return the options of a command with the values they may choose from; None for a flag."""
    from slacktide.cli import slacktide

    command: click.Command | None = slacktide
    context = click.Context(slacktide)
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(context, name)
    assert command is not None
    found: dict[str, tuple[str, ...] | None] = {}
    for one in command.params:
        if isinstance(one, click.Option) and not LEFT_OUT & {*one.opts}:
            choices = tuple(one.type.choices) if isinstance(one.type, click.Choice) else ()
            found[one.opts[-1]] = None if one.is_flag else choices
    return found
