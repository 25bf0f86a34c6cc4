"""Routes for what all jobs share: the market with its forecasts, fleets with their money, and trust in
policies."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from slacktide.app.costs.fleet_money import fleets
from slacktide.app.markets.market_now import MOST_SLOTS
from slacktide.app.markets.pool_forecast import MOST_HOURS
from slacktide.app.task_requests import LearnedRequest, LearnRequest, PoolName, as_request
from slacktide.journal.state.pool_news import PoolNews
from slacktide.report.wire import values
from slacktide.service.handler_context import Routes, place_of
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import Query, body_of, endpoint, note, query_of, says

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


class MarketRoutes(Routes):
    """Answers to requests about the market, fleets, and what was learned of policies."""

    @endpoint("GET", "/api/v1/markets", forms.Markets, timed=False, query=MarketQuery)
    async def markets(self, request: Request) -> Response:
        """Show what pools offer now, and offered recently."""
        query = query_of(request, MarketQuery)
        # Rounded to a tenth of an hour on the market's clock, so that equal requests share one answer.
        now = round(self._context.runner.now_hours(), 1)
        question = {"now_hours": now, "slots": query.slots, "pool": query.pool}
        stamp, place = self._reader.fold().site is None, place_of(request)
        found = await self._context.tasks.run("markets", question, stamp, place)
        return JSONResponse(await self._reader.run(self._with_news, found))

    def _with_news(self, found: dict[str, Any]) -> dict[str, Any]:
        """Add to each pool the last losses and refusals of jobs in it."""
        with self._reader.state() as state:
            news = {pool["name"]: state.news.pools.get(pool["name"], PoolNews()) for pool in found["pools"]}
            trouble = self._context.without_paths(state.feed_trouble)
        now = self._context.runner.now_hours()
        pools = [{**pool, **_ago(news[pool["name"]], now)} for pool in found["pools"]]
        return {**found, "pools": pools, "feed_trouble": trouble}

    @endpoint("GET", "/api/v1/markets/forecast", forms.ForecastAnswer, timed=False, query=ForecastQuery)
    async def forecast(self, request: Request) -> Response:
        """Show what a pool will probably offer, by the model of plans, and how that did recently."""
        query = query_of(request, ForecastQuery)
        now = float(int(self._context.runner.now_hours()))  # a forecast holds for an hour
        question = {"now_hours": now, "pool": query.pool, "hours": query.hours}
        stamp, place = self._reader.fold().site is None, place_of(request)
        return JSONResponse(await self._context.tasks.run("forecast", question, stamp, place))

    @endpoint("GET", "/api/v1/fleet", forms.Fleets)
    async def fleet(self, request: Request) -> Response:
        """Show the fleets with their budgets."""
        return JSONResponse(await self._reader.run(self._fleets))

    @endpoint("GET", "/api/v1/fleet/{fleet}/course", forms.FleetCourseAnswer)
    async def fleet_course(self, request: Request) -> Response:
        """Show the course of a fleet: what it spent, kept and paid for time, for pictures."""
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

    def _fleets(self) -> dict[str, Any]:
        with self._reader.state() as state:
            return {"fleets": values.plain(fleets(state)), "file": self._reader.fleet_file}


def _ago(news: PoolNews, now_hours: float) -> dict[str, Any]:
    """Return how long ago these were: a reader need not know the market's clock."""
    taken, refused = (
        None if hours is None else max(0.0, now_hours - hours)
        for hours in (news.taken_hours, news.refused_hours)
    )
    return {
        "taken_hours_ago": taken,
        "taken_gpus": news.taken_gpus,
        "refused_hours_ago": refused,
        "refused_gpus": news.refused_gpus,
    }
