"""The live view fits any terminal, shows what is so, and plain output gets plain lines."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from slacktide.core.quotes import Quote
from slacktide.report.live.screen import Lines, Terminal, screen_for
from slacktide.report.live.view import ASCII, FANCY, LAST_ROWS, Frame, bar, blocks, sparkline
from slacktide.results.status import Standing

from ..conftest import NASTY, job

QUOTES = [Quote(2.0 + slot % 3, 10.0, slot % 9) for slot in range(40)]
ONE = Standing(
    name="llama-lora", job=job(max_cost_usd=300.0), policy="uniform-progress", pool="zone-a",
    status="running", health="on-time", hours=4.0, quotes=QUOTES, spot_gpus=3, on_demand_gpus=2,
    progress_gpu_hours=18.0, spot_usd=12.0, on_demand_usd=20.0, on_demand_alone_usd=240.0,
    metrics={"loss": 1.92},
)  # fmt: skip
ODD = {
    "everyday": ONE,
    "begun": Standing(
        name="x",
        job=job(),
        policy="p",
        pool="z",
        status="pending",
        health="on-time",
        hours=0.0,
        quotes=QUOTES[:1],
    ),
    "late": dataclasses.replace(ONE, health="late", hours=400.0, progress_gpu_hours=1.0),
    "over": dataclasses.replace(ONE, progress_gpu_hours=35.0, status="succeeded"),
    "wide": dataclasses.replace(ONE, job=job(widths=(1, 4096)), spot_gpus=4000, on_demand_gpus=1),
    "nasty": dataclasses.replace(ONE, name=NASTY, policy=NASTY, metrics={NASTY: 1e300, "b": -0.0}),
    "free": dataclasses.replace(ONE, quotes=[Quote(0.0, 0.0, 0)], on_demand_alone_usd=0.0),
    "unknown state": dataclasses.replace(ONE, status="odd", health="odd"),
}
LINES = [
    f"{hour:>7}h  market  took 3 of 4 spot GPUs: the market left {hour} and then some more words"
    for hour in range(20)
]


def shown(thing: RenderableType, width: int, **more: object) -> str:
    out = io.StringIO()
    settings: dict[str, object] = {"color_system": None, "highlight": False, **more}
    Console(file=out, width=width, **settings).print(thing)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 56, 80, 120, 300])
@pytest.mark.parametrize("name", sorted(ODD))
def test_it_fits_every_terminal(name: str, width: int) -> None:
    for several in (1, 3):
        text = shown(Frame([ODD[name]] * several, LINES, speed=600.0, note="stopping"), width)
        assert all(cell_len(line) <= width for line in text.splitlines())
        assert "\x1b" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_all_of_it_is_there(width: int) -> None:
    text = shown(Frame([ONE], LINES[:1], speed=600.0), width)
    for words in (
        "llama-lora · uniform-progress · running",
        "4h of 8h, 600 times as fast",
        "$2.00 per GPU-hour, on demand $10.00",
        "3 GPUs available",
        "3 spot + 2 on demand of 1..8",
        "60 %, 3.0 GPU-hours ahead of the line",
        "$32.00 ($12.00 spot + $20.00 on demand) of at most $300.00",
        "$144.00 for this work on demand alone (−78 %)",
        "loss 1.92",
        "■■■▣▣···",
        "took 3 of 4 spot GPUs",
    ):
        assert words in text, words


def test_a_job_without_a_deadline_has_no_line() -> None:
    text = shown(Frame([dataclasses.replace(ONE, job=job(deadline_hours=math.inf))], ()), 100)
    assert "the line" not in text
    assert "┃" not in text
    assert "3650d" not in text


def test_no_color_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = shown(Frame([ONE], LINES), 80, color_system="truecolor", force_terminal=True)
    assert "\x1b[32m" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(Frame([ONE], LINES), 80, color_system="truecolor", force_terminal=True)
    assert "\x1b[32m" not in plain
    assert "38;5" not in plain


def test_a_terminal_that_knows_only_ascii_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=out, width=80)
    console.print(Frame([ONE, ONE], ["   1h  engine  holds 1 spot"]))
    console.print(Frame([ONE], ["   1h  engine  holds 1 spot"]))
    out.flush()


def test_several_jobs_have_a_row_each() -> None:
    two = [ONE, dataclasses.replace(ONE, name="other", status="failed")]
    rows = shown(Frame(two, ()), 100).splitlines()
    assert len(rows) == 2
    assert "running" in rows[0]
    assert "failed" in rows[1]
    assert "3+2 GPUs" in rows[0]


def test_last_lines_keep_their_height_and_their_reason() -> None:
    text = shown(Frame([ONE], LINES), 80).splitlines()
    below = text[next(number for number, line in enumerate(text) if line.startswith("╰")) + 1 :]
    assert len(below) == LAST_ROWS
    assert " ".join(" ".join(below[-2:]).split()).endswith("the market left 19 and then some more words")


def test_the_mark_of_the_line_stands_where_the_line_is() -> None:
    assert bar(0.5, 0.25, 20) == (10, 10, 5)
    assert bar(2.0, 1.0, 20) == (20, 0, 19)
    assert bar(-1.0, 0.0, 20) == (0, 20, 0)
    assert bar(0.5, 0.5, 2) == (1, 1, None)


def test_blocks_show_whatever_is_held() -> None:
    assert blocks(3, 2, 8, 20) == (3, 2, 3)
    spot, on_demand, free = blocks(4000, 1, 4096, 20)
    assert on_demand == 1
    assert spot + on_demand + free <= 21
    assert blocks(0, 0, 4096, 20) == (0, 0, 20)


def test_sparklines_show_whatever_is_there() -> None:
    for glyphs in (FANCY, ASCII):
        assert sparkline([0, 0.01, 8, 99], 8, glyphs) == "".join(
            glyphs.levels[level] for level in (0, 1, 8, 8)
        )
    assert sparkline([1.0], 0.0, FANCY) == " "


class Later:
    """A clock that moves when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_terminal_draws_a_few_times_a_second() -> None:
    clock, made, out = Later(), list[int](), io.StringIO()

    def picture(lines: Sequence[str]) -> str:
        made.append(len(lines))
        return "picture"

    with Terminal(Console(file=out, force_terminal=True, width=40), clock) as screen:
        for tick in range(100):
            clock.now = tick * 0.01
            screen.print_lines(["a"])
            screen.draw(picture)
        assert len(made) == 8
        screen.draw(picture, now=True)
        assert len(made) == 9
    screen.draw(picture, now=True)
    assert len(made) == 9, "nothing is drawn when it is over"
    assert max(made) <= 50, "old lines are forgotten"


def test_plain_output_gets_lines_at_once() -> None:
    out = io.StringIO()
    screen = screen_for(out)
    assert isinstance(screen, Lines)
    with screen:
        screen.print_lines(["one", "two"])
        screen.draw(lambda lines: "picture", now=True)
    assert out.getvalue() == "one\ntwo\n"


def test_a_reader_that_left_does_not_stop_the_run() -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    screen = Lines(Gone())
    screen.print_lines(["one"])
    screen.print_lines(["two"])


def test_the_outlook_is_a_finish_and_a_bill() -> None:
    one = dataclasses.replace(ONE, projected_hours=6.6667, projected_usd=53.3)
    assert "done at about 6h40m, $53.30 (as it went so far)" in shown(Frame([one], ()), 100)
    late = dataclasses.replace(ONE, projected_hours=9.0, projected_usd=80.0, health="late")
    text = shown(Frame([late], ()), 100)
    assert "done at about 9h, $80.00, 1h late (with on-demand GPUs from now on)" in text
    assert "· late ─" in text
    over = dataclasses.replace(one, status="succeeded")
    assert "done at about" not in shown(Frame([over], ()), 100)
