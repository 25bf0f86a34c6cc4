"""Options that several commands share, and readers of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slacktide.core.errors import InputError, shown
from slacktide.core.units import parse_duration_hours

if TYPE_CHECKING:
    from slacktide.app.markets.market import MarketSpec
    from slacktide.app.planning.backtest import Starts
    from slacktide.core.register import Spec

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """A duration such as 90s, 15m, 2h or 1d, as hours."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration_hours(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


def gaps_option(default: str) -> Callable[[Command], Command]:
    """Add `--gaps`: how to treat a gap in a trace."""
    return click.option(
        "--gaps",
        type=click.Choice(["refuse", "hold", "empty"]),
        default=default,
        show_default=True,
        help="How to treat a gap in the trace: refuse it, hold the last quote, or assume no spot.",
    )


MARKET_OPTIONS = (
    click.option(
        "--market",
        metavar="FILE|synthetic:NAME",
        help="Market trace or market file, or synthetic:PROFILE; several with commas.",
    ),
    click.option("--pool", metavar="POOL", help="Only this pool; default: every pool of the market."),
    click.option(
        "--slot", "slot_hours", type=Duration(), help="Slot length, e.g. 30m; default: the market's."
    ),
    gaps_option("hold"),
    click.option("--spot-usd", type=float, help="Spot USD per GPU-hour, where the trace has no price."),
    click.option("--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where it has none."),
)


def market_options(command: Command) -> Command:
    """Add the options that choose a market."""
    for option in reversed(MARKET_OPTIONS):
        command = option(command)
    return command


def policy_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--policy`, which names one policy."""
    return click.option(
        "--policy",
        metavar="NAME|MODULE:CLASS",
        help=f"{meaning}. A class of your own may be in a file in this folder.",
    )


sight_option = click.option(
    "--sight",
    type=click.Choice(["feed", "tried"]),
    default="feed",
    show_default=True,
    help="What a job that moves knows of pools: what all offer, or prices and what it tried.",
)
"""The option for what a job that may move knows of its pools."""


class FileEnding(click.Path):
    """A file to write, in the format of its suffix; checked before any work is done for it."""

    def __init__(self, check: Callable[[str], object]) -> None:
        super().__init__()
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        try:
            self._check(str(path))
            _check_folder(Path(str(path)))
        except InputError as error:
            self.fail(str(error), param, ctx)
        return path


def _check_folder(path: Path) -> None:
    """Raise InputError unless the folder of a file exists: a mistyped one would silently be created."""
    if not os.path.isdir(path.parent):
        raise InputError(f"the folder of a file must exist, found no {path.parent}; make it first")


def plot_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--plot`, which writes a picture."""
    from slacktide.report.file_formats import picture_format

    return click.option(
        "--plot",
        type=FileEnding(picture_format),
        metavar="FILE.png",
        help=f"{meaning}; .svg and .pdf work too.",
    )


def report_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--report`, which writes a page."""
    from slacktide.report.file_formats import check_page

    return click.option("--report", type=FileEnding(check_page), metavar="FILE.html", help=f"{meaning}.")


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Add `-o`, which chooses between a table for people and formats for programs."""
    choice = click.Choice(formats)
    return click.option(
        "-o", "--output", type=choice, default=formats[0], show_default=True, help="Output format."
    )


def on_option(command: Command) -> Command:
    """Add `--on`, which chooses where a sweep runs."""
    return click.option(
        "--on",
        metavar="PLACE",
        help="Where to do the work: processes[:N] of this machine, or ray[:ADDRESS], a Ray cluster.",
    )(command)


def market_spec(given: Mapping[str, Any]) -> MarketSpec:
    """Return the market that the options of a command name."""
    from slacktide.app.markets.market import MarketSpec

    context = click.get_current_context(silent=True)
    by = None if context is None else context.get_parameter_source("market")
    source, usual = given["market"], None
    if by is click.core.ParameterSource.DEFAULT_MAP:  # what a job file names is stronger than a setting
        source, usual = None, source
    return MarketSpec(
        source=source,
        usual=usual,
        pool=given["pool"],
        slot_hours=given["slot_hours"],
        gaps=given["gaps"],
        spot_usd=given["spot_usd"],
        on_demand_usd=given["on_demand_usd"],
        start=given.get("start"),
    )


def parse_starts(text: str) -> Starts:
    """Read `--starts`: a number of starts, or `every:2h`."""
    from slacktide.app.planning.backtest import Starts

    if text.startswith("every:"):
        return Starts(count=None, every_hours=parse_duration_hours(text.removeprefix("every:")))
    if not text.isdecimal():
        must = "--starts must be a whole number >= 1, or every:DURATION such as every:2h"
        raise InputError(f"{must}, got {shown(text)}")
    return Starts(count=int(text))


def parse_policies(texts: tuple[str, ...], job_file: str | None = None) -> list[Spec]:
    """Read `--policy`: names or `module:Class`, separated by commas, or `{name: {parameter: value}}`.

    A class of the user's own is looked up in the current folder, then in the job file's, then on Python's
    path.
    """
    from slacktide.core.own_class import with_full_path

    folders = [Path.cwd(), *([] if job_file is None else [Path(job_file).absolute().parent])]
    return [with_full_path(spec, *folders) for text in texts for spec in _specs(text)]


def _specs(text: str) -> list[Spec]:
    import yaml

    if not text.lstrip().startswith("{"):
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        return [yaml.safe_load(text)]
    except yaml.YAMLError as error:
        must = "--policy must be names, module:Class or {name: {parameter: value}}"
        raise InputError(f"{must}, got {shown(text)}") from error


def parse_policy(text: str | None, job_file: str | None = None) -> Spec | None:
    """Read a `--policy` that names one policy; None if it is not given."""
    return next(iter(parse_policies((text,), job_file)), None) if text else None
