"""Turns settings files into the defaults of a command's options.

Click takes a value from the command line, else from the environment, else from `Context.default_map`. This
module makes that map for the command that is called; for `--help` no file is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slacktide.core.errors import InputError, shown, unknown_name

if TYPE_CHECKING:
    from slacktide.app.settings.settings import SettingInFile, Settings

UNCONFIGURED = ("completion", "config", "doctor")
"""Commands that run even with mistakes in settings files: they help to find them."""
SHARED = ("journal", "server", "market", "spot_usd", "on_demand_usd")
"""Settings that are the default of the option with the same name, in every command that has one."""
CONFIRMING = ("yes",)
"""Options that a project's file must not set: a downloaded folder must not answer questions for its user."""


NAMING_CODE = ("backend", "check", "forecaster", "policy")
"""Options that may name code, module:Class, which a project's file must not: it may be a downloaded one."""


def prepare(context: click.Context, profile: str | None, arguments: Sequence[str]) -> None:
    """Read the settings files, and set the defaults of the called command; raises FileError for mistakes."""
    name = context.invoked_subcommand
    if name is None or name in UNCONFIGURED or wants_help(arguments):
        return
    from slacktide.app.settings.settings import read_all

    settings = read_all(profile)
    for note in settings.notes:
        click.echo(f"slacktide: warning: {note}", err=True)
    context.obj = settings
    if settings.files:
        # Only for the command that is called: the defaults of all would need all commands imported.
        context.default_map = defaults_for(context, settings, [name])


def wants_help(arguments: Sequence[str]) -> bool:
    """Whether the arguments request the help of a command."""
    # After `--` everything is an argument, even if it looks like an option.
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "-h" in options or "--help" in options


def defaults_for(context: click.Context, settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of these commands; raises FileError for a default that its command cannot use."""
    root = _root(context)
    _check_names(settings.defaults(), root.list_commands(context), "a command in defaults")
    return {name: _defaults_of(_inside(root, context, name), context, settings, (name,)) for name in names}


def _defaults_of(
    command: click.Command, context: click.Context, settings: Settings, path: tuple[str, ...]
) -> dict[str, Any]:
    """Return the defaults of a command by parameter name, or of a group by the names of its commands."""
    given = settings.defaults(*path)
    if isinstance(command, click.Group):
        names = command.list_commands(context)
        _check_names(given, names, f"a command of `{' '.join(path)}`")
        return {
            name: _defaults_of(_inside(command, context, name), context, settings, (*path, name))
            for name in names
        }
    options = _options_of(command)
    given = {key.replace("_", "-"): setting for key, setting in given.items()}
    _check_names(given, list(options), f"an option of `{' '.join(path)}`")
    shared = {name.replace("_", "-"): settings.get(name) for name in SHARED}
    found = {
        options[name]: _as_click(setting.value, options[name])
        for name, setting in shared.items()
        if name in options and setting is not None
    }
    found |= {options[name]: _checked(setting, options[name], context) for name, setting in given.items()}
    return {str(option.name): value for option, value in found.items()}


def _check_names(given: Mapping[str, SettingInFile], known: list[str], what: str) -> None:
    for name, setting in given.items():
        if name not in known:
            raise setting.error(unknown_name(what, name, known))


def _root(context: click.Context) -> click.Group:
    root = context.find_root().command
    assert isinstance(root, click.Group)
    return root


def _inside(group: click.Group, context: click.Context, name: str) -> click.Command:
    command = group.get_command(context, name)
    assert command is not None
    return command


def _options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command that may have defaults, by their long names without the dashes."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.is_eager]
    return {
        name.removeprefix("--"): option for option in options for name in option.opts if name.startswith("--")
    }


def _checked(setting: SettingInFile, option: click.Option, context: click.Context) -> Any:
    """Return a default in the form that click expects; raises FileError if the option cannot have it."""
    name = ".".join(setting.names)
    if option.name in CONFIRMING and setting.table.file.kind == "project":
        raise setting.error(f"{name} must not be in a project's file: you are asked; give --yes yourself")
    value = setting.value
    parts = value if isinstance(value, list) else [value]
    # Any colon is refused: a class may also be a parameter inside `{name: {parameter: value}}`.
    if setting.table.file.kind == "project" and setting.names[-1] in NAMING_CODE and ":" in str(parts):
        raise setting.error(f"{name} must not name a class in a project's file; give it yourself")
    if not all(isinstance(part, str | int | float) for part in parts):
        raise setting.error(f"{name} must be a text, a number, true or false, got {shown(value)}")
    made = _as_click(value, option)
    try:
        option.type_cast_value(context, made)
    except click.BadParameter as error:
        raise setting.error(f"{name}: {error.message}") from error
    return made


def _as_click(value: object, option: click.Option) -> Any:
    """Return a value as click expects it: a list for an option that may be given several times."""
    if not option.multiple:
        return value
    return value if isinstance(value, list) else [value]


def profile_of(context: click.Context) -> str | None:
    """Return the profile chosen on the command line or in the environment."""
    chosen: str | None = context.find_root().params.get("profile")
    return chosen


def typed(text: str) -> object:
    """Return the value that a word on the command line stands for: a truth value, a number or the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(text)  # Python also reads `nan` and `inf`, which no setting may be
            return number if math.isfinite(number) else text
    return text


def check_key(context: click.Context, names: Sequence[str]) -> None:
    """Raise InputError unless a dotted key names a setting, or an option of a command."""
    from slacktide.app.settings.files import DEFAULTS, KEYS, PROFILE

    first, *rest = names
    if first == DEFAULTS:
        _option(context, rest)
    elif rest or first not in (*KEYS, PROFILE):
        known = [*KEYS, PROFILE, f"{DEFAULTS}.COMMAND.OPTION"]
        raise InputError(unknown_name("a key", ".".join(names), known))


def check_value(context: click.Context, names: Sequence[str], value: object) -> None:
    """Raise InputError unless the option named by a key of `defaults` takes this value."""
    option = _option(context, names[1:])
    try:
        option.type_cast_value(context, _as_click(value, option))
    except click.BadParameter as error:
        raise InputError(f"{'.'.join(names)}: {error.message}") from error


def _option(context: click.Context, names: Sequence[str]) -> click.Option:
    """Return the option named by a command and an option name; raises InputError if there is none."""
    command: click.Command = _root(context)
    left = list(names)
    while isinstance(command, click.Group):
        name, known = left.pop(0) if left else "", command.list_commands(context)
        if name not in known:
            raise InputError(unknown_name("a command in defaults", name, known))
        command = _inside(command, context, name)
    options, named = _options_of(command), ".".join(left)
    if named.replace("_", "-") not in options:
        raise InputError(unknown_name("an option in defaults", named, list(options)))
    return options[named.replace("_", "-")]
