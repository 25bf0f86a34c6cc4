"""What `slacktide market forecast` takes: shares, and names of forecasters with their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slacktide.core.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.core.register import Spec


class ShareParam(click.ParamType[float]):
    """A share written as 30% or 0.3."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 <= share < 1.0:
            self.fail(f"a share must be written 30% or 0.3 and be less than 1, got {shown(text)}", param, ctx)
        return share


def specs(texts: tuple[str, ...]) -> list[Spec]:
    """Read `--forecaster`: names with commas between them, or `{name: {parameter: value}}`."""
    import yaml

    found: list[Spec] = []
    for text in texts:
        if not text.lstrip().startswith("{"):
            found += [name.strip() for name in text.split(",") if name.strip()]
            continue
        try:
            found.append(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InputError(
                f"--forecaster must be names or {{name: {{parameter: value}}}}, got {shown(text)}"
            ) from error
    return found
