"""`slacktide completion`: prints or installs the script by which a shell completes commands."""

from __future__ import annotations

import click

from slacktide.cli.shared.output import say

NAME = "slacktide"
VARIABLE = "_SLACKTIDE_COMPLETE"  # the variable by which a shell requests completions


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write it to where the shell finds it.")
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Print the script that completes commands and options in SHELL, or install it.

    For one session: eval "$(slacktide completion bash)", the same for zsh, or slacktide completion fish |
    source.
    """
    from slacktide.app.setup.completion import install_script, next_step

    script = _script(shell, context.find_root().command)
    if not install:
        click.echo(script)
        return
    path = install_script(shell, script)
    say(f"wrote {path}")
    say(next_step(shell, path), err=True)


def _script(shell: str, root: click.Command) -> str:
    """Return the script with which a shell calls our command for completions."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(root, {}, NAME, VARIABLE)
    # Its `source()` would start a shell to find out its version.
    return completer.source_template % completer.source_vars()
