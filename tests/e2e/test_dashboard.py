"""The dashboard in a real browser: every page, a job from its plan to its end, a restart, an expired token.

One server and one browser serve all of it: its steps go through a day in order.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from slacktide.app.journal.fleets import ClassStatus, FleetPoint, FleetStatus
from slacktide.app.tokens import tokens_of
from slacktide.report.wire import values
from slacktide.results.status import MachineStatus

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


LONG = "a-name-as-long-as-names-may-be-of-a-job-that-somebody-submitted"
FLEET = FleetStatus(
    fleet="f00d", file="team.yaml", allocator="shadow-prices", jobs=(), came=3, by_class={"release": 3},
    classes=(ClassStatus(name="release", came=3, under_way=2, holding=1, spot_gpus=4, on_demand_gpus=0),),
    hours=240.0, spent_gpu_hours=500.0, spent_usd=1000.0, period_budget_usd=4000.0, period_spent_usd=1000.0,
    period_since_hours=0.0, period_until_hours=720.0, projected_usd=3000.0, usd_per_job_hour=1.5,
    reserved_usd=250.0,
)  # fmt: skip
POINTS = [
    FleetPoint(hours=hours, spent_usd=4.0 * hours, reserved_usd=25.0 * index, usd_per_job_hour=0.1 * index)
    for index, hours in enumerate((0.0, 80.0, 160.0, 240.0))
]
MACHINE = MachineStatus(
    owner="o", ticket="1-f00d", machine="i-0a1b", capacity="spot", pool="zone", gpus=8, state="up",
    orphan=False, joined=True, address="10.0.0.1", since_utc="2026-01-01T00:00:00+00:00", hours=2.5,
    usd_per_hour=16.0, cost_usd=40.0,
)  # fmt: skip
NOBODYS = dataclasses.replace(MACHINE, ticket="2-f00d", machine="i-9z9z", orphan=True, joined=None)


class Day:
    """A server, a browser, and all that the browser complained of."""

    def __init__(self, folder: Path, browser: Any) -> None:
        table = folder / "market.csv"
        write_table(table, 600)
        self.folder, self.journal = folder, folder / "journal.db"
        self.server = Server(self.journal, "--speed", "3600", "--start", "100", "--market", str(table))
        self.server.start()
        self.browser, self.complaints = browser, list[str]()
        self._session: Any = None

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
        """Open a page: through the login with a token, else in the session that was opened first."""
        if self._session is not None and not token:
            page = self.page(storage_state=self._session, **options)
            page.goto(self.server.url + path)
            return page
        page = self.page(**options)
        page.goto(self.server.url + path)
        page.get_by_label("Token").fill(token or self.server.token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(self.server.url + path)
        if not token:
            self._session = page.context.storage_state()
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


PAGES = {
    "/": "Jobs",
    "/fleet": "Fleet",
    "/machines": "Machines",
    "/markets": "Markets",
    "/submit": "Plan and submit a job",
}


def open_every_page(day: Day, *more: str) -> None:
    """Every page opens without a complaint, light and dark, and fits a small phone."""
    page = day.logged_in(viewport={"width": 360, "height": 740}, reduced_motion="reduce")
    for path in (*PAGES, *more):
        page.goto(day.server.url + path)
        sync_api.expect(page.get_by_role("heading", level=1)).to_have_text(PAGES.get(path, path[6:]))
        if path != "/submit":
            live(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == 360, (path, scheme)
    page.context.close()
    assert day.complained() == []


def look_at_a_fleet_and_machines(day: Day) -> None:
    """A fleet shows its money, its reserve and its prices; machines what is idle and what is nobody's."""
    page = day.logged_in("/markets")
    page.route("**/api/v1/fleet", lambda route: route.fulfill(json={"fleets": values.plain([FLEET])}))
    page.route("**/f00d/course", lambda route: route.fulfill(json={"points": values.plain(POINTS)}))
    rented = {"machines": values.plain([MACHINE, NOBODYS]), "holdings": HOLDINGS}
    page.route("**/api/v1/machines", lambda route: route.fulfill(json=rented))
    page.goto(day.server.url + "/fleet")
    sync_api.expect(page.locator("dl.facts").first).to_contain_text("reserved$250.00")
    sync_api.expect(page.locator("dl.facts").first).to_contain_text("free$2,750.00")
    money = page.locator("figure", has_text="Budget of this period")
    sync_api.expect(money.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"reserved for promised deadlines \$250.00 · spent \$1,000.00")
    )
    money.get_by_text("As a table").click()
    sync_api.expect(money.locator("tbody tr")).to_have_count(25)
    sync_api.expect(page.locator("figure")).to_have_count(2)
    sync_api.expect(page.locator("tr[data-key=release]")).to_contain_text("4 spot")
    page.goto(day.server.url + "/machines")
    sync_api.expect(page.locator("tr[data-key='zone spot']")).to_contain_text("216610$32.00counting")
    sync_api.expect(page.locator("tr", has_text="i-9z9z")).to_contain_text("orphan")
    page.context.close()
    assert day.complained() == []


HOLDINGS = [{"job": "counting", "pool": "what the market calls it", "spot_gpus": 6, "on_demand_gpus": 0}]
"""Machines of one pool serve every pool of a market."""


def look_ahead(day: Day) -> None:
    """Pools show when spot was last taken back, and what they will probably offer."""
    page = day.logged_in("/markets")
    pool = page.locator(".pool[data-pool=zone]")
    sync_api.expect(pool).to_contain_text("Chance of any spot: 100 % in 1 h")
    sync_api.expect(pool.get_by_role("img").first).to_have_attribute(
        "aria-label", re.compile("8 of 10 futures")
    )
    sync_api.expect(page.locator("tr[data-key=zone]")).to_contain_text("$2.00")
    page.context.close()
    assert day.complained() == []


def compare_only_what_was_finished(day: Day) -> None:
    """A job that was stopped at its deadline saved nothing, and no plan would have met that deadline."""
    done = day.server.ask("GET", "/api/v1/jobs/counting")[1]
    cost = day.server.ask("GET", "/api/v1/jobs/counting/cost")[1]
    stopped = {**done, "name": "stopped", "status": "deadline_missed", "progress_gpu_hours": 1.0}
    page = day.logged_in("/markets")
    page.route("**/api/v1/jobs?limit=*", lambda route: route.fulfill(json={"jobs": [done, stopped]}))
    page.route("**/api/v1/jobs/stopped/cost", lambda route: route.fulfill(json=cost))
    page.goto(day.server.url + "/")
    row = page.locator("tr[data-key=counting]")
    sync_api.expect(row.locator("td[data-label=saved]")).to_contain_text("%")
    compared = page.locator("tr[data-key=stopped]")
    for name in ("on demand", "clairvoyant", "saved"):
        sync_api.expect(compared.locator(f"td[data-label='{name}']")).to_have_text("–")
    sync_api.expect(page.locator("dl.facts")).to_contain_text("1 job compared")
    page.context.close()
    assert day.complained() == []


def look_for_what_is_not_there(day: Day) -> None:
    """A page of a job that the server does not have says so, and asks no more."""
    page, asked = day.logged_in("/markets"), list[str]()
    page.goto("about:blank")  # what the page before still requests is not counted
    page.on("request", lambda request: asked.append(request.url))
    page.goto(day.server.url + "/jobs/nosuch")
    sync_api.expect(page.locator("main")).to_contain_text("This server has no job of that name. All jobs")
    assert not [url for url in asked if re.search(r"/api/.*(/logs|/events|/course)", url)]
    page.context.close()
    assert all("404" in one for one in day.complained())


FOCUS_IS_SEEN = """() => {
  const one = document.activeElement, look = getComputedStyle(one), box = one.getBoundingClientRect();
  const out = parseFloat(look.outlineOffset) + parseFloat(look.outlineWidth) - 0.5;
  for (let up = one.parentElement; up; up = up.parentElement) {
    const clip = up.getBoundingClientRect();
    if (getComputedStyle(up).overflowX === "visible") continue;
    if (box.top - out < clip.top || box.bottom + out > clip.bottom) return false;
  }
  return look.outlineStyle !== "none";
}"""
"""Whether what has the focus has an outline, and no box around it cuts that off."""


def walk_by_keyboard(day: Day) -> None:
    """Whoever has only a keyboard sees where it is, skips the menu, and reaches a job and its charts."""
    page = day.logged_in("/", viewport={"width": 390, "height": 800})
    live(page)
    page.keyboard.press("Tab")
    sync_api.expect(page.get_by_text("Skip to the content")).to_be_focused()
    sync_api.expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("main")).to_be_focused()
    link = page.get_by_role("link", name="counting")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS_IS_SEEN), page.evaluate("document.activeElement.outerHTML")
        if link.evaluate("link => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(day.server.url + "/jobs/counting")
    sync_api.expect(page.locator("figure svg[role=img]")).to_have_count(4)
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS_IS_SEEN), page.evaluate("document.activeElement.outerHTML")
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
    sync_api.expect(page.locator("figure.plan-ranges svg")).to_have_count(2)
    sync_api.expect(page.locator("figure", has_text="When it would finish")).to_contain_text("deadline 8d8h")
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
    report = page.get_by_role("link", name="Report")
    sync_api.expect(report).to_have_attribute("href", "/api/v1/jobs/counting/report")
    sync_api.expect(report, "the page of the job stays where it is").to_have_attribute("target", "_blank")
    sync_api.expect(page.locator(".charts figure")).to_have_count(4)
    sync_api.expect(page.locator("dl.facts")).to_contain_text(re.compile(r"saved\d+\s%"))
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
    text = f'name: {LONG}\nrun: "{command}"\nresources: {{accelerators: "H100:1"}}\nwork: 1 gpu-hours\n'
    page.get_by_label("Job file").fill(text + "deadline: 100h\npolicy: on-demand\n")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(f"{day.server.url}/jobs/{LONG}")
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
    sync_api.expect(page.locator(".title")).to_contain_text("read-only")
    tokens_of(day.journal).revoke("reader")
    with suppress(sync_api.Error):  # the page may be on its way to the login by itself
        page.reload()
    page.wait_for_url(re.compile("/login"))
    page.context.close()
    day.complained()


def restart(day: Day) -> None:
    """An open page survives a restart of the server, and a user can leave."""
    page, form = day.logged_in("/"), day.logged_in("/submit")
    live(page)
    sync_api.expect(form.get_by_role("button", name="Plan")).to_be_visible()
    day.server.kill()
    sync_api.expect(page.locator("#live")).to_contain_text("reconnecting")
    form.get_by_role("button", name="Plan").click()
    sync_api.expect(form.locator("#problem"), "who asks for something is told").to_contain_text(
        "The server does not answer"
    )
    form.context.close()
    day.server.start()
    live(page)
    job = {"text": JOB.format(command="true").replace("counting", "after"), "name": "after.yaml"}
    assert day.server.ask("POST", "/api/v1/jobs?wait=60", job)[0] == 201
    sync_api.expect(page.locator("tr[data-key=after]")).to_contain_text("after")
    assert urlsplit(page.url).path == "/", "the session outlived the server"
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(day.server.url + "/login")
    page.goto(day.server.url + "/fleet")
    page.wait_for_url(re.compile(r"/login\?next="))
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
    page.wait_for_url(re.compile(r"/login\?ended&next=%2F"))
    sync_api.expect(page.locator("#ended"), "it is said why").to_contain_text("Your session has ended")
    page.context.close()
    day.complained()


def test_a_day_at_the_dashboard(day: Day) -> None:
    log_in(day)
    open_every_page(day)
    run_a_job(day)
    read_a_chart(day)
    print_markup(day)
    open_every_page(day, "/jobs/counting", f"/jobs/{LONG}")
    look_at_a_fleet_and_machines(day)
    look_ahead(day)
    compare_only_what_was_finished(day)
    look_for_what_is_not_there(day)
    walk_by_keyboard(day)
    make_a_mistake(day)
    only_look(day)
    restart(day)
    lose_the_token(day)
