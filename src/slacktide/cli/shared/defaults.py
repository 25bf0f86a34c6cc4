"""What the settings files say, as the defaults of a command's options.

Click takes a value from the command line, else from the environment, else from a map of defaults: this map is
made here, for the command that is called. Nothing is read for `--help`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slacktide.core.errors import InputError, shown, unknown_name

if TYPE_CHECKING:
    from slacktide.app.settings.settings import SettingInFile, Settings

UNCONFIGURED = ("completion", "config", "doctor")
"""Commands that work with settings files in which something is wrong: they help to find it."""
SHARED = ("journal", "server", "market", "spot_usd", "on_demand_usd")
"""Settings that are defaults of the options of these names, in every command that has them."""
ASKING = ("yes",)
"""Options that a project's file must not set: its user is asked, whatever a folder says."""


NAMING_CODE = ("backend", "check", "forecaster", "policy")
"""Options that may name a class, module:Class: a folder that somebody else wrote must not have it run."""


def prepare(context: click.Context, profile: str | None, arguments: Sequence[str]) -> None:
    """Let the command that is called use the settings files; raises FileError where one cannot be used."""
    name = context.invoked_subcommand
    if name is None or name in UNCONFIGURED or asks_for_help(arguments):
        return
    from slacktide.app.settings.settings import read_all

    settings = read_all(profile)
    for note in settings.notes:
        click.echo(f"slacktide: warning: {note}", err=True)
    context.obj = settings
    if settings.files:
        assert isinstance(context.command, click.Group)
        check_commands(context.command, context, settings)
        command = context.command.get_command(context, name)
        assert command is not None
        context.default_map = {name: defaults_of(command, context, settings, (name,))}


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether a command is only asked how it is used."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "-h" in options or "--help" in options


def check_commands(root: click.Group, context: click.Context, settings: Settings) -> None:
    """Raise FileError where `defaults` names a command that is not there."""
    for name, setting in settings.defaults().items():
        known = root.list_commands(context)
        if name not in known:
            raise setting.error(unknown_name("a command in defaults", name, known))


def defaults_of(
    command: click.Command, context: click.Context, settings: Settings, path: tuple[str, ...]
) -> dict[str, Any]:
    """Return the defaults of a command by the names of its parameters, and of the commands below it."""
    said = settings.defaults(*path)
    if isinstance(command, click.Group):
        return _of_group(command, context, settings, path, said)
    options = options_of(command)
    found = {
        options[name].name: _as_click(setting.value, options[name])
        for name in SHARED
        if name in options and (setting := settings.get(name)) is not None
    }
    for key, setting in said.items():
        name = key.replace("-", "_")
        if name not in options:
            known = [one.replace("_", "-") for one in options]
            raise setting.error(unknown_name(f"an option of `{' '.join(path)}`", key, known))
        found[options[name].name] = _checked(setting, options[name], context)
    return {str(name): value for name, value in found.items()}


def _of_group(
    group: click.Group,
    context: click.Context,
    settings: Settings,
    path: tuple[str, ...],
    said: Mapping[str, SettingInFile],
) -> dict[str, Any]:
    names = group.list_commands(context)
    for key, setting in said.items():
        if key not in names:
            raise setting.error(unknown_name(f"a command of `{' '.join(path)}`", key, names))
    inner = {name: group.get_command(context, name) for name in names}
    return {
        name: defaults_of(command, context, settings, (*path, name))
        for name, command in inner.items()
        if command is not None
    }


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command that have defaults, by their long names."""
    found = [one for one in command.params if isinstance(one, click.Option) and not one.is_eager]
    return {
        name.lstrip("-").replace("-", "_"): one for one in found for name in one.opts if name.startswith("--")
    }


def _checked(setting: SettingInFile, option: click.Option, context: click.Context) -> Any:
    """Return a default that the option can use; raises FileError where it cannot."""
    name = ".".join(setting.names)
    if option.name in ASKING and setting.table.file.kind == "project":
        raise setting.error(f"{name} must not be in a project's file: you are asked; give --yes yourself")
    value = setting.value
    parts = value if isinstance(value, list) else [value]
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
    """Return a value as click wants it: an option that may be given several times takes a list."""
    if not option.multiple:
        return value
    return value if isinstance(value, list) else [value]


def token_of(server: str) -> str:
    """Return the token for a server from the environment or the settings files; empty without any."""
    from slacktide.app.settings.settings import Settings, token_for

    context = click.get_current_context()
    settings = context.find_root().obj or Settings(None, None)
    place = settings.get("server")
    from_files = context.get_parameter_source("server") is click.core.ParameterSource.DEFAULT_MAP
    project = from_files and place is not None and place.table.file.kind == "project"
    return token_for(server, settings, own_choice=not project)


def profile_of(context: click.Context) -> str | None:
    """Return the profile that was chosen for this call, on the command line or in the environment."""
    chosen: str | None = context.find_root().params.get("profile")
    return chosen


def typed(text: str) -> object:
    """Return the value that a word on the command line stands for: true, false, a number, or the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(text)
            return number if math.isfinite(number) else text
    return text


def check_key(root: click.Group, context: click.Context, names: tuple[str, ...]) -> None:
    """Raise InputError unless a dotted key names a setting, or an option of a command."""
    from slacktide.app.settings.keys import DEFAULTS, KEYS, PROFILE

    first, *rest = names
    if first == DEFAULTS:
        _option(root, context, rest)
    elif rest or first not in (*KEYS, PROFILE):
        known = [*KEYS, PROFILE, f"{DEFAULTS}.COMMAND.OPTION"]
        raise InputError(unknown_name("a key", ".".join(names), known))


def check_value(root: click.Group, context: click.Context, names: Sequence[str], value: object) -> None:
    """Raise InputError unless the option that a key of `defaults` names can have this value."""
    option = _option(root, context, names[1:])
    try:
        option.type_cast_value(context, _as_click(value, option))
    except click.BadParameter as error:
        raise InputError(f"{'.'.join(names)}: {error.message}") from error


def _option(root: click.Group, context: click.Context, names: Sequence[str]) -> click.Option:
    """Return the option that these name, after its command; raises InputError where there is none."""
    command: click.Command = root
    left = list(names)
    while isinstance(command, click.Group):
        name, known = left.pop(0) if left else "", command.list_commands(context)
        if name not in known:
            raise InputError(unknown_name("a command in defaults", name, known))
        found = command.get_command(context, name)
        assert found is not None
        command = found
    options = {name.replace("_", "-"): option for name, option in options_of(command).items()}
    named = ".".join(left)
    if named.replace("_", "-") not in options:
        raise InputError(unknown_name("an option in defaults", named, list(options)))
    return options[named.replace("_", "-")]


def environment(key: str) -> str:
    """Return what the environment says of a setting; empty where it says nothing."""
    from slacktide.app.settings.keys import KEYS

    return os.environ.get(KEYS[key].variable, "") if KEYS[key].variable else ""
