"""Requests about what all jobs share: the market with its forecasts, fleets with their money, and trust in
policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from slacktide.app.costs.fleet_money import fleets
from slacktide.app.markets.market_now import MOST_SLOTS
from slacktide.app.markets.pool_forecast import MOST_HOURS
from slacktide.app.questions import LearnedQuestion, LearnQuestion, PoolName, read_as
from slacktide.journal.state.pool_news import PoolNews
from slacktide.report.wire import values
from slacktide.service.routes import forms
from slacktide.service.routes.awaiting import place_of, questioned
from slacktide.service.routes.endpoints import Endpoint, Param, body_of, note, whole
from slacktide.service.service import Service

LEARNED = "/api/v1/learned"
POOLS: tuple[str, ...] = get_args(PoolName)


class Surroundings:
    """Answers to requests about the market, fleets, and what was learned of policies."""

    def __init__(self, service: Service) -> None:
        self._service, self._desk = service, service.desk

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        yield Endpoint(
            method="GET",
            path="/api/v1/markets",
            handler=self.markets,
            answer=forms.Markets,
            timed=False,
            says="Show what pools offer now, and offered recently.",
            query=(
                Param("slots", "integer", "How many slots up to now.", 1, MOST_SLOTS),
                Param("pool", "string", "Only this pool."),
            ),
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/markets/forecast",
            handler=self.forecast,
            answer=forms.ForecastAnswer,
            timed=False,
            says="Show what a pool will probably offer, by the model of plans, and how that did recently.",
            query=(
                Param("pool", "string", "Which pool."),
                Param("hours", "integer", "How far ahead; 24 by default.", 1, MOST_HOURS),
            ),
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/fleet",
            handler=self.fleet,
            answer=forms.Fleets,
            says="Show the fleets with their budgets.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/fleet/{fleet}/course",
            handler=self.fleet_course,
            answer=forms.FleetCourseAnswer,
            says="Show the course of a fleet: what it spent, kept and paid for time, for pictures.",
        )

        yield Endpoint(
            method="GET",
            path=LEARNED,
            handler=self.learned,
            answer=dict[str, Any],
            timed=False,
            streams=True,
            says="Show which policies have earned the trust of `policy: auto`.",
            query=(
                Param("pool_of", "string", "What to choose from where nothing is learned.", among=POOLS),
                Param("wants", "string", "What else to make of it: text, png, svg, pdf, with commas."),
            ),
        )
        yield Endpoint(
            method="POST",
            path=LEARNED,
            handler=self.learn,
            answer=dict[str, Any],
            body=LearnQuestion,
            role="submit",
            timed=False,
            streams=True,
            says="Start a job at random times of a market, and move trust to the policies that do well.",
        )
        yield Endpoint(
            method="DELETE",
            path=LEARNED,
            handler=self.forget,
            status=204,
            role="submit",
            timed=False,
            says="Forget everything learned about policies.",
        )

    async def learned(self, request: Request) -> Response:
        """Show which policies have earned trust."""
        given = request.query_params
        wants = [want for want in given.get("wants", "").split(",") if want]
        question = read_as(LearnedQuestion, {"pool_of": given.get("pool_of"), "wants": wants})
        return await questioned(self._service, request, "learned", question)

    async def learn(self, request: Request) -> Response:
        """Teach the choice among policies."""
        question = await body_of(request, LearnQuestion)
        note(self._service.say, request, f"teaches policies with {question.name}")
        return await questioned(self._service, request, "learn", question)

    async def forget(self, request: Request) -> Response:
        """Forget what was learned."""
        await self._service.asker.ask("forget", {}, place=place_of(request))
        note(self._service.say, request, "forgot what was learned of policies")
        return Response(status_code=204)

    async def markets(self, request: Request) -> Response:
        """Show what pools offer."""
        slots, pool = whole(request, "slots", 1, 1, MOST_SLOTS), request.query_params.get("pool", "")
        # A tenth of an hour of the market's clock is taken as one moment.
        now = round(self._service.runner.now_hours(), 1)
        asked = {"now_hours": now, "slots": slots, "pool": pool}
        stamp, place = self._desk.fold().site is None, place_of(request)
        found = await self._service.asker.ask("markets", asked, stamp, place)
        return JSONResponse(await self._desk.run(self._with_news, found))

    def _with_news(self, found: dict[str, Any]) -> dict[str, Any]:
        """Put what befell jobs in each pool beside what it offers."""
        with self._desk.world() as world:
            news = {pool["name"]: world.news.pools.get(pool["name"], PoolNews()) for pool in found["pools"]}
            trouble = self._service.without_paths(world.feed_trouble)
        now = self._service.runner.now_hours()
        pools = [{**pool, **_ago(news[pool["name"]], now)} for pool in found["pools"]]
        return {**found, "pools": pools, "feed_trouble": trouble}

    async def forecast(self, request: Request) -> Response:
        """Show what a pool will probably offer."""
        hours = whole(request, "hours", 24, 1, int(MOST_HOURS))
        now = float(int(self._service.runner.now_hours()))  # a forecast holds for an hour
        asked = {"now_hours": now, "pool": request.query_params.get("pool", ""), "hours": hours}
        stamp, place = self._desk.fold().site is None, place_of(request)
        return JSONResponse(await self._service.asker.ask("forecast", asked, stamp, place))

    async def fleet(self, request: Request) -> Response:
        """Show the fleets."""
        return JSONResponse(await self._desk.run(self._fleets))

    async def fleet_course(self, request: Request) -> Response:
        """Show the course of a fleet."""
        return JSONResponse(await self._desk.run(self._desk.fleet_course, request.path_params["fleet"]))

    def _fleets(self) -> dict[str, Any]:
        with self._desk.world() as world:
            return {"fleets": values.plain(fleets(world)), "file": self._desk.fleet_file}


def _ago(news: PoolNews, now_hours: float) -> dict[str, Any]:
    """Say how long ago it was, which needs no clock to be understood."""
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
