"""What addresses answer: as the description of the API says, and as the command line prints."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import threading
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import jsonschema
import pytest
import yaml

from slacktide.app.alerts.outbox import Outbox
from slacktide.app.journal.journal import open_journal
from slacktide.app.task_requests import SubmitRequest
from slacktide.cli import run
from slacktide.core.errors import BackendError
from slacktide.journal.events import FeedTroubled
from slacktide.journal.state import jobs
from slacktide.market.formats.whole_market import whole_bytes
from slacktide.market.source import open_market
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import save
from slacktide.service import hub as hub_module
from slacktide.service.handler_context import SENDERS_EACH
from slacktide.service.journal_reader import WITHIN, JournalReader, KeyTakenError
from slacktide.service.routes.endpoints import parameters_of
from slacktide.service.server import endpoints_of
from slacktide.service.uploads.uploads import UploadCache

from .parts_of_api import JOB, Answer, House, scope_of

JOBS = "/api/v1/jobs"
MARKETS = "/api/v1/uploads/markets"


def checked(house: House, method: str, path: str, template: str, answer: Answer) -> Answer:
    """See that an answer is one that the description of the API promises."""
    document = house.ask("GET", "/api/v1/openapi.json").json
    promised = document["paths"][template][method.lower()]["responses"]
    assert str(answer.status) in promised, (path, answer)
    content = promised[str(answer.status)].get("content", {})
    if "application/json" in content:
        schema = {**content["application/json"]["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json)
    return answer


def test_every_address_answers_as_described(house: House) -> None:
    job = house.run_a_job()
    bodies: dict[tuple[str, str], object] = {
        ("POST", JOBS): {"text": JOB.replace("name: job", "name: other")},
        ("POST", "/api/v1/plan"): {"text": "nothing"},
        ("POST", "/api/v1/backtest"): {"text": JOB, "starts": 0},
        ("POST", "/api/v1/learned"): {"text": JOB, "jobs": 0},
        ("POST", "/api/v1/session"): {"token": house.reader},
        ("POST", f"{JOBS}/{{job}}/preempt"): {"gpus": 1},
    }
    statuses = {}
    for one in endpoints_of(house.service):
        path = one.path.replace("{job}", job).replace("{key}", "k").replace("{sha256}", "0" * 64)
        path = path.replace("{fleet}", "none")
        query = "?wait=0" if one.path == JOBS and one.method == "POST" else ""
        answer = house.ask(one.method, path + query, bodies.get((one.method, one.path)))
        checked(house, one.method, path, one.path, answer)
        statuses[one.method, one.path] = answer.status
    refused = {place: status for place, status in statuses.items() if status >= 400}
    assert refused == {
        ("POST", "/api/v1/plan"): 400,
        ("POST", "/api/v1/backtest"): 400,
        ("POST", "/api/v1/learned"): 400,
        ("GET", "/api/v1/markets/forecast"): 400,
        ("GET", "/api/v1/fleet/{fleet}/course"): 404,
        ("GET", "/api/v1/uploads/{sha256}"): 404,
        ("PUT", "/api/v1/uploads/{sha256}"): 400,
        ("GET", "/api/v1/uploads/markets/{sha256}"): 404,
        ("PUT", "/api/v1/uploads/markets/{sha256}"): 400,
    }


def test_anything_that_is_sent_is_answered_as_described(house: House) -> None:
    """A fuzz of the schema by hand: no input leads to an answer that nobody promised, least of all a 500."""
    house.run_a_job()
    draw = random.Random(7)
    odd: list[Any] = [
        None,
        True,
        0,
        -1,
        1e308,
        "",
        "a",
        "\x00",
        "é" * 300,
        "../..",
        [],
        [1],
        {},
        {"x": {}},
        "9" * 40,
        "inf",
    ]
    endpoints = [one for one in endpoints_of(house.service) if "cost" not in one.path]
    for _ in range(250):
        one = draw.choice(endpoints)
        names = {"job": draw.choice(["job", "nope", "k"]), "key": draw.choice(["k", "x"]), "sha256": "0" * 63}
        names["fleet"] = draw.choice(["none", "%00"])
        path = one.path.format(**names)
        query = "&".join(
            f"{name}={draw.choice(['1', '-1', 'x', '', '1e9', 'true'])}" for name in parameters_of(one.query)
        )
        fields = list(getattr(one.body, "__struct_fields__", ()))
        body: Any = draw.choice(odd)
        if fields and draw.random() < 0.7:
            body = {name: draw.choice(odd) for name in fields if draw.random() < 0.6}
        answer = house.ask(one.method, f"{path}?{query.replace('wait=1&', 'wait=0&')}", body)
        checked(house, one.method, path, one.path, answer)
        assert answer.status != 500, (one.method, path, query, body, answer.body)


def test_jobs_have_the_keys_of_the_command_line(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.run_a_job()
    assert run(["jobs", "-o", "json", "--journal", str(house.path)]) == 0
    assert json.loads(capsys.readouterr().out) == house.ask("GET", JOBS).json
    assert run(["why", "job", "-o", "json", "--journal", str(house.path)]) == 0
    assert json.loads(capsys.readouterr().out) == house.ask("GET", f"{JOBS}/job/why").json
    assert run(["events", "job", "-o", "json", "--journal", str(house.path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lines[0]["path"] = "job.yaml"  # over the network without its folder
    assert lines == house.ask("GET", f"{JOBS}/job/events").json["events"]
    assert run(["cost", "-o", "json", "--journal", str(house.path)]) == 0
    assert house.ask("GET", "/api/v1/cost").json == {**json.loads(capsys.readouterr().out), "notes": []}


def test_jobs_are_filtered(house: House) -> None:
    house.run_a_job()
    for query, count in (("state=active", 1), ("state=succeeded", 0), ("health=late", 0), ("name=jo", 1)):
        assert len(house.ask("GET", f"{JOBS}?{query}").json["jobs"]) == count, query
    assert house.ask("GET", f"{JOBS}?health=odd").status == 400
    assert house.ask("GET", f"{JOBS}?limit=0").status == 400


def test_the_same_key_is_the_same_job(house: House) -> None:
    house.run_a_job()
    again = house.ask("POST", JOBS, {"text": JOB}, key="k")
    assert (again.status, again.json) == (201, {"key": "k", "job": "job"})
    assert house.ask("GET", "/api/v1/requests/k").json == {"key": "k", "job": "job"}
    other = house.ask("POST", JOBS, {"text": JOB.replace("4 gpu", "3 gpu")}, key="k")
    assert (other.status, other.json["error"]["kind"]) == (409, "KeyTakenError")
    for key in ("a/b", "a..b", "a\\b"):  # nobody could ask for it
        assert house.ask("POST", JOBS, {"text": JOB}, key=key).status == 400, key
    assert house.ask("GET", "/api/v1/requests/none").status == 404


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the YAML parser reads while a test runs."""
    texts: list[str] = []

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def parse(text: str, **given: Any) -> Any:
            texts.append(text)
            return real(text, **given)

        return parse

    monkeypatch.setattr(yaml, "parse", counting(yaml.parse))
    monkeypatch.setattr(yaml, "compose", counting(yaml.compose))
    return texts


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("jobs?wait=0", {}),
        ("plan", {}),
        ("plan", {"check": True}),
        ("backtest", {"starts": 2}),
        ("learn", {"jobs": 1}),
    ],
)
def test_a_job_file_that_is_sent_is_parsed_once(
    house: House, parsed: list[str], path: str, more: dict[str, Any]
) -> None:
    address = "/api/v1/learned" if path == "learn" else f"/api/v1/{path}"
    answer = house.ask("POST", address, {"text": JOB, **more})
    assert answer.status in (200, 202), answer.body
    assert parsed == [JOB]


def test_a_secret_is_taken_out_of_the_text_of_a_job(house: House, parsed: list[str]) -> None:
    sent = house.ask("POST", "/api/v1/jobs?wait=0", {"text": f"{JOB}secrets: {{KEY: hidden}}\n"})
    assert (sent.status, len(parsed)) == (202, 2), "read, and taken out of what the journal gets"
    assert all(b"hidden" not in path.read_bytes() for path in house.path.parent.glob("journal.db*"))


@pytest.mark.parametrize("first", [{}, {"policy": '{"on-demand": {}}'}, {"pool": "h100-1", "sight": "tried"}])
@pytest.mark.parametrize("events_between", [0, 3 * WITHIN])
def test_a_key_is_for_one_policy_and_pool_whether_the_job_waits_or_runs(
    house: House, first: dict[str, str], events_between: int
) -> None:
    job = {"text": JOB, **first}
    others = [{**job, "policy": "maximal-spot"}, {**job, "pool": "elsewhere"}]
    others += [{"text": JOB}] if first else []

    def check(status: int) -> None:
        assert house.ask("POST", f"{JOBS}?wait=0", job, key="k").status == status
        for other in others:
            answer = house.ask("POST", f"{JOBS}?wait=0", other, key="k")
            assert (answer.status, answer.json["error"]["kind"]) == (409, "KeyTakenError"), other

    check(202)
    house.store.append([FeedTroubled(at_hours=0.0)] * events_between)
    house.take_in()
    check(201)


def test_what_the_controller_refuses_is_told(house: House) -> None:
    text = JOB.replace("deadline: 12h", "deadline: none")  # which needs a fleet
    assert house.ask("POST", f"{JOBS}?wait=0", {"text": text}, key="no").status == 202
    house.take_in()
    answer = house.ask("GET", "/api/v1/requests/no")
    assert answer.status == 400
    assert answer.message.startswith("job.yaml: a job without a deadline")
    late = JOB.replace("deadline: 12h", "deadline: 1m")
    assert house.ask("POST", JOBS, {"text": late}).status == 409


def test_jobs_are_cancelled_withdrawn_and_preempted(house: House) -> None:
    house.run_a_job()
    assert house.ask("POST", f"{JOBS}/job/preempt", {"gpus": 1}).json == {"job": "job", "gpus": 1}
    assert house.ask("POST", f"{JOBS}/job/preempt", {"gpus": 0}).status == 400
    assert house.ask("POST", f"{JOBS}/job/cancel").json == {"job": "job", "withdrawn": False}
    house.live(0.1)
    house.live(0.1)
    assert house.ask("GET", f"{JOBS}/job").json["status"] == "cancelled"
    assert house.ask("POST", f"{JOBS}/job/cancel").status == 400
    assert house.ask("POST", f"{JOBS}?wait=0", {"text": JOB}, key="w").status == 202
    assert house.ask("GET", "/api/v1/journal").json["waiting"] == [{"key": "w", "path": "job.yaml"}]
    assert house.ask("POST", f"{JOBS}/w/cancel").json == {"job": "w", "withdrawn": True}
    assert "ann: cancelled job" in house.said


def test_events_come_in_pages_and_exactly(house: House) -> None:
    house.run_a_job()
    first = house.ask("GET", "/api/v1/events?limit=2").json
    assert ([one["seq"] for one in first["events"]], first["next"]) == ([1, 2], 2)
    rest = house.ask("GET", "/api/v1/events?after=2").json
    assert rest["next"] is None
    with open_journal(house.path) as journal:
        assert [one["seq"] for one in rest["events"]] == [told.record.seq for told in journal.events(after=2)]
    exact = house.ask("GET", "/api/v1/events?limit=1&form=journal").json["events"][0]
    assert exact["event"]["kind"] == "JournalMade"
    assert house.ask("GET", f"{JOBS}/none/events").status == 404


def test_listeners_hear_what_happens_from_where_they_were(house: House) -> None:
    job = house.run_a_job()
    hub = house.service.hub

    async def listen(after: int, texts: int, only: str | None = job) -> list[str]:
        hub.publish(*await house.journal_reader.run(house.journal_reader.news))
        stream = hub.stream(after, only, False, True)
        return [await anext(stream) for _ in range(texts)]

    heard = "".join(asyncio.run(listen(0, 2)))
    seqs = [int(line.removeprefix("id: ")) for line in heard.splitlines() if line.startswith("id: ")]
    events = house.ask("GET", f"{JOBS}/{job}/events").json["events"]
    assert seqs == [one["seq"] for one in events]
    data = [json.loads(line[6:]) for line in heard.splitlines() if line.startswith("data: ")]
    assert data == events
    again = "".join(asyncio.run(listen(seqs[3], 2)))
    assert f"id: {seqs[3]}\n" not in again
    assert f"id: {seqs[4]}\n" in again
    assert house.ask("GET", "/api/v1/events", accept="text/event-stream", last_event_id="x").status == 400


def test_a_stream_ends_with_its_job(house: House) -> None:
    job = house.run_a_job()
    house.ask("POST", f"{JOBS}/{job}/cancel")
    house.live(0.1)
    house.live(0.1)

    async def listen(after: int) -> list[str]:
        house.service.hub.publish(*await house.journal_reader.run(house.journal_reader.news))
        return [text async for text in house.service.hub.stream(after, job, True, True)]

    assert asyncio.run(listen(0))[-1].startswith("event: over")
    again = asyncio.run(asyncio.wait_for(listen(house.service.hub.seq), 60.0))
    assert again[-1].startswith("event: over"), "the connection broke just after the end was told"


def test_health_says_what_is_wrong(house: House) -> None:
    assert house.ask("GET", "/healthz", token=None).json["status"] == "ok"
    house.lease.__exit__(None, None, None)
    house.journal_reader._in_charge = (float("-inf"), False)
    answer = house.ask("GET", "/healthz", token=None)
    assert (answer.status, answer.json["lease_held"]) == (503, False)


def test_figures_have_prometheus_names(house: House) -> None:
    house.run_a_job()
    lines = house.ask("GET", "/metrics").body.decode().splitlines()
    names = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert all(name.startswith("slacktide_") for name in names)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in names.items())
    assert any(line.startswith('slacktide_job_gpus{job="job",capacity_type="spot",pool=') for line in lines)


def test_the_market_is_told_up_to_now(house: House) -> None:
    house.run_a_job()
    (pool,) = house.ask("GET", "/api/v1/markets?slots=500").json["pools"]
    assert len(pool["spot_gpus"]) == len(pool["spot_usd_per_gpu_hour"]) < 200, (
        "a market of four days, not all"
    )
    assert house.ask("GET", "/api/v1/markets?pool=none").status == 400
    assert (pool["taken_hours_ago"], pool["refused_hours_ago"], pool["until_utc"]) == (None, None, None)


def test_what_is_held_stands_beside_what_is_rented_and_a_job_tells_its_terms(house: House) -> None:
    house.run_a_job()
    found, job = house.ask("GET", "/api/v1/machines").json, house.ask("GET", f"{JOBS}/job").json
    assert found["machines"] == []
    assert [one["job"] for one in found["holdings"]] == ["job"] * bool(
        job["spot_gpus"] + job["on_demand_gpus"]
    )
    assert (job["deadline_kind"], job["work_known"]) == ("hard", True)


SAID = {
    "HTTP 503 Service Unavailable": "HTTP 503 Service Unavailable",
    "https://hooks.inner must not lead to a private address, got 10.1.2.3": (
        "(hidden) must not lead to a private address, got (hidden)"
    ),
    "http://[fd00::1]:8 must not lead to a private address, got fd00::1": (
        "(hidden) must not lead to a private address, got (hidden)"
    ),
    "its certificate is not valid: Hostname mismatch, certificate is not valid for 'hooks.inner'.": (
        "its certificate is not valid: Hostname mismatch, certificate is not valid for (hidden)."
    ),
    "no answer within 5 s": "no answer within 5 s",
}


def test_readers_see_where_hooks_stand_but_not_where_they_lead(house: House) -> None:
    assert house.ask("GET", "/api/v1/alerts", token=house.reader).json == {"hooks": []}
    outbox = Outbox(house.path)
    outbox.know([str(number) for number in range(len(SAID))])
    for number, said in enumerate(SAID):
        outbox.failed(str(number), said)
    outbox.close()
    answer = house.ask("GET", "/api/v1/alerts", token=house.reader)
    checked(house, "GET", "/api/v1/alerts", "/api/v1/alerts", answer)
    assert [one["error"] for one in answer.json["hooks"]] == list(SAID.values())
    assert {one["failed"] for one in answer.json["hooks"]} == {1}
    assert house.ask("GET", "/api/v1/alerts", token=None).status == 401


def test_a_pool_is_forecast_from_now_on(house: House) -> None:
    assert house.ask("GET", "/api/v1/markets/forecast?pool=none").status == 400
    house.run_a_job()
    (pool,) = house.ask("GET", "/api/v1/markets").json["pools"]
    found = house.ask("GET", f"/api/v1/markets/forecast?hours=6&pool={pool['name']}").json["forecast"]
    assert found["spot_gpus"]["p50"][0] == pool["spot_gpus"][-1]
    assert len(found["spot_gpus"]["p50"]) == 13
    assert house.ask("GET", f"/api/v1/markets/forecast?hours=0&pool={pool['name']}").status == 400


def test_the_course_of_a_job_is_told_for_pictures(house: House) -> None:
    house.run_a_job()
    house.live(2.0)
    found = house.ask("GET", f"{JOBS}/job/course", token=house.reader).json
    assert found["job"] == "job"
    assert found["points"][0]["hours"] == pytest.approx(0.1), "its first decision, by its own clock"
    assert found["points"][-1]["cost_usd"] == house.ask("GET", f"{JOBS}/job").json["cost_usd"]
    decided = [one for one in found["happenings"] if one["kind"] == "Decided"]
    assert decided
    assert all(one["because"] for one in decided)
    assert [one["seq"] for one in found["happenings"]] == sorted(one["seq"] for one in found["happenings"])
    assert house.ask("GET", f"{JOBS}/none/course").status == 404


def test_jobs_that_ended_long_ago_are_told_as_all_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = house.run_a_job()
    house.ask("POST", f"{JOBS}/{job}/cancel")
    house.live(0.1)
    house.live(0.1)
    paths = [JOBS, f"{JOBS}?state=cancelled", f"{JOBS}?state=active", f"{JOBS}?limit=1", f"{JOBS}/{job}"]
    paths += [f"{JOBS}/{job}/why", f"{JOBS}/{job}/course", f"{JOBS}/{job}/events", "/api/v1/requests/k"]
    before = [house.ask("GET", path).json for path in paths]
    monkeypatch.setattr(jobs, "KEPT_ENDED", 0)
    monkeypatch.setattr(jobs, "BLOCK_JOBS", 1)
    house.journal_reader.fold._state = None  # so that it is read anew
    assert not house.journal_reader.fold().jobs.at_hand
    assert [house.ask("GET", path).json for path in paths] == before


def test_trust_in_policies_is_shown_to_all_and_taught_by_who_may_submit(house: House) -> None:
    path, lesson = "/api/v1/learned", {"text": JOB, "jobs": 3, "seed": 1}
    state = house.path.with_name("learn.json")
    save(Hedge(("uniform-progress", "maximal-spot", "on-demand")), state)
    shown = house.ask("GET", f"{path}?wants=text", token=house.reader)
    assert (shown.json["jobs"], shown.json["state"]) == (0, "learn.json")
    assert "nothing learned yet in learn.json" in shown.json["made"]["text"]
    assert house.ask("GET", f"{path}?wants=report").message.startswith("wants must be")
    for method in ("POST", "DELETE"):
        assert house.ask(method, path, lesson, token=house.reader).status == 403
    assert house.ask("POST", path, {**lesson, "wants": ["text"]}).json["jobs"] == 3
    assert "ann: teaches policies with job.yaml" in house.said
    assert house.ask("POST", path, {**lesson, "seed": -1}).message == "seed must be >= 0, got -1"
    house.ask("POST", path, {**lesson, "name": "x\nbob: submitted\x1b[2J"})
    assert all(line.isprintable() for line in house.said), "nobody writes a line in another's name"
    drawn = house.ask("GET", f"{path}?wants=svg", token=house.reader).json["made"]["svg"]
    assert b64decode(drawn).startswith(b"<?xml")
    again = house.ask("GET", f"{path}?pool_of=auto")
    assert again.status == 400
    assert str(state.parent) not in again.message
    assert house.ask("DELETE", path).status == 204
    assert not state.exists()
    assert house.ask("GET", f"{path}?pool_of=paper").json["jobs"] == 0


@pytest.mark.parametrize("name", ["", ".", "..", "/", "../job.yaml", "a\0b", "a\nb", "a" * 201, "é" * 101])
def test_a_job_file_of_a_question_has_a_name_that_files_can_have(house: House, name: str) -> None:
    for path in ("plan", "backtest", "learned"):
        answer = house.ask("POST", f"/api/v1/{path}", {"text": JOB, "name": name})
        assert answer.status == 400
        assert answer.message.startswith("the name of a job file must be")
    assert (
        house.ask("POST", "/api/v1/plan", {"text": JOB, "name": "my job (1).yaml", "check": True}).json == {}
    )


def test_a_reader_may_send_a_market_and_have_a_job_planned_on_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = JOB.replace("market: synthetic:h100?days=4&slot=30m&seed=2", "market: mine.csv")
    sent = whole_bytes(open_market("synthetic:h100?days=4&slot=30m&seed=3"))
    digests = {content: sha256(content).hexdigest() for content in (sent, b"a,b\n1,2\n", sent[:-50])}
    plan: dict[str, object] = {"text": mine, "check": True}

    def planned(digest: str) -> Answer:
        return house.ask("POST", "/api/v1/plan", {**plan, "sent": digest}, token=house.reader)

    assert "leave its market" in house.ask("POST", "/api/v1/plan", plan).message
    assert "must be sent before the request" in planned(digests[sent]).message
    for content, digest in digests.items():
        put = house.ask("PUT", f"{MARKETS}/{digest}", content, token=house.reader)
        assert put.status == 201, put.message
    assert house.ask("GET", f"{MARKETS}/{digests[sent]}", token=house.reader).status == 200
    assert planned(digests[sent]).status == 200
    assert "as the command line sends it" in planned(digests[b"a,b\n1,2\n"]).message
    broken = planned(digests[sent[:-50]])
    assert broken.status == 400
    assert broken.message.startswith(digests[sent[:-50]]), "and no folder of the server"
    for odd in ("../../journal.db", "0" * 63):
        assert "SHA-256" in planned(odd).message
    monkeypatch.setattr(
        house.journal_reader.uploads, "markets", replace(house.journal_reader.uploads.markets, most_bytes=10)
    )
    assert house.ask("PUT", f"{MARKETS}/{'0' * 64}", b"x" * 11, token=house.reader).status == 413
    assert len(list(house.journal_reader.uploads.markets.folder.iterdir())) == 3


def test_uploads_at_a_time_have_a_limit_for_each_caller(house: House) -> None:
    path = f"{MARKETS}/{sha256(b'x').hexdigest()}"
    with ExitStack() as coming:
        for _ in range(SENDERS_EACH):
            coming.enter_context(house.service.senders.one("bob"))
        assert house.ask("PUT", path, b"x", token=house.reader).status == 429
        assert house.ask("PUT", path, b"x").status == 201
    assert house.ask("PUT", path, b"x", token=house.reader).status == 201


def test_a_caller_that_leaves_in_an_upload_is_no_mistake_of_the_server(house: House) -> None:
    headers = {"host": "localhost", "authorization": f"Bearer {house.reader}"}
    scope = scope_of("PUT", f"{MARKETS}/{'0' * 64}", headers)

    async def left() -> list[Any]:
        coming, sent = [{"type": "http.request", "body": b"x", "more_body": True}], list[Any]()

        async def receive() -> dict[str, Any]:
            return coming.pop() if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await house.app(scope, receive, send)
        return sent

    asyncio.run(left())
    assert not any("internal error" in line for line in house.said)
    assert not list(house.journal_reader.uploads.markets.folder.iterdir())


def test_an_upload_that_the_disk_does_not_take_is_said(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(UploadCache, "keep", full)
    answer = house.ask("PUT", f"{MARKETS}/{sha256(b'x').hexdigest()}", b"x")
    assert answer.status == 502
    assert "No space left" in answer.message


def test_of_jobs_that_come_at_once_with_one_key_one_is_taken(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, real = threading.Barrier(2), JournalReader._is_known

    def is_known(journal_reader: JournalReader, request: SubmitRequest, key: str) -> bool:
        found = real(journal_reader, request, key)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # where both may look before either is taken in, they do
        return found

    monkeypatch.setattr(JournalReader, "_is_known", is_known)
    requests = [SubmitRequest(text=JOB.replace("name: job", f"name: {name}")) for name in ("one", "two")]

    def submit(request: SubmitRequest) -> str:
        try:
            house.journal_reader.submit(request, "key")
        except KeyTakenError:
            return "taken"
        return "accepted"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(submit, requests)) == ["accepted", "taken"]


def test_listeners_hear_on_after_a_moment_without_the_journal(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = JournalReader.news, list[str]()

    def news(journal_reader: JournalReader) -> Any:
        if not refused:
            refused.append("once")
            raise BackendError("the journal must stay where it is, got none there")
        return real(journal_reader)

    monkeypatch.setattr(JournalReader, "news", news)

    async def heard() -> bool:
        task = asyncio.create_task(house.service.pump())
        changed = await house.service.hub.changed(0, 60.0)
        task.cancel()
        return changed

    assert asyncio.run(heard())
    assert refused


def test_a_listener_who_is_ahead_of_the_journal_hears_what_comes_after_that(house: House) -> None:
    hub, journal_reader = house.service.hub, house.journal_reader

    async def heard() -> str:
        hub.publish(*await journal_reader.run(journal_reader.news))
        ahead = hub.seq + 2
        stream = hub.stream(ahead, None, False, False)
        await anext(stream)
        listening = asyncio.ensure_future(anext(stream))
        for number in range(4):
            await asyncio.sleep(0)
            house.store.append([FeedTroubled(at_hours=float(number))])
            hub.publish(*await journal_reader.run(journal_reader.news))
        return (await listening).partition("\n")[0].removeprefix(f"id: {ahead}")

    assert asyncio.run(heard())


def test_who_listens_to_a_silent_job_hears_something_while_others_make_the_news(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, hub, journal_reader = house.run_a_job(), house.service.hub, house.journal_reader
    monkeypatch.setattr(hub_module, "STILL_HERE_S", 0.0)

    async def heard() -> str:
        hub.publish(*await journal_reader.run(journal_reader.news))
        stream = hub.stream(hub.seq, job, False, False)
        await anext(stream)
        listening = asyncio.ensure_future(anext(stream))
        while not listening.done():  # there is always something new, and never of this job
            hub.publish((), hub.seq + 1)
            await asyncio.sleep(0)
        return await listening

    assert asyncio.run(heard()) == ": still here\n\n"


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("POST", "/api/v1/plan", {}, "Object missing required field `text`"),
        ("POST", "/api/v1/plan", {"text": "", "dedline": 1}, "Object contains unknown field `dedline`"),
        ("POST", "/api/v1/plan", {"text": 4}, "text must be `str`, got 4"),
        ("POST", "/api/v1/backtest", {"text": "", "starts": 501}, "starts must be `int` <= 500, got 501"),
        (
            "POST", "/api/v1/backtest", {"text": "", "sight": "no"},
            "sight must be one of feed, tried, got 'no'",
        ),
        (
            "POST", "/api/v1/plan", {"text": "", "wants": ["text", "bmp"]},
            "wants[1] must be one of csv, decisions, pdf, png, report, svg, text, got 'bmp'",
        ),
        ("POST", "/api/v1/jobs", {"text": "", "envs": {"A": 1}}, "envs[...]: Expected `str`, got `int`"),
        ("POST", f"{JOBS}/job/preempt", {"gpus": 0}, "gpus must be `int` >= 1, got 0"),
        ("GET", "/api/v1/jobs?limit=0", None, "limit must be `int` >= 1, got '0'"),
        ("GET", "/api/v1/events?form=odd", None, "form must be one of documented, journal, got 'odd'"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_as_documented_is_told_what_must_hold_and_what_came(
    house: House, method: str, path: str, body: object, message: str
) -> None:
    answer = house.ask(method, path, body)
    assert (answer.status, answer.json["error"]["kind"]) == (400, "InputError")
    assert answer.message == f"a request must be as documented: {message}"


def test_a_truth_value_in_an_address_is_true_or_false(house: House) -> None:
    answer = house.ask("GET", "/api/v1/cost?text=1")
    assert (answer.status, answer.message) == (400, "text must be true or false, got '1'")


@pytest.mark.parametrize(
    "query", ["events?after=null", "jobs?limit=null", "jobs?health=null", "jobs?limit=NULL"]
)
def test_a_parameter_that_is_given_has_a_value(house: House, query: str) -> None:
    answer = house.ask("GET", f"/api/v1/{query}")
    assert (answer.status, "must have a value or be left out" in answer.message) == (400, True)
    assert house.ask("GET", "/api/v1/jobs?name=null").json == {"jobs": []}
