"""The command line: turns arguments into requests, and results into text or JSON.

Nothing but click is imported until a command runs, so that `slacktide --help` is instant.
"""

from __future__ import annotations

import errno
import importlib
import io
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slacktide.core.errors import BackendError, InputError, SlacktideError, readable, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = {
    "alerts": ("server", "Try the hooks of an alerts file, or show what they were sent and what is waiting."),
    "backends": ("machines", "List the back ends, where jobs can run, or check one against the contract."),
    "backtest": ("planning", "Compare policies on past market data, next to a run with perfect foresight."),
    "budget": (
        "fleets",
        "Compute how wide each class of a fleet should run, and what the next dollar would buy.",
    ),
    "cancel": ("jobs", "Cancel a job."),
    "cluster": ("machines", "Start, show and end a local Ray cluster, to try Slacktide on several machines."),
    "completion": ("setup", "Print or install the script that completes commands and options in a shell."),
    "config": ("config", "Show every setting and where it comes from, or set one."),
    "controller": ("server", "Run the jobs submitted to a journal, until stopped."),
    "cost": ("jobs", "Print and audit the bill of a job or of a whole journal."),
    "demo": ("setup", "Train a real job on a replayed spot market, in about a minute."),
    "doctor": ("setup", "Look for what Slacktide needs on this machine; say how to get what is missing."),
    "events": ("jobs", "Show what happened to a job, who did it and why."),
    "examples": ("setup", "List the examples that ship with Slacktide, or copy one."),
    "fleet": ("fleets", "Make a fleet file from a table of past jobs."),
    "init": ("planning", "Write a commented job or fleet file to start from."),
    "jobs": ("jobs", "List the jobs of a journal with their status."),
    "learn": ("policies", "Show which policies have earned trust, or train the choice on past market data."),
    "logs": ("jobs", "Print the output of a job's workers."),
    "machines": ("machines", "List what is rented, and end machines that no journal explains."),
    "market": ("market", "Show, import and synthesize spot markets."),
    "measure": ("planning", "Run a job for some minutes at each width; print its work, speedup and restart."),
    "plan": ("planning", "Estimate what a job would cost and when it would finish; spends nothing."),
    "policies": ("policies", "List the policies, or check one against the contract."),
    "preempt": ("jobs", "Take spot workers from a job, as the market would."),
    "providers": ("machines", "List the providers of machines, or check one against the contract."),
    "run": ("run", "Run jobs; ends with the bill, next to on demand and the clairvoyant."),
    "serve": ("server", "Run the jobs of a journal with an HTTP API, until stopped."),
    "simulate": ("fleets", "Simulate a stream of jobs under several allocators, at equal spending."),
    "speedup": ("fleets", "Fit speedups to measured throughput, for job and fleet files."),
    "submit": ("jobs", "Submit a job to the controller of a journal, from any process."),
    "token": ("server", "Create, list and revoke the tokens of a journal's server."),
    "why": ("jobs", "Explain in plain sentences why a job holds the GPUs it holds."),
}
"""Our own commands, each with its module in `slacktide.cli.commands` and its sentence in the help."""

ARGUMENTS = "slacktide.arguments"
"""The key of `Context.meta` under which the arguments after the program's name are kept."""
GROUP = "slacktide.commands"
"""The entry-point group in which other packages register click commands.

`slacktide --help` imports the module of each to print its sentence, so such a module should import nothing
heavier than click at its top, and everything else when the command runs.
"""
SENTENCE_LENGTH = 100  # the most characters of a plug-in's sentence that the list of commands shows
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors when an output file cannot grow any more


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are called; other packages may add commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *plugins()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            entry = plugins().get(cmd_name)
            return None if entry is None else load_plugin(entry)
        module = importlib.import_module(f"slacktide.cli.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(unknown_name("a command", args[0], self.list_commands(ctx)))
        # `slacktide` below runs before the command parses these, and must know whether they ask for help.
        ctx.meta[ARGUMENTS] = args
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from slacktide.cli.shared.interruptions import until_pipe_closes

        with until_pipe_closes():  # click itself would report a closed pipe as a failure
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sentences = {}
        for name, entry in plugins().items():
            try:
                sentences[name] = load_plugin(entry).get_short_help_str(SENTENCE_LENGTH)
            except InputError as error:  # the list shows the error instead of the sentence
                sentences[name] = str(error)
        sentences |= {name: sentence for name, (_, sentence) in COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(sentences.items()))


def plugins() -> dict[str, EntryPoint]:
    """Return the commands that other installed packages add, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load_plugin(entry: EntryPoint) -> click.Command:
    """Import a plug-in; raises InputError if that fails or it is not a command."""
    named = f"the command {entry.name!r} of entry-point group {GROUP!r} ({entry.value})"
    try:
        command = entry.load()
    except Exception as error:
        raise InputError(f"{named} must load, got {type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise InputError(f"{named} must be a click command, got {type(command).__name__}")
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(None, "-V", "--version", package_name="slacktide", message="slacktide %(version)s")
@click.option(
    "--profile", envvar="SLACKTIDE_PROFILE", metavar="NAME", help="Use this profile of your settings files."
)
@click.pass_context
def slacktide(context: click.Context, profile: str | None) -> None:
    """Rent GPUs for training jobs: spot or on demand, in time for a deadline, at the least cost."""
    from slacktide.cli.shared.defaults import prepare

    prepare(context, profile, context.meta.get(ARGUMENTS, []))


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 done, 1 failed, 2 bad input, 3 infeasible."""
    sys.exit(run(args))


def run(args: list[str] | None = None) -> int:
    """Run the command line and return its exit code; a deliberate error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths may contain bytes that cannot be decoded
    try:
        # Standalone, click would exit with its own codes and print a traceback for our errors.
        result: Any = slacktide.main(args=args, prog_name="slacktide", standalone_mode=False)
    except click.exceptions.Abort:
        _complain("slacktide: interrupted")
        return 130  # 128 + SIGINT, as shells report it
    except click.ClickException as error:
        with suppress(BrokenPipeError):
            click.UsageError(readable(error.format_message()), getattr(error, "ctx", None)).show()
        return 2
    except SlacktideError as error:
        _complain(f"slacktide: error: {readable(str(error))}")
        return error.exit_code
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _complain(f"slacktide: error: output must be writable, got: {error.strerror}")
        return BackendError.exit_code
    # A command returns its exit code, or nothing if it can only succeed.
    return result if isinstance(result, int) else 0


def _complain(message: str) -> None:
    """Print a line on stderr; if nobody reads it any more, the exit code still reports the failure."""
    from slacktide.cli.shared.output import say

    with suppress(BrokenPipeError):
        say(message, err=True)
