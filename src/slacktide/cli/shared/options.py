"""Options that several commands share: how their values are parsed, and the requests made from them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slacktide.core.errors import InputError, shown
from slacktide.core.units import parse_duration_hours
from slacktide.report.file_formats import check_page, picture_format

if TYPE_CHECKING:
    from slacktide.app.markets.market import MarketSpec
    from slacktide.app.planning.backtest import Starts
    from slacktide.app.task_requests import BacktestRequest, LearnRequest, PlanRequest
    from slacktide.core.register import Spec

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one, which `--help` lists in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


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
        help="How to treat a gap in the trace: refuse it, hold the last quote, or assume no spot.",
    )


slot_option = click.option(
    "--slot", "slot_hours", type=Duration(), help="Slot length, e.g. 30m; default: the market's."
)
market_options = together(
    click.option(
        "--market",
        metavar="FILE|synthetic:NAME",
        help="Market trace or market file, or synthetic:PROFILE; several with commas.",
    ),
    click.option("--pool", metavar="POOL", help="Only this pool; default: every pool of the market."),
    slot_option,
    gaps_option("hold"),
    click.option("--spot-usd", type=float, help="Spot USD per GPU-hour, where the trace has no price."),
    click.option("--on-demand-usd", type=float, help="On-demand USD per GPU-hour, where it has none."),
)
"""The options that choose a market."""


def policy_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--policy`, which names one policy."""
    return click.option(
        "--policy",
        metavar="NAME|MODULE:CLASS",
        help=f"{meaning}. A class of your own may be in a file in this folder.",
    )


def policies_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--policy`, which names several policies."""
    return click.option("--policy", multiple=True, metavar="A,B,...", help=meaning)


def sight_option(
    meaning: str = "What a job that moves knows about pools: all offers, or prices and what it tried.",
) -> Callable[[Command], Command]:
    """Add `--sight`: what a job that may move knows about its pools."""
    choice = click.Choice(["feed", "tried"])
    return click.option("--sight", type=choice, default="feed", help=meaning)


class FileEnding(click.Path):
    """A file to write, in the format of its suffix; both are checked before any work is done."""

    def __init__(self, check: Callable[[str], object]) -> None:
        super().__init__()
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        folder = Path(str(path)).parent
        try:
            self._check(str(path))
            if not os.path.isdir(folder):  # otherwise a mistyped folder would silently be created
                raise InputError(f"the folder of a file must exist, found no {folder}; make it first")
        except InputError as error:
            self.fail(str(error), param, ctx)
        return path


def plot_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--plot`, which writes a picture."""
    kind, words = FileEnding(picture_format), f"{meaning}; .svg and .pdf work too."
    return click.option("--plot", type=kind, metavar="FILE.png", help=words)


def report_option(meaning: str) -> Callable[[Command], Command]:
    """Add `--report`, which writes a page."""
    return click.option("--report", type=FileEnding(check_page), metavar="FILE.html", help=f"{meaning}.")


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Add `-o`, which chooses between a table for people and formats for programs."""
    choice = click.Choice(formats)
    return click.option("-o", "--output", type=choice, default=formats[0], help="Output format.")


on_option = click.option(
    "--on",
    metavar="PLACE",
    help="Where to do the work: processes[:N] of this machine, or ray[:ADDRESS], a Ray cluster.",
)
"""The option that chooses where the many runs of a back-test or of `learn` are computed."""


def market_spec(given: Mapping[str, Any]) -> MarketSpec:
    """Return the market that the options of a command name."""
    from slacktide.app.markets.market import MarketSpec

    context = click.get_current_context(silent=True)
    by = None if context is None else context.get_parameter_source("market")
    source, usual = given["market"], None
    if by is click.core.ParameterSource.DEFAULT_MAP:  # a market in the job file is stronger than a setting
        source, usual = None, source
    names = ("pool", "slot_hours", "gaps", "spot_usd", "on_demand_usd")
    return MarketSpec(
        source=source, usual=usual, start=given.get("start"), **{name: given[name] for name in names}
    )


def parse_policies(texts: tuple[str, ...], job_file: str | None = None) -> list[Spec]:
    """Read `--policy`: names or `module:Class`, separated by commas, or `{name: {parameter: value}}`.

    A class of the user's own is looked up in the current folder, then in the job file's, then on Python's
    path.
    """
    from slacktide.core.own_class import with_full_path

    folders = [Path.cwd(), *([] if job_file is None else [Path(job_file).absolute().parent])]
    must = "--policy must be names, module:Class or {name: {parameter: value}}"
    return [with_full_path(spec, *folders) for spec in parse_specs(texts, must)]


def parse_specs(texts: tuple[str, ...], must: str) -> list[Spec]:
    """Read names separated by commas, or `{name: {parameter: value}}`; `must` begins the error messages."""
    import yaml

    found: list[Spec] = []
    for text in texts:
        if not text.lstrip().startswith("{"):
            found += [name.strip() for name in text.split(",") if name.strip()]
            continue
        try:
            found.append(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InputError(f"{must}, got {shown(text)}") from error
    return found


def parse_policy(text: str | None, job_file: str | None = None) -> Spec | None:
    """Read a `--policy` that names one policy; None if it is not given."""
    return next(iter(parse_policies((text,), job_file)), None) if text else None


def plan_request(job: str, given: Mapping[str, Any]) -> PlanRequest:
    """Return the request for a plan of a job file."""
    from slacktide.app.task_requests import PlanRequest

    policy = written(parse_policy(given["policy"], job))
    return PlanRequest(**as_it_is(job), policy=policy, start=given.get("start"))


def backtest_request(job: str, given: Mapping[str, Any]) -> BacktestRequest:
    """Return the request for a back-test of a job file."""
    from slacktide.app.task_requests import BacktestRequest

    starts = _starts(given["starts"])
    policies = (written(policy) for policy in parse_policies(given["policy"], job))
    return BacktestRequest(
        **as_it_is(job),
        policies=tuple(policy for policy in policies if policy is not None),
        starts=starts.count,
        every_hours=starts.every_hours,
        truth=given["truth"],
        sight=given["sight"],
    )


def _starts(text: str) -> Starts:
    """Read `--starts`: a number of starts, or `every:2h`."""
    from slacktide.app.planning.backtest import Starts

    if text.startswith("every:"):
        return Starts(count=None, every_hours=parse_duration_hours(text.removeprefix("every:")))
    if not text.isdecimal():
        must = "--starts must be a whole number >= 1, or every:DURATION such as every:2h"
        raise InputError(f"{must}, got {shown(text)}")
    return Starts(count=int(text))


def learn_request(job: str, given: Mapping[str, Any]) -> LearnRequest:
    """Return the request to train the choice among policies with a job file."""
    from slacktide.app.task_requests import LearnRequest

    return LearnRequest(**as_it_is(job), **{name: given[name] for name in ("jobs", "seed", "pool_of")})


def written(policy: object) -> str | None:
    """Return a policy as JSON, the form in which requests contain it; None for None."""
    return None if policy is None else json.dumps(policy)


def as_it_is(job: str) -> dict[str, Any]:
    """Return the text and name of a job file, with its whole path: other files are looked up from there."""
    from slacktide.core.yaml_tree import read_text

    return {"text": read_text(job), "name": job}
