"""Routes that read the server as a whole: its journal, machines, alerts, health and metrics."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.alerts.verbs import statuses_for_readers
from slacktide.core.errors import SlacktideError
from slacktide.service.handler_context import Routes, place_of
from slacktide.service.metrics import family, hook_lines, state_lines
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import endpoint

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class ServerRoutes(Routes):
    """Answers to requests about the server as a whole."""

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
        return JSONResponse({"hooks": [asdict(one) for one in found]})

    @endpoint("GET", "/healthz", forms.Health, role=None)
    async def health(self, request: Request) -> Response:
        """Say whether the engine steps, the lease is held and the disk is writable; otherwise 503."""
        runner = self._context.runner
        found = {
            "engine_stepped": runner.is_well,
            "lease_held": await self._reader.run(lambda: self._reader.in_charge),
            "disk_writable": await self._reader.run(self._context.disk_is_writable),
        }
        well = all(found.values())
        return JSONResponse({"status": "ok" if well else "trouble", **found}, 200 if well else 503)

    @endpoint("GET", "/metrics", str, media="text/plain")
    async def metrics(self, request: Request) -> Response:
        """Figures for Prometheus."""
        lines = await self._reader.run(self._figures)
        return PlainTextResponse("\n".join(lines) + "\n", media_type=PROMETHEUS)

    def _figures(self) -> list[str]:
        runner, context = self._context.runner, self._context
        in_charge = self._reader.in_charge
        with self._reader.state() as state:
            lines = list(state_lines(state, in_charge=in_charge))
        own = (
            ("slacktide_engine_steps_total", "counter", "Steps of the engine.", runner.steps),
            ("slacktide_listeners", "gauge", "Open streams of events.", context.listeners.held),
        )
        for name, kind, said, value in own:
            lines += family(name, kind, said, [({}, value)])
        hooks = hook_lines(self._hooks())
        return [*lines, *hooks, *runner.gaps.lines(), *context.counts.lines()]

    def _hooks(self) -> list[HookStatus]:
        try:
            return self._context.runner.hooks()
        except SlacktideError:  # the file of the hooks is unreadable just now; the other figures are not
            return []

    def _journal(self) -> dict[str, Any]:
        in_charge, runner = self._reader.in_charge, self._context.runner
        with self._reader.state() as state:
            waiting = [
                {"key": submission.key, "path": self._context.without_paths(submission.path)}
                for submission in state.requests.waiting.values()
            ]
            return {
                "id": state.id,
                "seq": state.seq,
                "now_hours": runner.now_hours(),
                "speed": None if state.clock is None else state.clock.speed,
                "in_charge": in_charge,
                "backend": state.backend,
                "unfinished": list(state.unended),
                "waiting": waiting,
            }
