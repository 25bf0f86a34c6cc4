"""Things to print as plain text, as they go into a pipe."""

from __future__ import annotations

import io

PIPE_LENGTH = 160  # characters in a line that goes into a pipe


def rendered(*things: object) -> str:
    """Return rich things as plain text, wide, with long lines left whole."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=PIPE_LENGTH, highlight=False, soft_wrap=True)
    for thing in things:
        console.print(thing)
    return out.getvalue()
