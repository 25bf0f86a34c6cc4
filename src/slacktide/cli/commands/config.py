"""`slacktide config`: shows the settings in effect and where each comes from, and sets or removes one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from slacktide.cli.shared import defaults
from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, say
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.settings.files import Kind
    from slacktide.app.settings.settings import SettingInFile, Settings

HIDDEN = "(not shown)"
BUILT_IN = "built in"


class SettingRow(NamedTuple):
    """A setting in the table: its value and where that comes from."""

    key: str
    value: Any
    source: str  # flag, environment, project, user or built in
    file: str | None = None
    line: int | None = None
    profile: str | None = None


@click.group(invoke_without_command=True)
@common.output_option("table", "json")
@click.pass_context
def config(context: click.Context, output: str) -> None:
    """Show every setting and where it comes from, set one or remove one.

    Strongest first: a flag, the environment, the chosen profile (--profile or $SLACKTIDE_PROFILE), the
    project's file (slacktide.toml in this folder or the nearest above), your own file, built in. A mistake in
    a file is reported with its line, and the exit code is 2.
    """
    if context.invoked_subcommand is not None:
        return
    from slacktide.app.settings.settings import read_all

    settings = read_all(defaults.profile_of(context))
    defaults.defaults_for(context, settings, settings.defaults())
    for note in settings.notes:
        click.echo(f"slacktide: warning: {note}", err=True)
    rows = _rows(context, settings)
    if output == "json":
        values = [row._asdict() for row in rows]
        echo_json({"profile": settings.profile or None, "files": _paths(), "values": values})
        return
    from slacktide.report.text.tables.grid import Grid, as_text, left

    shown = ((row.key, "-" if row.value is None else str(row.value), _place(row)) for row in rows)
    say(as_text(Grid(left("key", "value", "from"), tuple(shown))))


@config.command(name="set")
@click.argument("key", metavar="KEY")
@click.argument("value", metavar="VALUE")
@click.option("--project", is_flag=True, help="Write into the project's file, slacktide.toml.")
@click.pass_context
def set_(context: click.Context, key: str, value: str, project: bool) -> None:
    """Set KEY to VALUE in your own file, or in the project's; comments are kept.

    KEY is journal, server, token, token_file, token_command, market, spot_usd, on_demand_usd, profile, or
    defaults.COMMAND.OPTION. With `slacktide --profile NAME config set` it is set for that profile.
    """
    from slacktide.app.settings.files import from_here, set_key

    kind, path, names = _place_of(context, key, project)
    plain = key.split(".")
    # Prices and options may be numbers or truth values; all other settings are text, even `5` or `true`.
    number = plain[0].endswith("_usd") or len(plain) > 1
    given = defaults.typed(value) if number else from_here(key, value, kind, path)
    if len(plain) > 1:
        defaults.check_value(context, plain, given)
    set_key(kind, path, names, given)
    click.echo(f"set {key} in {path}", err=True)


@config.command()
@click.argument("key", metavar="KEY")
@click.option("--project", is_flag=True, help="Remove it from the project's file, slacktide.toml.")
@click.pass_context
def unset(context: click.Context, key: str, project: bool) -> None:
    """Remove KEY from your own file, or from the project's; a weaker setting applies again.

    With `slacktide --profile NAME config unset` it is removed from that profile.
    """
    from slacktide.app.settings.files import unset_key

    kind, path, names = _place_of(context, key, project)
    unset_key(kind, path, names)
    click.echo(f"removed {key} from {path}", err=True)


def _place_of(context: click.Context, key: str, project: bool) -> tuple[Kind, Path, tuple[str, ...]]:
    """Return the kind and path of the file for a key, and the key's names there; raises InputError."""
    from slacktide.app.settings.files import PROFILE, PROFILES, PROJECT_FILE, project_path, user_path

    names, profile = tuple(key.split(".")), defaults.profile_of(context)
    defaults.check_key(context, names)
    if profile and names == (PROFILE,):
        raise InputError("profile must be set at the top of a file, got --profile; leave it out")
    path = (project_path() or Path.cwd() / PROJECT_FILE) if project else user_path()
    return "project" if project else "user", path, (PROFILES, profile, *names) if profile else names


@config.command()
@common.output_option("text", "json")
def path(output: str) -> None:
    """Print where your own file is, or would be, and the project's if there is one."""
    found = _paths()
    if output == "json":
        echo_json(found)
    else:
        say("\n".join(str(file) for file in found.values() if file))


def _paths() -> dict[str, str | None]:
    from slacktide.app.settings.files import project_path, user_path

    project = project_path()
    return {"user": str(user_path()), "project": None if project is None else str(project)}


def _rows(context: click.Context, settings: Settings) -> list[SettingRow]:
    from slacktide.app.settings.files import KEYS, TOKEN_KEYS

    rows = [_profile_row(context, settings)]
    for key in KEYS:
        given, setting = os.environ.get(KEYS[key].variable, ""), settings.get(key)
        if given:
            rows.append(SettingRow(key, HIDDEN if key == "token" else given, "environment"))
        elif setting is not None:
            rows.append(_row(key, HIDDEN if key == "token" else setting.value, setting))
        elif key not in TOKEN_KEYS[1:]:
            rows.append(SettingRow(key, _built_in(key), BUILT_IN))
    return [*rows, *_default_rows(settings, ())]


def _profile_row(context: click.Context, settings: Settings) -> SettingRow:
    sources = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment"}
    source = context.find_root().get_parameter_source("profile")
    if source is not None and source.name in sources:
        return SettingRow("profile", settings.profile, sources[source.name])
    file = next((file for file in settings.files if "profile" in file.tree), None)
    if file is None:
        return SettingRow("profile", None, BUILT_IN)
    return SettingRow("profile", settings.profile, file.kind, str(file.path), file.lines.get(("profile",)))


def _default_rows(settings: Settings, command: tuple[str, ...]) -> list[SettingRow]:
    rows: list[SettingRow] = []
    for name, setting in settings.defaults(*command).items():
        if isinstance(setting.value, dict):
            rows += _default_rows(settings, (*command, name))
        else:
            rows.append(_row(".".join(("defaults", *command, name)), setting.value, setting))
    return rows


def _row(key: str, value: Any, setting: SettingInFile) -> SettingRow:
    table = setting.table
    return SettingRow(key, value, table.file.kind, str(setting.path), setting.line, table.profile or None)


def _built_in(key: str) -> str | None:
    """Return the built-in value of a setting, if it has one."""
    if key == "journal":
        from slacktide.cli.shared.journals import journal_path

        return str(journal_path(None))
    if key == "market":
        from slacktide.app.markets.market import DEFAULT_MARKET

        return DEFAULT_MARKET
    return None


def _place(row: SettingRow) -> str:
    if row.file is None:
        return row.source
    profile = f", profile {row.profile}" if row.profile else ""
    return f"{row.source}: {row.file}{'' if row.line is None else f':{row.line}'}{profile}"
