"""The process that answers costly questions: a line with a limit, a time limit, deaths that are survived."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from slacktide.core.errors import BackendError, InputError
from slacktide.service.access import Who
from slacktide.service.handler_context import Answering, awaited
from slacktide.service.tasks import task_process, task_worker
from slacktide.service.tasks.task_worker import (
    BusyError,
    QueuePosition,
    Setting,
    StoppingError,
    TaskError,
    TaskWorker,
)
from tests.unit.service.parts_of_api import House

ANSWERING = """
import json, os, sys, time
sys.stdin.readline()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["verb"] == "die":
        os._exit(3)
    if asked["verb"] == "sleep":
        time.sleep(1000)
    if asked["verb"] == "much":
        print(json.dumps({"error": {"kind": "OutOfMemoryError", "message": "too much"}}), flush=True)
        continue
    if asked["verb"] == "steps":
        print(json.dumps({"progress": [1, 2]}), flush=True)
    print(json.dumps({"answer": {"pid": os.getpid()}}), flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskWorker:
    """A worker whose process answers with its own number."""
    script = tmp_path / "answering.py"
    script.write_text(ANSWERING, encoding="utf-8")
    made = TaskWorker(Setting(journal="none"))
    real = asyncio.create_subprocess_exec

    async def start(*command: str, **more: Any) -> Any:
        return await real(sys.executable, str(script), **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return made


def test_a_process_that_dies_is_said_and_started_again(worker: TaskWorker) -> None:
    async def asked() -> None:
        first = (await worker.run("a", {}))["pid"]
        assert (await worker.run("b", {}))["pid"] == first
        with pytest.raises(BackendError, match="but it ended; try again"):
            await worker.run("die", {})
        second = (await worker.run("a", {}))["pid"]
        assert second != first
        process = worker._process
        assert process is not None
        process.kill()
        await process.wait()
        assert (await worker.run("a", {}))["pid"] != second
        await worker.close()

    asyncio.run(asked())


@pytest.mark.parametrize("started", [True, False])
def test_who_waits_while_the_server_stops_is_told_so_at_once(worker: TaskWorker, *, started: bool) -> None:
    async def asked() -> None:
        places = [QueuePosition(), QueuePosition()]
        waiting = [asyncio.ensure_future(worker.run("sleep", {}, place=place)) for place in places]
        await asyncio.sleep(0)
        while started and worker._process is None:
            await asyncio.sleep(0)
        assert (worker._process is not None) == started
        worker.stop()
        for one in (*waiting, asyncio.ensure_future(worker.run("a", {}))):
            with pytest.raises(StoppingError, match="while it stops"):
                await one
        assert worker._process is None

    asyncio.run(asked())


def test_a_question_has_a_time_limit(worker: TaskWorker) -> None:
    async def asked() -> None:
        worker._patience_s = 0.2
        with pytest.raises(BackendError, match=r"answered in 0\.2 s, got no answer; request less"):
            await worker.run("sleep", {})
        worker._patience_s = 60.0
        assert await worker.run("a", {})
        await worker.close()

    asyncio.run(asked())


def test_a_question_knows_its_place_and_too_many_are_refused(worker: TaskWorker) -> None:
    async def asked() -> None:
        places = [QueuePosition(str(number)) for number in range(task_worker.MOST_WAITING)]
        tasks = [asyncio.ensure_future(worker.run("sleep", {}, place=place)) for place in places]
        await asyncio.sleep(0)
        assert [place.ahead for place in places] == list(range(task_worker.MOST_WAITING))
        with pytest.raises(BusyError) as refused:
            await worker.run("a", {})
        assert (refused.value.http_status, refused.value.retry_after_s) == (503, 5)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        place = QueuePosition()
        assert await worker.run("steps", {}, place=place)
        assert (place.done, place.total) == (1, 2)
        await worker.close()

    asyncio.run(asked())


def test_callers_take_turns_and_none_takes_the_whole_line(worker: TaskWorker) -> None:
    async def asked() -> None:
        order: list[str] = []

        async def ask(caller: str, place: QueuePosition) -> None:
            await worker.run("a", {}, place=place)
            order.append(caller)

        callers = ["bob"] * task_worker.MOST_OF_EACH + ["ann", "ann", "eve"]
        places = [QueuePosition(caller) for caller in callers]
        tasks = [
            asyncio.ensure_future(ask(caller, place)) for caller, place in zip(callers, places, strict=True)
        ]
        await asyncio.sleep(0)
        assert [place.ahead for place in places[-3:]] == [1, 4, 2]
        with pytest.raises(BusyError, match="of each caller"):
            await worker.run("a", {}, place=QueuePosition("bob"))
        await asyncio.gather(*tasks)
        assert order == ["bob", "ann", "eve", "bob", "ann", *["bob"] * (task_worker.MOST_OF_EACH - 2)]
        await worker.close()

    asyncio.run(asked())


def test_a_question_has_a_share_of_the_memory(tmp_path: Path) -> None:
    script = (
        "import os, resource\n"
        "from slacktide.app.task_requests import NoDetails\n"
        "from slacktide.service.tasks import task_process, verbs\n"
        "bound = lambda *given: {'bytes': resource.getrlimit(resource.RLIMIT_DATA)[0]}\n"
        "verbs.VERBS['much'] = NoDetails, lambda *given: bytearray(1 << 60)\n"
        "verbs.VERBS['bound'] = NoDetails, bound\n"
        "task_process.main()\n"
    )
    lines = [{"journal": "none"}, *({"verb": verb, "request": {}} for verb in ("bound", "much", "bound"))]
    with subprocess.Popen(
        [sys.executable, "-c", script], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        process.stdin.flush()
        first, second, third = (json.loads(process.stdout.readline()) for _ in range(3))
    assert process.returncode == 0, "the process ends with its input"
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * task_process.SHARE_OF_MEMORY
    assert first == third
    assert first["answer"]["bytes"] <= most
    error = second["error"]
    assert (error["exit_code"], error["status"]) == (4, 502)
    assert "request less" in error["message"]


def test_after_one_that_ran_out_of_memory_comes_a_new_process(worker: TaskWorker) -> None:
    async def asked() -> None:
        first = (await worker.run("a", {}))["pid"]
        with pytest.raises(TaskError):
            await worker.run("much", {})
        assert (await worker.run("a", {}))["pid"] != first
        await worker.close()

    asyncio.run(asked())


def frames(house: House, ask: Answering) -> list[tuple[str, Any]]:
    """Answering as one who accepts a stream; return the kind and the data of every message."""

    async def asked() -> list[Any]:
        headers = [(b"accept", b"text/event-stream")]
        scope = {"type": "http", "headers": headers, "state": {"who": Who("ann", "read")}}
        answer = await awaited(Request(scope), ask, house.service.error_response)
        assert isinstance(answer, StreamingResponse)
        return [frame async for frame in answer.body_iterator]

    parts = [str(frame).strip().split("\n") for frame in asyncio.run(asked())]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in parts]


def test_who_accepts_a_stream_hears_how_far_the_answer_is(house: House) -> None:
    async def answer(place: QueuePosition) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"found": 1}

    async def refuse(place: QueuePosition) -> dict[str, Any]:
        raise InputError("it must be right, got wrong")

    began = ("progress", {"ahead": 0, "done": 0, "total": 0})
    assert frames(house, answer) == [began, ("answer", {"found": 1})]
    error = {"kind": "InputError", "message": "it must be right, got wrong", "exit_code": 2}
    assert frames(house, refuse)[-1] == ("error", {"error": error, "status": 400})


def test_a_full_line_is_said_to_be_full(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*given: Any, **more: Any) -> dict[str, Any]:
        raise BusyError("at most 16 costly questions may wait, got more; try again later")

    monkeypatch.setattr(house.service.tasks, "run", full)
    answer = house.ask("POST", "/api/v1/plan", {"text": "any"})
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


def test_the_page_of_a_run_shows_itself_and_runs_nothing(house: House) -> None:
    job = house.run_a_job()
    page = house.ask("GET", f"/api/v1/jobs/{job}/report", token=house.reader)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "sandbox" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["content-disposition"] == 'inline; filename="job.html"'
    assert b"<script" not in page.body
    picture = house.ask("GET", f"/api/v1/jobs/{job}/plot?form=svg")
    assert (picture.status, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert house.ask("GET", f"/api/v1/jobs/{job}/plot?form=bmp").status == 400
    assert house.ask("GET", "/api/v1/jobs/nobody/report").status == 404


def test_machine_code_is_made_by_a_process_that_ends_with_the_server(house: House) -> None:
    async def begun_and_left() -> None:
        house.service.warm_after_s = 0.0
        begun = asyncio.ensure_future(house.service.warm_up())
        await asyncio.sleep(0.3)
        begun.cancel()
        await asyncio.wait([begun])

    asyncio.run(begun_and_left())
    code = (
        f"import time, {task_process.__name__} as made; made.warm_up = lambda: time.sleep(1000); made.main()"
    )
    command = [sys.executable, "-c", code, task_process.WARM_UP]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0
