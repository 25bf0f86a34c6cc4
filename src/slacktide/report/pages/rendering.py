"""Pages from templates: whatever came from outside is escaped, on one line and without control characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.report import words
from slacktide.report.text.tables.grid import Grid

if TYPE_CHECKING:
    from jinja2 import Environment

OWN = "slacktide.report.pages"


class Fold(NamedTuple):
    """Tables that open when their heading is clicked; no script is needed."""

    heading: str
    note: str
    tables: Sequence[Grid]
    colour: str = ""


def render(template: str, *, package: str = OWN, **values: Any) -> str:
    """Fill a template of a package, which may build on those of Slacktide's own pages."""
    return _environment(package).get_template(template).render(values)


def drawing(svg: str) -> Any:
    """Mark a drawing of ours as what it is, so that it stands in a page as it is."""
    from markupsafe import Markup

    return Markup(svg)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    folders = [PackageLoader(name) for name in dict.fromkeys((package, OWN))]
    return Environment(
        loader=ChoiceLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_plain,
    )


def _plain(value: Any) -> Any:
    """Put text on one line; what is markup already, as a drawing or what a template made, stays."""
    return words.plain(value) if type(value) is str else value
