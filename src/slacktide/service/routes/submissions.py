"""Routes that change something or start work: sessions, submissions, plans, back-tests, uploads."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Annotated, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from slacktide.app.jobs import requests
from slacktide.app.task_requests import (
    BacktestRequest,
    LoginRequest,
    PlanRequest,
    PreemptRequest,
    SubmitRequest,
)
from slacktide.core.errors import BackendError
from slacktide.service.access import COOKIE, LASTING_S, error_body
from slacktide.service.handler_context import Routes
from slacktide.service.routes import forms
from slacktide.service.routes.endpoints import (
    JOB,
    MOST_WAIT_S,
    Query,
    body_of,
    caller_of,
    endpoint,
    note,
    query_of,
    says,
)
from slacktide.service.uploads.uploads import UploadCache

SESSION = "/api/v1/session"
WAIT_S = 20.0  # how long to wait for the answer to a submission unless the client says otherwise
UPLOAD = "/api/v1/uploads/{sha256}"
MARKET = "/api/v1/uploads/markets/{sha256}"


class WaitQuery(Query, frozen=True):
    """How long to wait for the controller's answer."""

    wait: (
        Annotated[float, says("Seconds to wait until the job is accepted or refused.", ge=0, le=MOST_WAIT_S)]
        | None
    ) = None

    def seconds(self, usual: float) -> float:
        """Return how long to wait: what the client requested, else the usual time of the address."""
        return usual if self.wait is None else self.wait


class SubmissionRoutes(Routes):
    """Answers requests that change something or start work."""

    @endpoint(
        "POST",
        "/api/v1/jobs",
        forms.Accepted,
        status=201,
        role="submit",
        body=SubmitRequest,
        query=WaitQuery,
        timed=False,
    )
    async def submit(self, request: Request) -> Response:
        """Submit a job. Requests with the same header Idempotency-Key submit one job, however often they are
        sent. Answers 202 if the job has not been accepted or refused yet."""
        submitted = await body_of(request, SubmitRequest)
        key = request.headers.get("idempotency-key", "") or secrets.token_hex(8)
        wait_s = query_of(request, WaitQuery).seconds(WAIT_S)
        await self._reader.run(self._reader.submit, submitted, key)
        note(self._context.say, request, f"submitted {key}")
        return await self._answered(key, wait_s, 201)

    @endpoint("GET", "/api/v1/requests/{key}", forms.Accepted, query=WaitQuery, timed=False)
    async def submission(self, request: Request) -> Response:
        """Show the answer to a submission; 202 while there is none yet."""
        key = request.path_params["key"]
        return await self._answered(key, query_of(request, WaitQuery).seconds(0.0), 200)

    async def _answered(self, key: str, wait_s: float, status: int) -> Response:
        answer = await self._context.answered(key, wait_s)
        if answer is None:
            return JSONResponse({"key": key, "job": None}, 202)
        if not answer.job:
            raise requests.refusal(answer)
        return JSONResponse({"key": key, "job": answer.job}, status)

    @endpoint("POST", f"{JOB}/cancel", forms.Cancelled, status=202, role="submit")
    async def cancel(self, request: Request) -> Response:
        """Cancel a job, or withdraw a submission by its key."""
        job = request.path_params["job"]
        withdrawn = await self._reader.run(self._reader.journal.cancel, job)
        note(self._context.say, request, f"cancelled {job}")
        return JSONResponse({"job": job, "withdrawn": withdrawn}, 202)

    @endpoint("POST", f"{JOB}/preempt", forms.Preempted, status=202, role="submit", body=PreemptRequest)
    async def preempt(self, request: Request) -> Response:
        """Take spot workers from a job, as the market would."""
        job, gpus = request.path_params["job"], (await body_of(request, PreemptRequest)).gpus
        await self._reader.run(self._reader.journal.preempt, job, gpus)
        note(self._context.say, request, f"preempted {job}")
        return JSONResponse({"job": job, "gpus": gpus}, 202)

    @endpoint("POST", "/api/v1/plan", dict[str, Any], body=PlanRequest, timed=False, streams=True)
    async def plan(self, request: Request) -> Response:
        """Say what a job would cost and when it would be done; spends nothing."""
        return await self._run_task(request, "plan", await body_of(request, PlanRequest))

    @endpoint("POST", "/api/v1/backtest", dict[str, Any], body=BacktestRequest, timed=False, streams=True)
    async def backtest(self, request: Request) -> Response:
        """Compare policies for a job on past market data."""
        return await self._run_task(request, "backtest", await body_of(request, BacktestRequest))

    @endpoint("GET", UPLOAD, forms.Uploaded, role="submit")
    async def uploaded(self, request: Request) -> Response:
        """Say whether a zipped working folder has been sent; 404 if not."""
        return await self._known(request, self._reader.uploads.zips)

    @endpoint("PUT", UPLOAD, forms.Uploaded, status=201, role="submit", body=bytes, timed=False)
    async def upload(self, request: Request) -> Response:
        """Send a zipped working folder, named by its SHA-256."""
        return await self._kept(request, self._reader.uploads.zips)

    @endpoint("GET", MARKET, forms.Uploaded)
    async def market_sent(self, request: Request) -> Response:
        """Say whether a market for plans and back-tests has been sent; 404 if not."""
        return await self._known(request, self._reader.uploads.markets)

    @endpoint("PUT", MARKET, forms.Uploaded, status=201, body=bytes, timed=False)
    async def send_market(self, request: Request) -> Response:
        """Send a market for plans and back-tests, as the command line does, named by its SHA-256."""
        return await self._kept(request, self._reader.uploads.markets)

    async def _known(self, request: Request, cache: UploadCache) -> Response:
        digest = request.path_params["sha256"]
        if await self._reader.run(cache.has, digest):
            return JSONResponse({"sha256": digest})
        return JSONResponse(error_body("NotFoundError", "there is no such upload", 2), 404)

    async def _kept(self, request: Request, cache: UploadCache) -> Response:
        """Write an upload to disk as it arrives, and keep it if its SHA-256 is right."""
        named, sender = request.path_params["sha256"], caller_of(request).name
        await self._reader.run(cache.has, named)
        with self._context.senders.one(sender):
            draft = await self._reader.run(cache.draft)
            try:
                digest = await self._written(request, draft, cache.most_bytes)
                await self._reader.run(cache.keep, draft, digest, named, sender)
            except OSError as error:
                raise BackendError(
                    f"the disk of the server must take an upload, got: {error.strerror}; notify its operator"
                ) from error
            finally:
                draft.unlink(missing_ok=True)
        note(self._context.say, request, f"uploaded {named[:12]}")
        return JSONResponse({"sha256": named}, 201)

    async def _written(self, request: Request, draft: Path, most_bytes: int) -> str:
        """Write a request's body to a file, and return its SHA-256."""
        digest, length = hashlib.sha256(), 0
        with draft.open("wb") as file:
            async for piece in request.stream():
                length += len(piece)
                if length > most_bytes:
                    raise HTTPException(413, f"a body must have at most {most_bytes} bytes, got more")
                digest.update(piece)
                await self._reader.run(file.write, piece)
        return digest.hexdigest()

    @endpoint("GET", SESSION, forms.SessionAnswer, role=None)
    async def session(self, request: Request) -> Response:
        """Say whose token this is."""
        who = caller_of(request)
        return JSONResponse({"name": who.name or None, "role": who.role})

    @endpoint("POST", SESSION, forms.SessionAnswer, status=201, role=None, body=LoginRequest)
    async def login(self, request: Request) -> Response:
        """Open a session for a browser: its id comes as a cookie."""
        keeper, address = self._context.keeper, request.client.host if request.client else "?"
        login = await body_of(request, LoginRequest)
        if keeper.failures.is_spent(address):
            return JSONResponse(error_body("TooMuchError", "too many wrong tokens; wait a minute", 4), 429)
        token = keeper.tokens.check(login.token)
        if token is None:
            keeper.failures.take(address)
            return JSONResponse(
                error_body("UnauthorizedError", "the token must be one of this server", 2), 401
            )
        answer = JSONResponse({"name": token.name, "role": token.role}, 201)
        answer.set_cookie(
            self._cookie,
            await self._reader.run(keeper.sessions.open, token.name, token.sha256),
            max_age=int(LASTING_S),
            path="/",
            httponly=True,
            secure=keeper.secure,
            samesite="strict",
        )
        return answer

    @endpoint("DELETE", SESSION, status=204, role=None)
    async def logout(self, request: Request) -> Response:
        """End the session."""
        await self._reader.run(self._context.keeper.sessions.close, caller_of(request).session)
        answer = Response(status_code=204)
        secure = self._context.keeper.secure
        answer.delete_cookie(self._cookie, path="/", httponly=True, secure=secure, samesite="strict")
        return answer

    @property
    def _cookie(self) -> str:
        """The prefix __Host- makes browsers accept the cookie only from this very host, and only over TLS."""
        return f"__Host-{COOKIE}" if self._context.keeper.secure else COOKIE
