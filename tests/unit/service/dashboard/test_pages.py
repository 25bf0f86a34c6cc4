"""The dashboard without a browser: pages behind the gate, files in their place, nothing from outside."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from slacktide.app.jobs.submission import FleetText
from slacktide.service.access import HEADERS
from slacktide.service.dashboard.pages import PAGES, pages, static_files
from slacktide.service.journal_reader import JournalReader
from slacktide.service.server import make_app
from tests.unit.service.parts_of_api import Answer, House, called

FLEET = FleetText("budget: 9 usd/day\nmarket: synthetic:h100\n", "/where/it/lies/team.yaml")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
"""The name of a vocabulary, which no browser asks for."""


class Site:
    """The application with its pages, asked as a browser asks."""

    def __init__(self, house: House) -> None:
        self.house, self._app = house, make_app(house.service, pages())

    def get(self, path: str, *, cookie: str = "", **more: str) -> Answer:
        """Ask for an address, in a session where there is one."""
        headers = {
            "host": "localhost",
            "accept": "text/html",
            **more,
            **({"cookie": cookie} if cookie else {}),
        }
        return asyncio.run(called(self._app, "GET", path, headers, [b""]))

    def log_in(self) -> str:
        """Open a session, and return its cookie."""
        opened = self.house.ask(
            "POST", "/api/v1/session", {"token": self.house.reader}, token=None, origin="http://localhost"
        )
        return opened.headers["set-cookie"].partition(";")[0]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The application on a journal of its own."""
    house = House(tmp_path)
    yield Site(house)
    house.close()


def addresses() -> list[str]:
    """Return an address of every page."""
    return [page.path.replace("{job}", "a%20job") for page in PAGES]


def test_every_page_is_behind_the_gate_and_has_its_headers(site: Site) -> None:
    cookie = site.log_in()
    for path in addresses():
        closed = site.get(path)
        if path == "/login":
            assert closed.status == 200, "who has no session must be able to open one"
        else:
            assert closed.status == 303
            assert closed.headers["location"].startswith("/login?next=/")
        opened = site.get(path, cookie=cookie)
        assert opened.status == 200, path
        assert opened.headers["content-type"] == "text/html; charset=utf-8"
        assert {name: opened.headers[name] for name in HEADERS} == HEADERS
        assert "default-src 'self'" in opened.headers["content-security-policy"]
        assert opened.headers["cache-control"] == "no-store"


def test_pages_hold_no_data_and_no_script_of_their_own(site: Site) -> None:
    cookie = site.log_in()
    for path in addresses():
        text = site.get(path, cookie=cookie).body.decode()
        assert "a job" not in text
        assert "a%20job" not in text
        assert re.findall(r"<script(?![^>]* src=)", text) == []
        assert re.findall(r"\son\w+=|\sstyle=", text) == []


def test_all_that_pages_and_scripts_name_is_there(site: Site) -> None:
    cookie, named = site.log_in(), set[str]()
    for path in addresses():
        text = site.get(path, cookie=cookie).body.decode()
        named |= set(re.findall(r'(?:src|href)="(/static/[^"]+)"', text))
        named |= {f"/static/pages/{name}.js" for name in re.findall(r'data-page="([a-z]+)"', text)}
    for name, one in static_files().items():
        if name.endswith(".js"):
            imported = re.findall(r'from "(\.[^"]+)"', one.content.decode())
            named |= {urljoin(f"/static/{name}", found) for found in imported}
    assert named == {f"/static/{name}" for name in static_files()}, (
        "all that is named is there, and nothing else"
    )
    for path in named:
        found = site.get(path)
        assert found.status == 200, path
        assert found.headers["x-content-type-options"] == "nosniff"
        assert site.get(path, **{"if-none-match": found.headers["etag"]}).status == 304


@pytest.mark.parametrize("name", ["", "none.js", "shell.html", "a/b.js", "pages", "pages/", "pages/app.js"])
def test_no_other_file_is_sent(site: Site, name: str) -> None:
    assert site.get(f"/static/{name}").status == 404


@pytest.mark.parametrize("name", ["../shell.html", "%2e%2e/pages.py", "pages/../../shell.html"])
def test_no_path_leads_out_of_the_folder(site: Site, name: str) -> None:
    assert site.get(f"/static/{name}").status == 404


@pytest.mark.parametrize("name", sorted(static_files()))
def test_scripts_make_no_markup_of_data_and_ask_nobody_else(name: str) -> None:
    text = static_files()[name].content.decode()
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
        == []
    )
    assert re.findall(r"\b(?:https?|wss?):", text.replace(SVG_NAMESPACE, "")) == []
    assert "//cdn" not in text


def test_a_fleet_without_jobs_is_known_by_the_name_of_its_file(site: Site) -> None:
    assert site.house.ask("GET", "/api/v1/fleet").json == {"fleets": [], "file": None}
    reader = JournalReader(site.house.path, fleet=FLEET)
    assert reader.fleet_file == "team.yaml", "and not by its folder"
    reader.close()
