"""Requests that ask for something to be done: sessions, submissions, plans, back-tests, uploads."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from slacktide.app.jobs import requests
from slacktide.app.questions import BacktestQuestion, PlanQuestion
from slacktide.core.errors import BackendError, InputError
from slacktide.service.access.gate import error_body, refused
from slacktide.service.access.sessions import COOKIE, LASTING_S
from slacktide.service.routes import forms
from slacktide.service.routes.awaiting import questioned
from slacktide.service.routes.endpoints import (
    JOB,
    MOST_WAIT_S,
    Endpoint,
    Param,
    body_of,
    note,
    number,
    who_asks,
)
from slacktide.service.service import Service
from slacktide.service.uploads.shelf import Shelf
from slacktide.service.uploads.uploads import SubmitRequest

SESSION = "/api/v1/session"
WAIT_S = 20.0
"""How long an answer to a submission is waited for unless the caller says otherwise."""
WAIT = Param("wait", "number", "Seconds to wait until the job is accepted or refused.", 0, MOST_WAIT_S)
UPLOAD = "/api/v1/uploads/{sha256}"
MARKET = "/api/v1/uploads/markets/{sha256}"


class Writing:
    """Answers to requests that ask for something."""

    def __init__(self, service: Service) -> None:
        self._service, self._desk = service, service.desk

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield every address."""
        yield Endpoint(
            method="POST",
            path="/api/v1/jobs",
            handler=self.submit,
            answer=forms.Accepted,
            status=201,
            role="submit",
            body=SubmitRequest,
            query=(WAIT,),
            timed=False,
            says="Submit a job. The header Idempotency-Key names the request: the same key is the same job, "
            "however often it is sent. 202 where it was not answered yet.",
        )
        yield Endpoint(
            method="GET",
            path="/api/v1/requests/{key}",
            handler=self.asked,
            answer=forms.Accepted,
            query=(WAIT,),
            timed=False,
            says="Show the answer to a submission; 202 while it waits.",
        )
        yield Endpoint(
            method="POST",
            path=f"{JOB}/cancel",
            handler=self.cancel,
            answer=forms.Cancelled,
            status=202,
            role="submit",
            says="Cancel a job, or withdraw a submission by its key.",
        )
        yield Endpoint(
            method="POST",
            path=f"{JOB}/preempt",
            handler=self.preempt,
            answer=forms.Preempted,
            status=202,
            role="submit",
            body=forms.PreemptRequest,
            says="Take spot workers from a job, as the market would.",
        )
        yield Endpoint(
            method="POST",
            path="/api/v1/plan",
            handler=self.plan,
            answer=dict[str, Any],
            body=PlanQuestion,
            timed=False,
            streams=True,
            says="Say what a job would cost and when it would be done; spends nothing.",
        )
        yield Endpoint(
            method="POST",
            path="/api/v1/backtest",
            handler=self.backtest,
            answer=dict[str, Any],
            body=BacktestQuestion,
            timed=False,
            streams=True,
            says="Compare policies for a job on past market data.",
        )
        yield Endpoint(
            method="GET",
            path=UPLOAD,
            handler=self.uploaded,
            answer=forms.Uploaded,
            role="submit",
            says="Say whether a zipped working folder is here; 404 where it is not.",
        )
        yield Endpoint(
            method="PUT",
            path=UPLOAD,
            handler=self.upload,
            answer=forms.Uploaded,
            status=201,
            role="submit",
            body=bytes,
            timed=False,
            says="Send a zipped working folder, named by its SHA-256.",
        )
        yield Endpoint(
            method="GET",
            path=MARKET,
            handler=self.market_sent,
            answer=forms.Uploaded,
            says="Say whether a market is here that was sent for plans and back-tests; 404 where it is not.",
        )
        yield Endpoint(
            method="PUT",
            path=MARKET,
            handler=self.send_market,
            answer=forms.Uploaded,
            status=201,
            body=bytes,
            timed=False,
            says="Send a market for plans and back-tests, as the command line does, named by its SHA-256.",
        )
        yield Endpoint(
            method="GET",
            path=SESSION,
            handler=self.session,
            answer=forms.SessionAnswer,
            role=None,
            says="Say whose token this is.",
        )
        yield Endpoint(
            method="POST",
            path=SESSION,
            handler=self.login,
            answer=forms.SessionAnswer,
            status=201,
            role=None,
            body=forms.LoginRequest,
            says="Open a session for a browser: its id comes as a cookie.",
        )
        yield Endpoint(
            method="DELETE", path=SESSION, handler=self.logout, status=204, role=None, says="End the session."
        )

    async def submit(self, request: Request) -> Response:
        """Submit a job."""
        asked = await body_of(request, SubmitRequest)
        key = request.headers.get("idempotency-key", "") or secrets.token_hex(8)
        wait_s = number(request, "wait", WAIT_S, MOST_WAIT_S)
        await self._desk.run(self._desk.submit, asked, key)
        note(self._service.say, request, f"submitted {key}")
        return await self._answered(key, wait_s, 201)

    async def asked(self, request: Request) -> Response:
        """Show what became of a submission."""
        key = request.path_params["key"]
        return await self._answered(key, number(request, "wait", 0.0, MOST_WAIT_S), 200)

    async def _answered(self, key: str, wait_s: float, status: int) -> Response:
        answer = await self._service.answered(key, wait_s)
        if answer is None:
            return JSONResponse({"key": key, "job": None}, 202)
        if not answer.job:
            raise requests.refusal(answer)
        return JSONResponse({"key": key, "job": answer.job}, status)

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        job = request.path_params["job"]
        withdrawn = await self._desk.run(self._desk.journal.cancel, job)
        note(self._service.say, request, f"cancelled {job}")
        return JSONResponse({"job": job, "withdrawn": withdrawn}, 202)

    async def preempt(self, request: Request) -> Response:
        """Take spot workers from a job."""
        job, gpus = request.path_params["job"], (await body_of(request, forms.PreemptRequest)).gpus
        if gpus is not None and gpus < 1:
            raise InputError(f"gpus must be >= 1, got {gpus}")
        await self._desk.run(self._desk.journal.preempt, job, gpus)
        note(self._service.say, request, f"preempted {job}")
        return JSONResponse({"job": job, "gpus": gpus}, 202)

    async def plan(self, request: Request) -> Response:
        """Plan a job."""
        return await questioned(self._service, request, "plan", await body_of(request, PlanQuestion))

    async def backtest(self, request: Request) -> Response:
        """Back-test a job."""
        return await questioned(self._service, request, "backtest", await body_of(request, BacktestQuestion))

    async def uploaded(self, request: Request) -> Response:
        """Say whether a working folder is here."""
        return await self._known(request, self._desk.uploads.zips)

    async def upload(self, request: Request) -> Response:
        """Keep a working folder that is sent."""
        return await self._kept(request, self._desk.uploads.zips)

    async def market_sent(self, request: Request) -> Response:
        """Say whether a market is here."""
        return await self._known(request, self._desk.uploads.markets)

    async def send_market(self, request: Request) -> Response:
        """Keep a market that is sent."""
        return await self._kept(request, self._desk.uploads.markets)

    async def _known(self, request: Request, shelf: Shelf) -> Response:
        digest = request.path_params["sha256"]
        if await self._desk.run(shelf.has, digest):
            return JSONResponse({"sha256": digest})
        return JSONResponse(error_body("NotFoundError", "there is no such upload", 2), 404)

    async def _kept(self, request: Request, shelf: Shelf) -> Response:
        """Keep a file that is sent, piece by piece."""
        said, sender = request.path_params["sha256"], who_asks(request).name
        await self._desk.run(shelf.has, said)
        with self._service.senders.one(sender):
            return await self._written(request, shelf, said, sender)

    async def _written(self, request: Request, shelf: Shelf, said: str, sender: str) -> Response:
        draft, digest, held = await self._desk.run(shelf.draft), hashlib.sha256(), 0
        try:
            with draft.open("wb") as file:
                async for piece in request.stream():
                    held += len(piece)
                    if held > shelf.most_bytes:
                        return refused(413, f"a body must have at most {shelf.most_bytes} bytes, got more")
                    digest.update(piece)
                    await self._desk.run(file.write, piece)
            await self._desk.run(shelf.keep, draft, digest.hexdigest(), said, sender)
        except OSError as error:
            raise BackendError(
                f"the disk of the server must take an upload, got: {error.strerror}; tell its operator"
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        note(self._service.say, request, f"uploaded {said[:12]}")
        return JSONResponse({"sha256": said}, 201)

    async def session(self, request: Request) -> Response:
        """Say whose token this is."""
        who = who_asks(request)
        return JSONResponse({"name": who.name or None, "role": who.role})

    async def login(self, request: Request) -> Response:
        """Open a session."""
        keeper, address = self._service.keeper, request.client.host if request.client else "?"
        asked = await body_of(request, forms.LoginRequest)
        if keeper.failures.is_spent(address):
            return JSONResponse(error_body("TooMuchError", "too many wrong tokens; wait a minute", 4), 429)
        token = keeper.tokens.check(asked.token)
        if token is None:
            keeper.failures.take(address)
            return JSONResponse(
                error_body("UnauthorizedError", "the token must be one of this server", 2), 401
            )
        answer = JSONResponse({"name": token.name, "role": token.role}, 201)
        answer.set_cookie(
            self._cookie,
            await self._desk.run(keeper.sessions.open, token.name, token.sha256),
            max_age=int(LASTING_S),
            path="/",
            httponly=True,
            secure=keeper.secure,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session."""
        await self._desk.run(self._service.keeper.sessions.close, who_asks(request).session)
        answer = Response(status_code=204)
        secure = self._service.keeper.secure
        answer.delete_cookie(self._cookie, path="/", httponly=True, secure=secure, samesite="strict")
        return answer

    @property
    def _cookie(self) -> str:
        """Browsers let only the very host set a cookie of this prefix, and only by TLS."""
        return f"__Host-{COOKIE}" if self._service.keeper.secure else COOKIE
