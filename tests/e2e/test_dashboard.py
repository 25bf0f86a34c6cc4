"""The dashboard in a real browser: every page, a job from its plan to its end, a restart, an expired token.

One server and one browser serve all of it: its steps go through a day in order.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from slacktide.app.tokens import tokens_of

from .parts_of_runs import PATIENCE_S, counting, workers_of, write_table
from .parts_of_servers import Server

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: see requirements.lock")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium"),
]
PATIENCE_MS = PATIENCE_S * 1000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
JOB = """\
name: counting
run: {command}
resources: {{accelerators: "H100:1..3"}}
work: 12 gpu-hours +-0%
deadline: 200h
restart: 6m
checkpoint: {{dir: ckpt, every: 3m, grace: 5s}}
policy: uniform-progress
"""
STEPS = 900


class Day:
    """A server, a browser, and all that the browser complained of."""

    def __init__(self, folder: Path, browser: Any) -> None:
        table = folder / "market.csv"
        write_table(table, 600)
        self.folder, self.journal = folder, folder / "journal.db"
        self.server = Server(self.journal, "--speed", "3600", "--start", "100", "--market", str(table))
        self.server.start()
        self.browser, self.complaints = browser, list[str]()

    def page(self, **options: Any) -> Any:
        """Open a browser's window that has nothing of earlier ones, and hear what goes wrong in it."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        page.on("request", self._asked)
        return page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.server.url).netloc:
            self.complaints.append(f"asked elsewhere: {request.url}")

    def logged_in(self, path: str = "/", token: str = "", **options: Any) -> Any:
        """Open a page through the login."""
        page = self.page(**options)
        page.goto(self.server.url + path)
        page.get_by_label("Token").fill(token or self.server.token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(self.server.url + path)
        return page

    def complained(self) -> list[str]:
        """Return what the browser complained of since it was last asked."""
        said, self.complaints = self.complaints, []
        return said


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    """A server with a steady market, and a browser; whatever the tests did, no worker is left."""
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    sync_api.expect.set_options(timeout=PATIENCE_MS)
    with sync_api.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=BROWSER, args=FLAGS)
        made = Day(tmp_path, browser)
        yield made
        browser.close()
        made.server.stop()
        for pid in workers_of(tmp_path):
            os.kill(pid, signal.SIGKILL)


def live(page: Any) -> None:
    """Wait until a page follows the server's events."""
    page.wait_for_selector("#live[data-state=live]")


def log_in(day: Day) -> None:
    """A wrong token is told, and the right one leads where one wanted to go."""
    page = day.page()
    page.goto(day.server.url + "/markets")
    assert urlsplit(page.url).path == "/login"
    page.get_by_label("Token").fill("tester:wrong")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#problem")).to_have_text("the token must be one of this server")
    assert any("401" in one for one in day.complained()), "the browser notes the refusal"
    page.get_by_label("Token").fill(day.server.token)
    page.keyboard.press("Enter")
    page.wait_for_url(day.server.url + "/markets")
    assert [cookie["httpOnly"] for cookie in page.context.cookies()] == [True]
    page.goto(day.server.url + "/login?next=//evil.example/x")
    page.wait_for_url(day.server.url + "/")
    page.context.close()
    assert day.complained() == []


def open_every_page(day: Day, scheme: str) -> None:
    """Every page opens without a complaint, also on a phone."""
    page = day.logged_in(color_scheme=scheme, viewport={"width": 390, "height": 800})
    for path, heading in (
        ("/", "Jobs"),
        ("/fleet", "Fleet"),
        ("/machines", "Machines"),
        ("/markets", "Markets"),
        ("/submit", "Plan and submit a job"),
    ):
        page.goto(day.server.url + path)
        sync_api.expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        if path != "/submit":
            live(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
    page.context.close()
    assert day.complained() == []


def run_a_job(day: Day) -> None:
    """A job goes from its plan to its end before one's eyes."""
    page, list_page = day.logged_in("/submit"), day.logged_in("/")
    live(list_page)
    page.get_by_label("Job file").fill(JOB.format(command=counting(STEPS)))
    page.get_by_role("button", name="Plan").click()
    sync_api.expect(page.locator(".verdict")).to_contain_text(
        "counting with uniform-progress in zone: probably $"
    )
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(day.server.url + "/jobs/counting")
    sync_api.expect(page.locator(".states")).to_contain_text("running")
    sync_api.expect(page.locator("dl.facts")).to_contain_text("3 spot")
    row = list_page.locator("tr[data-key=counting]")
    sync_api.expect(row, "the list hears of it by itself").to_contain_text("3 spot")

    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Preempt").click()
    sync_api.expect(page.locator(".story .Preempted")).to_contain_text("took 3 of 3 spot GPUs")
    sync_api.expect(page.locator(".states")).to_contain_text("succeeded")
    sync_api.expect(page.locator(".story .Ended")).to_contain_text("the job succeeded")
    sync_api.expect(page.get_by_role("button", name="Cancel")).to_be_disabled()
    sync_api.expect(page.locator(".charts figure")).to_have_count(4)
    sync_api.expect(page.locator("dl.facts")).to_contain_text(re.compile(r"saved\d+ %"))
    sync_api.expect(row).to_contain_text("succeeded")
    page.context.close()
    list_page.context.close()
    assert day.complained() == []


def read_a_chart(day: Day) -> None:
    """Charts are read with the keyboard."""
    page = day.logged_in("/jobs/counting")
    chart = page.locator("figure", has_text="GPUs held and offered")
    chart.get_by_role("img").focus()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(chart.locator(".readout")).to_contain_text("spot offered 3 · spot held")
    page.context.close()


def print_markup(day: Day) -> None:
    """What a job says is text and never markup."""
    command = "printf '<img src=x onerror=alert(1)>\\\\n'"
    page = day.logged_in("/submit")
    text = f'name: printing\nrun: "{command}"\nresources: {{accelerators: "H100:1"}}\nwork: 1 gpu-hours\n'
    page.get_by_label("Job file").fill(text + "deadline: 100h\npolicy: on-demand\n")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(day.server.url + "/jobs/printing")
    sync_api.expect(page.locator("pre.log")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img").count() == 0
    page.context.close()
    assert day.complained() == []


def make_a_mistake(day: Day) -> None:
    """A mistake in a job file is told."""
    page = day.logged_in("/submit")
    page.get_by_label("Job file").fill("nmae: x\n")
    page.get_by_role("button", name="Plan").click()
    sync_api.expect(page.locator("#problem")).to_contain_text("did you mean")
    page.context.close()
    assert all("400" in one for one in day.complained())


def only_look(day: Day) -> None:
    """Who may only read is offered nothing else, and nothing at all once the token is revoked."""
    reader = tokens_of(day.journal).add("reader", "read")
    page = day.logged_in("/submit", reader)
    sync_api.expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    page.goto(day.server.url + "/jobs/counting")
    sync_api.expect(page.locator(".title")).to_contain_text("may only look")
    tokens_of(day.journal).revoke("reader")
    page.reload()
    page.wait_for_url(re.compile("/login"))
    page.context.close()
    day.complained()


def restart(day: Day) -> None:
    """An open page survives a restart of the server."""
    page = day.logged_in("/")
    live(page)
    day.server.kill()
    sync_api.expect(page.locator("#live")).to_contain_text("reconnecting")
    day.server.start()
    live(page)
    job = {"text": JOB.format(command="true").replace("counting", "after"), "name": "after.yaml"}
    assert day.server.ask("POST", "/api/v1/jobs?wait=60", job)[0] == 201
    sync_api.expect(page.locator("tr[data-key=after]")).to_contain_text("after")
    assert urlsplit(page.url).path == "/", "the session outlived the server"
    page.context.close()
    day.complained()


def lose_the_token(day: Day) -> None:
    """A token that is gone leads an open page to the login."""
    token = tokens_of(day.journal).add("guest", "read")
    page = day.logged_in("/", token)
    live(page)
    tokens_of(day.journal).revoke("guest")
    job = {"text": JOB.format(command="true").replace("counting", "last"), "name": "last.yaml"}
    assert day.server.ask("POST", "/api/v1/jobs?wait=60", job)[0] == 201
    page.wait_for_url(re.compile(r"/login\?next=%2F"))
    page.context.close()
    day.complained()


def test_a_day_at_the_dashboard(day: Day) -> None:
    log_in(day)
    open_every_page(day, "light")
    run_a_job(day)
    open_every_page(day, "dark")
    read_a_chart(day)
    print_markup(day)
    make_a_mistake(day)
    only_look(day)
    restart(day)
    lose_the_token(day)
