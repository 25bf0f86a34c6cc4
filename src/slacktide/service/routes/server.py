"""Routes for what all jobs share: the journal, market, fleets, machines, alerts, learned trust, health."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from slacktide.app.alerts.outbox import statuses_for_readers
from slacktide.app.markets.market_now import MOST_HOURS, MOST_SLOTS
from slacktide.app.task_requests import LearnedRequest, LearnRequest, PoolName, as_request
from slacktide.core.errors import SlacktideError
from slacktide.journal.state.journal_state import PoolNews
from slacktide.service.handler_context import Routes, place_of
from slacktide.service.metrics import family, hook_lines, state_lines
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import Query, body_of, endpoint, note, query_of, says

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
LEARNED = "/api/v1/learned"


class MarketQuery(Query, frozen=True):
    """How much of the market to show."""

    slots: Annotated[int, says("How many slots up to now.", ge=1, le=MOST_SLOTS)] = 1
    pool: Annotated[str, says("Only this pool.")] = ""


class ForecastQuery(Query, frozen=True):
    """Which pool to forecast, and how far."""

    pool: Annotated[str, says("Which pool.")] = ""
    hours: Annotated[int, says("How far ahead; 24 by default.", ge=1, le=MOST_HOURS)] = 24


class LearnedQuery(Query, frozen=True):
    """How to show what was learned."""

    pool_of: Annotated[PoolName, says("What to choose from where nothing is learned.")] | None = None
    wants: Annotated[str, says("What else to make of it: text, png, svg, pdf, with commas.")] = ""


class ServerRoutes(Routes):
    """Answers requests about what all jobs share."""

    @endpoint("GET", "/api/v1/journal", forms.JournalAnswer)
    async def journal(self, request: Request) -> Response:
        """Show the state of the journal, and which requests are waiting."""
        return JSONResponse(await self._reader.run(self._journal))

    @endpoint("GET", "/api/v1/machines", forms.MachineList, timed=False)
    async def machines(self, request: Request) -> Response:
        """List what is rented."""
        moment, place = int(time.monotonic() / 5.0), place_of(request)
        found = await self._context.tasks.run("machines", {}, moment, place)
        return JSONResponse({**found, "holdings": await self._reader.run(self._reader.holdings)})

    @endpoint("GET", "/api/v1/alerts", forms.HookList)
    async def alerts(self, request: Request) -> Response:
        """Show what hooks for alerts were sent, what waits, and the last error, without addresses."""
        found = await self._reader.run(statuses_for_readers, self._reader.path)
        return JSONResponse({"hooks": [asdict(hook) for hook in found]})

    @endpoint("GET", "/healthz", forms.Health, role=None)
    async def health(self, request: Request) -> Response:
        """Say whether the engine is running, the lease is held and the disk is writable; 503 if not."""
        engine = self._context.engine
        found = {
            "engine_stepped": engine.is_well,
            "lease_held": await self._reader.run(lambda: self._reader.in_charge),
            "disk_writable": await self._reader.run(self._context.disk_is_writable),
        }
        well = all(found.values())
        return JSONResponse({"status": "ok" if well else "trouble", **found}, 200 if well else 503)

    @endpoint("GET", "/metrics", str, media="text/plain")
    async def metrics(self, request: Request) -> Response:
        """Show metrics in the text format of Prometheus."""
        lines = await self._reader.run(self._figures)
        return PlainTextResponse("\n".join(lines) + "\n", media_type=PROMETHEUS)

    def _figures(self) -> list[str]:
        engine, context = self._context.engine, self._context
        in_charge = self._reader.in_charge
        with self._reader.state() as state:
            lines = list(state_lines(state, in_charge=in_charge))
        held = context.listeners.held
        lines += family(
            "slacktide_engine_steps_total", "counter", "Steps of the engine.", [({}, engine.steps)]
        )
        lines += family("slacktide_listeners", "gauge", "Open streams of events.", [({}, held)])
        with suppress(SlacktideError):  # the hooks' file may be unreadable; show the other metrics then
            lines += hook_lines(engine.hooks())
        return [*lines, *engine.gaps.lines(), *context.counts.lines()]

    def _journal(self) -> dict[str, Any]:
        in_charge = self._reader.in_charge
        with self._reader.state() as state:
            waiting = [
                {"key": submission.key, "path": self._reader.paths.out_of(submission.path)}
                for submission in state.requests.waiting.values()
            ]
            return {
                "id": state.id,
                "seq": state.seq,
                "now_hours": self._context.engine.now_hours(),
                "speed": None if state.clock is None else state.clock.speed,
                "in_charge": in_charge,
                "backend": state.backend,
                "unfinished": list(state.unended),
                "waiting": waiting,
            }

    @endpoint("GET", "/api/v1/markets", forms.Markets, timed=False, query=MarketQuery)
    async def markets(self, request: Request) -> Response:
        """Show what pools offer now, and offered recently."""
        query = query_of(request, MarketQuery)
        # Rounded to a tenth of an hour on the market's clock, so that equal requests share one answer.
        now = round(self._context.engine.now_hours(), 1)
        question = {"now_hours": now, "slots": query.slots, "pool": query.pool}
        stamp, place = self._reader.fold().site is None, place_of(request)
        found = await self._context.tasks.run("markets", question, stamp, place)
        return JSONResponse(await self._reader.run(self._with_news, found))

    def _with_news(self, found: dict[str, Any]) -> dict[str, Any]:
        """Add to each pool when jobs last lost spot GPUs there, and when they last got too few."""
        with self._reader.state() as state:
            news = [state.news.get(pool["name"], PoolNews()) for pool in found["pools"]]
            trouble = self._reader.paths.out_of(state.feed_trouble)
        now = self._context.engine.now_hours()

        def ago(hours: float | None) -> float | None:  # so that clients need not know the market's clock
            return None if hours is None else max(0.0, now - hours)

        pools = [
            {
                **pool,
                "taken_hours_ago": ago(last.taken_hours),
                "taken_gpus": last.taken_gpus,
                "refused_hours_ago": ago(last.refused_hours),
                "refused_gpus": last.refused_gpus,
            }
            for pool, last in zip(found["pools"], news, strict=True)
        ]
        return {**found, "pools": pools, "feed_trouble": trouble}

    @endpoint("GET", "/api/v1/markets/forecast", forms.ForecastAnswer, timed=False, query=ForecastQuery)
    async def forecast(self, request: Request) -> Response:
        """Forecast a pool's offers with the model that plans use, and say how well that did recently."""
        query = query_of(request, ForecastQuery)
        now = float(int(self._context.engine.now_hours()))  # a forecast is reused for an hour
        question = {"now_hours": now, "pool": query.pool, "hours": query.hours}
        stamp, place = self._reader.fold().site is None, place_of(request)
        return JSONResponse(await self._context.tasks.run("forecast", question, stamp, place))

    @endpoint("GET", "/api/v1/fleet", forms.Fleets)
    async def fleet(self, request: Request) -> Response:
        """Show the fleets with their budgets."""
        return JSONResponse(await self._reader.run(self._reader.fleets))

    @endpoint("GET", "/api/v1/fleet/{fleet}/course", forms.FleetCourseAnswer)
    async def fleet_course(self, request: Request) -> Response:
        """Show the course of a fleet, for pictures: money spent and reserved, and the price of waiting."""
        return JSONResponse(await self._reader.run(self._reader.fleet_course, request.path_params["fleet"]))

    @endpoint("GET", LEARNED, dict[str, Any], timed=False, streams=True, query=LearnedQuery)
    async def learned(self, request: Request) -> Response:
        """Show which policies have earned the trust of `policy: auto`."""
        query = query_of(request, LearnedQuery)
        wants = [want for want in query.wants.split(",") if want]
        question = as_request(LearnedRequest, {"pool_of": query.pool_of, "wants": wants})
        return await self._run_task(request, "learned", question)

    @endpoint("POST", LEARNED, dict[str, Any], body=LearnRequest, role="submit", timed=False, streams=True)
    async def learn(self, request: Request) -> Response:
        """Start a job at random times of a market, and move trust to the policies that do well."""
        question = await body_of(request, LearnRequest)
        note(self._context.say, request, f"teaches policies with {question.name}")
        return await self._run_task(request, "learn", question)

    @endpoint("DELETE", LEARNED, status=204, role="submit", timed=False)
    async def forget(self, request: Request) -> Response:
        """Forget everything learned about policies."""
        await self._context.tasks.run("forget", {}, place=place_of(request))
        note(self._context.say, request, "forgot what was learned of policies")
        return Response(status_code=204)
