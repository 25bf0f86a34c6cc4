"""Requests that only look at the server as a whole: its journal, machines, alerts, health and figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from slacktide.app.alerts.sending.outbox import HookStatus
from slacktide.app.alerts.sending.verbs import statuses_for_readers
from slacktide.core.errors import SlacktideError
from slacktide.service.metrics import family, hook_lines, world_lines
from slacktide.service.routes import forms
from slacktide.service.routes.awaiting import place_of
from slacktide.service.routes.endpoints import Endpoint
from slacktide.service.service import Service

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Overview:
    """Answers to requests about the server as a whole."""

    def __init__(self, service: Service) -> None:
        self._service, self._desk = service, service.desk

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        yield Endpoint(
            method="GET",
            path="/api/v1/journal",
            handler=self.journal,
            answer=forms.JournalAnswer,
            says="Show the state of the journal, and which requests are waiting.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/machines",
            handler=self.machines,
            answer=forms.MachineList,
            timed=False,
            says="List what is rented.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/alerts",
            handler=self.alerts,
            answer=forms.HookList,
            says="Show what hooks for alerts were sent, what waits, and the last error, without addresses.",
        )
        yield Endpoint(
            method="GET",
            path="/healthz",
            handler=self.health,
            answer=forms.Health,
            role=None,
            says="Say whether the engine steps, the lease is held and the disk is writable; otherwise 503.",
        )
        yield Endpoint(
            method="GET",
            path="/metrics",
            handler=self.metrics,
            answer=str,
            media="text/plain",
            says="Figures for Prometheus.",
        )

    async def journal(self, request: Request) -> Response:
        """Show where the journal stands."""
        return JSONResponse(await self._desk.run(self._journal))

    async def machines(self, request: Request) -> Response:
        """List what is rented."""
        moment, place = int(time.monotonic() / 5.0), place_of(request)
        found = await self._service.asker.ask("machines", {}, moment, place)
        return JSONResponse({**found, "holdings": await self._desk.run(self._desk.holdings)})

    async def alerts(self, request: Request) -> Response:
        """Show where the hooks for alerts stand."""
        found = await self._desk.run(statuses_for_readers, self._desk.path)
        return JSONResponse({"hooks": [asdict(one) for one in found]})

    async def health(self, request: Request) -> Response:
        """Say whether all is well."""
        runner = self._service.runner
        found = {
            "engine_stepped": runner.is_well,
            "lease_held": await self._desk.run(lambda: self._desk.in_charge),
            "disk_writable": await self._desk.run(self._service.disk_is_writable),
        }
        well = all(found.values())
        return JSONResponse({"status": "ok" if well else "trouble", **found}, 200 if well else 503)

    async def metrics(self, request: Request) -> Response:
        """Tell figures."""
        lines = await self._desk.run(self._figures)
        return PlainTextResponse("\n".join(lines) + "\n", media_type=PROMETHEUS)

    def _figures(self) -> list[str]:
        runner, service = self._service.runner, self._service
        in_charge = self._desk.in_charge
        with self._desk.world() as world:
            lines = list(world_lines(world, in_charge=in_charge))
        own = (
            ("slacktide_engine_steps_total", "counter", "Steps of the engine.", runner.steps),
            ("slacktide_listeners", "gauge", "Open streams of events.", service.listeners.held),
        )
        for name, kind, said, value in own:
            lines += family(name, kind, said, [({}, value)])
        hooks = hook_lines(self._hooks())
        return [*lines, *hooks, *runner.gaps.lines(), *service.counts.lines()]

    def _hooks(self) -> list[HookStatus]:
        try:
            return self._service.runner.hooks()
        except SlacktideError:  # its own file cannot be read just now; all else can be told
            return []

    def _journal(self) -> dict[str, Any]:
        in_charge, runner = self._desk.in_charge, self._service.runner
        with self._desk.world() as world:
            waiting = [
                {"key": asked.key, "path": self._service.without_paths(asked.path)}
                for asked in world.requests.waiting.values()
            ]
            return {
                "id": world.id,
                "seq": world.seq,
                "now_hours": runner.now_hours(),
                "speed": None if world.clock is None else world.clock.speed,
                "in_charge": in_charge,
                "backend": world.backend,
                "unfinished": list(world.unended),
                "waiting": waiting,
            }
