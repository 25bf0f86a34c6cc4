"""Show a run while it runs: in a terminal as a view that is redrawn in place, elsewhere as plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from slacktide.report.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

FRAMES_PER_S = 8
KEPT_LINES = 50


class Screen:
    """Shows what happens: lines as they come, and a picture where pictures can be drawn."""

    def print_lines(self, lines: Sequence[str]) -> None:
        """Show lines of what happened."""
        raise NotImplementedError

    def draw(self, picture: Callable[[Sequence[str]], RenderableType], *, now: bool = False) -> None:
        """Draw the present state, where that is possible.

        It may be called often: `picture` is called only when a frame is due, or at once with `now`.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the drawing; the last picture stays."""


class Terminal(Screen):
    """Draws the view in place, a few times a second; the last one stays when it is over."""

    def __init__(self, console: Console, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._console, self._monotonic = console, monotonic
        self._lines: list[str] = []
        self._due = 0.0
        self._live: Live | None = None

    def print_lines(self, lines: Sequence[str]) -> None:
        """Keep the last lines for the next picture."""
        self._lines = [*self._lines, *map(visible, lines)][-KEPT_LINES:]

    def draw(self, picture: Callable[[Sequence[str]], RenderableType], *, now: bool = False) -> None:
        """Draw the picture again if its time has come."""
        at = self._monotonic()
        if self._live is None or (at < self._due and not now):
            return
        self._due = at + 1 / FRAMES_PER_S
        self._live.update(picture(self._lines), refresh=True)

    def __enter__(self) -> Self:
        from rich.live import Live

        # Drawn by our own loop and not by a thread, which would read the run while it changes.
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Lines(Screen):
    """Writes every line as it comes; there is no picture."""

    def __init__(self, out: IO[str]) -> None:
        self._out: IO[str] | None = out

    def print_lines(self, lines: Sequence[str]) -> None:
        """Write the lines at once."""
        if self._out is None:
            return
        try:
            for line in lines:
                self._out.write(f"{visible(line)}\n")
            self._out.flush()
        except OSError:
            self._out = None  # the reader is gone, which must not stop the run


def screen_for(out: IO[str]) -> Screen:
    """Return the view for a terminal that can be redrawn, and plain lines for any other output."""
    from rich.console import Console

    console = Console(file=out, highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return Terminal(console)
    return Lines(out)
